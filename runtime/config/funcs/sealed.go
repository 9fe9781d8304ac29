package funcs

import (
	"errors"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/customdecode"
	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// Sealed are the pure functions for expressions of strangers: none takes a mark off a
// value, and what can and try find out about a sensitive value is sensitive too.
func Sealed() map[string]function.Function {
	out := maps.Clone(Pure())
	out["nonsensitive"], out["can"], out["try"] = sealedFunc(), sealedCan(), sealedTry()
	return out
}

func sealedFunc() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{
			Name: "value", Type: cty.DynamicPseudoType,
			AllowUnknown: true, AllowNull: true, AllowMarked: true, AllowDynamicType: true,
		}},
		Type: func(args []cty.Value) (cty.Type, error) { return args[0].Type(), nil },
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if args[0].ContainsMarked() {
				return cty.NilVal, &Error{
					Summary: "Unsupported use of nonsensitive",
					Detail:  "The value is one of the server's, and these files are not: a plan of them uncovers nothing. Plan with the files on the server.",
				}
			}
			return args[0], nil
		},
	})
}

func sealedCan() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "expression", Type: customdecode.ExpressionClosureType}},
		Type:   function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			v, err := tryfunc.CanFunc.Call(args)
			return markFor(args, v), err
		},
	})
}

func sealedTry() function.Function {
	return function.New(&function.Spec{
		VarParam: &function.Parameter{Name: "expressions", Type: customdecode.ExpressionClosureType},
		Type: func(args []cty.Value) (cty.Type, error) {
			if len(args) == 0 {
				return cty.NilType, errors.New("it takes at least one expression")
			}
			return tryfunc.TryFunc.ReturnTypeForValues(args)
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			v, err := tryfunc.TryFunc.Call(args)
			return markFor(args, v), err
		},
	})
}

// markFor marks a result if whether one of the expressions works out may depend on a
// sensitive value.
func markFor(closures []cty.Value, v cty.Value) cty.Value {
	if v == cty.NilVal || !slices.ContainsFunc(closures, secretive) {
		return v
	}
	return v.Mark(Sensitive)
}

func secretive(arg cty.Value) bool {
	c := customdecode.ExpressionClosureFromVal(arg)
	for _, t := range c.Expression.Variables() {
		if v, ok := variable(c.EvalContext, t); !ok || v.ContainsMarked() {
			return true
		}
	}
	node, ok := c.Expression.(hclsyntax.Node)
	if !ok {
		return true
	}
	found := false
	_ = hclsyntax.VisitAll(node, func(n hclsyntax.Node) hcl.Diagnostics {
		call, ok := n.(*hclsyntax.FunctionCallExpr)
		found = found || ok && slices.Contains([]string{"secret_env", "secret_file", "sensitive"}, call.Name)
		return nil
	})
	return found
}

// variable is what a traversal refers to, as far as it goes.
func variable(ctx *hcl.EvalContext, t hcl.Traversal) (cty.Value, bool) {
	for ; ctx != nil; ctx = ctx.Parent() {
		root, ok := ctx.Variables[t.RootName()]
		if !ok {
			continue
		}
		if v, diags := t.TraverseAbs(&hcl.EvalContext{Variables: map[string]cty.Value{t.RootName(): root}}); !diags.HasErrors() {
			return v, true
		}
		return root, true
	}
	return cty.NilVal, false
}
