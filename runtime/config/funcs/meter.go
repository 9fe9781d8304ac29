package funcs

import (
	"fmt"
	"reflect"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Bounds of one expression. They are far above what a configuration needs, and far below
// what harms a machine: a slip in a loop must not end the process.
const (
	MaxSteps = 100_000 // elements that all for expressions visit together
	MaxText  = 8 << 20 // bytes of text, in templates and in a value as a whole
)

// elementCost is what an element of a collection counts for, in bytes.
const elementCost = 16

// Meter counts what one evaluation of an expression does. It belongs to one goroutine.
type Meter struct {
	steps, text int
	at          *hcl.Range // of what went over a bound, nil if nothing did
	err         *Error
}

// meterName is where a context holds its meter; no expression can name it.
const meterName = "\x00meter"

// Metered is a child of ctx in which guarded expressions count.
func Metered(ctx *hcl.EvalContext) (*hcl.EvalContext, *Meter) {
	m := &Meter{}
	child := ctx.NewChild()
	child.Variables = map[string]cty.Value{meterName: cty.CapsuleVal(cty.Capsule("meter", reflect.TypeFor[Meter]()), m)}
	return child, m
}

// Spent says what was too much, and where; nil if nothing was.
func (m *Meter) Spent() (*Error, *hcl.Range) { return m.err, m.at }

func (m *Meter) spend(at hcl.Range, err *Error) {
	if m.err == nil {
		m.at, m.err = &at, err
	}
}

func meterOf(ctx *hcl.EvalContext) *Meter {
	for ; ctx != nil; ctx = ctx.Parent() {
		if v, ok := ctx.Variables[meterName]; ok {
			m, _ := v.EncapsulatedValue().(*Meter)
			return m
		}
	}
	return nil
}

// Guard makes the loops and templates below a node count and stop at the bounds. It
// changes the node, so it is called once, before the node is shared.
func Guard(n hclsyntax.Node) {
	_ = hclsyntax.VisitAll(n, func(n hclsyntax.Node) hcl.Diagnostics {
		switch n := n.(type) {
		case *hclsyntax.ForExpr:
			n.ValExpr = &metered{parenthesized(n.ValExpr), cty.DynamicVal}
			if n.CondExpr != nil {
				n.CondExpr = &metered{parenthesized(n.CondExpr), cty.False}
			}
		case *hclsyntax.TemplateExpr:
			for i, p := range n.Parts {
				if _, fixed := p.(*hclsyntax.LiteralValueExpr); !fixed && len(n.Parts) > 1 {
					n.Parts[i] = &metered{parenthesized(p), cty.StringVal("")}
				}
			}
		}
		return nil
	})
}

// parenthesized keeps the expression visible to those who walk over the tree.
func parenthesized(e hclsyntax.Expression) hclsyntax.ParenthesesExpr {
	return hclsyntax.ParenthesesExpr{Expression: e, SrcRange: e.Range()}
}

// metered is an expression that may be evaluated many times or grow a text. Once the
// meter is spent its value is instead, so that what still runs ends soon; the caller
// asks the meter, since try and can would hide an error.
type metered struct {
	hclsyntax.ParenthesesExpr
	instead cty.Value
}

// Value evaluates the expression and counts it.
func (e *metered) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	m := meterOf(ctx)
	if m == nil {
		return e.Expression.Value(ctx)
	}
	if m.steps++; m.steps > MaxSteps {
		m.spend(e.SrcRange, &Error{
			Summary: "Invalid loop",
			Detail:  fmt.Sprintf("The loops of this expression visit more than %d elements together, which is the most there may be. Loops in loops multiply: loop over less.", MaxSteps),
		})
	}
	if m.err != nil {
		return e.instead, nil
	}
	v, diags := e.Expression.Value(ctx)
	if bare, _ := v.Unmark(); bare.Type() == cty.String && bare.IsKnown() && !bare.IsNull() {
		if m.text += len(bare.AsString()); m.text > MaxText {
			m.spend(e.SrcRange, tooMuchText())
		}
	}
	return v, diags
}

func tooMuchText() *Error {
	return &Error{
		Summary: "Invalid size",
		Detail:  fmt.Sprintf("The value grows beyond %d MiB, which is the most one expression may make.", MaxText>>20),
	}
}

// CheckSize refuses a value with more than [MaxText] bytes, counting shared parts as
// often as they stand in it: whoever writes the value out writes them as often.
func CheckSize(v cty.Value) error {
	if left := MaxText; !fits(v, &left) {
		return tooMuchText()
	}
	return nil
}

func fits(v cty.Value, left *int) bool {
	v, _ = v.Unmark()
	*left -= elementCost
	switch {
	case v.IsNull() || !v.IsKnown():
	case v.Type() == cty.String:
		*left -= len(v.AsString())
	case v.CanIterateElements():
		for it := v.ElementIterator(); *left >= 0 && it.Next(); {
			key, e := it.Element()
			if key.Type() == cty.String {
				key, _ = key.Unmark()
				*left -= len(key.AsString())
			}
			fits(e, left)
		}
	}
	return *left >= 0
}
