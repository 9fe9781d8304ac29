package config

import (
	"encoding/json"
	"math/big"
	"strconv"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/hermes-runtime/hermes/runtime/schema"
)

// quick evaluates a plain comparison, or a combination of such, on the values as they are:
// most conditions of policies are that, and are asked at every call. It is false where the
// language has more to say than comparing two texts, two whole numbers or two truth values:
// null, other types, large numbers, texts beyond ASCII, errors. Then the language says it.
type quick func(c *converted) (any, bool)

// quickOf compiles an expression; nil if it is none of those.
func (e *lateExpr) quickOf(expr hclsyntax.Expression) quick {
	switch x := expr.(type) {
	case *hclsyntax.ParenthesesExpr:
		return e.quickOf(x.Expression)
	case *hclsyntax.LiteralValueExpr:
		return constant(x.Val)
	case *hclsyntax.TemplateExpr:
		if v, diags := x.Value(nil); x.IsStringLiteral() && !diags.HasErrors() {
			return constant(v)
		}
	case *hclsyntax.ScopeTraversalExpr:
		return e.quickVariable(x)
	case *hclsyntax.UnaryOpExpr:
		if x.Op == hclsyntax.OpLogicalNot {
			return negation(e.quickOf(x.Val))
		}
	case *hclsyntax.BinaryOpExpr:
		return operation(x.Op, e.quickOf(x.LHS), e.quickOf(x.RHS))
	}
	return nil
}

// constant is a value that does not depend on the call.
func constant(v cty.Value) quick {
	x, ok := primitive(v)
	if !ok {
		return nil
	}
	return func(*converted) (any, bool) { return x, true }
}

// primitive is a known text in ASCII, a truth value, or a whole number of 64 bits.
func primitive(v cty.Value) (any, bool) {
	if v.IsMarked() || !v.IsKnown() || v.IsNull() {
		return nil, false
	}
	switch v.Type() {
	case cty.String:
		return v.AsString(), ascii(v.AsString())
	case cty.Bool:
		return v.True(), true
	case cty.Number:
		n, exact := v.AsBigFloat().Int64()
		return n, exact == big.Exact
	}
	return nil, false
}

// ascii says that a text is the same however its characters are put together.
func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

func (e *lateExpr) quickVariable(x *hclsyntax.ScopeTraversalExpr) quick {
	if root := x.Traversal.RootName(); root == "var" || root == "local" {
		v, diags := x.Value(e.ctx)
		if diags.HasErrors() {
			return nil
		}
		return constant(v)
	}
	names := make([]string, len(x.Traversal))
	for i, step := range x.Traversal {
		switch s := step.(type) {
		case hcl.TraverseRoot:
			names[i] = s.Name
		case hcl.TraverseAttr:
			names[i] = s.Name
		default:
			return nil
		}
	}
	return func(c *converted) (any, bool) { return c.plainly(names) }
}

// plainly is the value at a path, if it is one that can be compared as it is. Needs mu.
func (c *converted) plainly(path []string) (any, bool) {
	v, ok := c.raw(path[0])
	for _, name := range path[1:] {
		if !ok {
			return nil, false
		}
		switch m := v.(type) {
		case map[string]any:
			v, ok = m[name]
		case map[string]string:
			v, ok = m[name]
		default:
			return nil, false
		}
	}
	switch v := v.(type) {
	case bool:
		return v, ok
	case string:
		return v, ok && ascii(v)
	case int:
		return int64(v), ok
	case int64:
		return v, ok
	case json.Number:
		n, err := strconv.ParseInt(v.String(), 10, 64)
		return n, ok && err == nil
	}
	return nil, false
}

// raw is a variable before the language has it, arguments decoded. Needs mu.
func (c *converted) raw(name string) (any, bool) {
	for _, r := range c.plain {
		if r.name == name {
			return r.value, r.ok
		}
	}
	v, ok := c.scope.Var(name)
	if raw, is := v.(json.RawMessage); is {
		decoded, err := schema.Decode(raw)
		v, ok = decoded, ok && err == nil
	}
	c.plain = append(c.plain, rawVariable{name, v, ok})
	return v, ok
}

// rawVariable is a variable of a scope as it was given, arguments decoded.
type rawVariable struct {
	name  string
	value any
	ok    bool
}

func negation(of quick) quick {
	if of == nil {
		return nil
	}
	return func(c *converted) (any, bool) {
		v, ok := of(c)
		b, is := v.(bool)
		return !b, ok && is
	}
}

// operation evaluates both sides always: one that cannot be said leaves it to the language.
func operation(op *hclsyntax.Operation, left, right quick) quick {
	if left == nil || right == nil {
		return nil
	}
	var apply func(l, r any) (bool, bool)
	switch op {
	case hclsyntax.OpLogicalAnd:
		apply = func(l, r any) (bool, bool) { a, b, ok := both[bool](l, r); return a && b, ok }
	case hclsyntax.OpLogicalOr:
		apply = func(l, r any) (bool, bool) { a, b, ok := both[bool](l, r); return a || b, ok }
	case hclsyntax.OpEqual:
		apply = equal
	case hclsyntax.OpNotEqual:
		apply = func(l, r any) (bool, bool) { same, ok := equal(l, r); return !same, ok }
	case hclsyntax.OpLessThan:
		apply = func(l, r any) (bool, bool) { a, b, ok := both[int64](l, r); return a < b, ok }
	case hclsyntax.OpLessThanOrEqual:
		apply = func(l, r any) (bool, bool) { a, b, ok := both[int64](l, r); return a <= b, ok }
	case hclsyntax.OpGreaterThan:
		apply = func(l, r any) (bool, bool) { a, b, ok := both[int64](l, r); return a > b, ok }
	case hclsyntax.OpGreaterThanOrEqual:
		apply = func(l, r any) (bool, bool) { a, b, ok := both[int64](l, r); return a >= b, ok }
	default:
		return nil
	}
	return func(c *converted) (any, bool) {
		l, ok := left(c)
		if !ok {
			return nil, false
		}
		r, ok := right(c)
		if !ok {
			return nil, false
		}
		return apply(l, r)
	}
}

func both[T any](l, r any) (a, b T, ok bool) {
	a, first := l.(T)
	b, second := r.(T)
	return a, b, first && second
}

// equal compares values of one type.
func equal(l, r any) (same, ok bool) {
	switch l := l.(type) {
	case string:
		r, is := r.(string)
		return l == r, is
	case int64:
		r, is := r.(int64)
		return l == r, is
	case bool:
		r, is := r.(bool)
		return l == r, is
	}
	return false, false
}
