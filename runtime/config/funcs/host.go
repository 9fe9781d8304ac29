package funcs

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// Host is what the functions that look outside are given. Paths are as written in the
// file that calls the function. An error is shown to the operator; an [*Error] with its
// own summary.
type Host struct {
	// Read reads a file for the function of a name.
	Read   func(function, path string) ([]byte, error)
	Exists func(path string) (bool, error)
	// Env says whether the variable is set. An error means that the function may not read it.
	Env func(function, name string) (value string, ok bool, err error)
	// Pure are the functions that templates have.
	Pure map[string]function.Function
	// Secret is told of every sensitive text that a function reads; nil: nobody is.
	Secret func(text string)
	// Block names the block that is being evaluated, for example `tool "weather"`.
	Block func() string
}

// Error is a refusal with the summary of its diagnostic.
type Error struct {
	Summary string
	Detail  string // full sentences: the rule and the fix
}

// Error is the detail.
func (e *Error) Error() string { return e.Detail }

// Hosted are the functions that read files or the environment.
func Hosted(h Host) map[string]function.Function {
	return map[string]function.Function{
		"env":        envFunc(h, false),
		"secret_env": envFunc(h, true),
		"file":       fileFunc(h, "file", func(b []byte) (cty.Value, error) { return text(b) }),
		"secret_file": fileFunc(h, "secret_file", func(b []byte) (cty.Value, error) {
			v, err := secretText(b)
			if bare, _ := v.Unmark(); err == nil {
				h.tell(bare.AsString())
			}
			return v, err
		}),
		"filesha256":   fileFunc(h, "filesha256", func(b []byte) (cty.Value, error) { return cty.StringVal(digest(b)), nil }),
		"fileexists":   existsFunc(h),
		"templatefile": templateFunc(h),
	}
}

func (h Host) tell(secret string) {
	if h.Secret != nil {
		h.Secret(secret)
	}
}

// HostedNames are the names of [Hosted], which late expressions may not call.
func HostedNames() []string {
	return []string{"env", "file", "fileexists", "filesha256", "secret_env", "secret_file", "templatefile"}
}

func envFunc(h Host, sensitive bool) function.Function {
	name := "env"
	if sensitive {
		name = "secret_env"
	}
	return function.New(&function.Spec{
		Params:       []function.Parameter{{Name: "name", Type: cty.String}},
		VarParam:     &function.Parameter{Name: "default", Type: cty.String, AllowNull: true},
		Type:         function.StaticReturnType(cty.String),
		RefineResult: nil,
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			v, err := lookup(h, name, args)
			if err == nil && sensitive && !v.IsNull() {
				h.tell(v.AsString())
				v = v.Mark(Sensitive)
			}
			return v, err
		},
	})
}

func lookup(h Host, caller string, args []cty.Value) (cty.Value, error) {
	if len(args) > 2 {
		return cty.NilVal, errors.New("it takes the name of a variable and at most one default")
	}
	name := args[0].AsString()
	value, ok, err := h.Env(caller, name)
	switch {
	case err != nil:
		return cty.NilVal, err
	case ok:
		return cty.StringVal(value), nil
	case len(args) == 2:
		return args[1], nil
	}
	return cty.NilVal, &Error{
		Summary: "Missing environment variable",
		Detail: fmt.Sprintf("The environment variable %q is not set, and %s needs it. Set it before the start, or give a default: %s(%q, \"…\").",
			name, h.Block(), caller, name),
	}
}

func fileFunc(h Host, name string, use func([]byte) (cty.Value, error)) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "path", Type: cty.String}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			b, err := h.Read(name, args[0].AsString())
			if err != nil {
				return cty.NilVal, err
			}
			return use(b)
		},
	})
}

func existsFunc(h Host) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "path", Type: cty.String}},
		Type:   function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			ok, err := h.Exists(args[0].AsString())
			return cty.BoolVal(ok), err
		},
	})
}

// secretText drops one line ending at the end: secrets mounted as files have one more
// often than not, and no header can hold it.
func secretText(b []byte) (cty.Value, error) {
	if n := len(b); n > 0 && b[n-1] == '\n' {
		b = b[:n-1]
	}
	if n := len(b); n > 0 && b[n-1] == '\r' {
		b = b[:n-1]
	}
	v, err := text(b)
	if err != nil {
		return v, err
	}
	return v.Mark(Sensitive), nil
}

func templateFunc(h Host) function.Function {
	params := []function.Parameter{
		{Name: "path", Type: cty.String},
		{Name: "vars", Type: cty.DynamicPseudoType},
	}
	return function.New(&function.Spec{
		Params: params,
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return renderTemplate(h, args[0].AsString(), args[1])
		},
	})
}

func renderTemplate(h Host, path string, vars cty.Value) (cty.Value, error) {
	if ty := vars.Type(); !ty.IsObjectType() && !ty.IsMapType() {
		return cty.NilVal, errors.New("the second argument is an object with the variables of the template")
	}
	src, err := h.Read("templatefile", path)
	if err != nil {
		return cty.NilVal, err
	}
	if err := CheckNesting(src, true); err != nil {
		return cty.NilVal, err
	}
	expr, diags := hclsyntax.ParseTemplate(src, path, hcl.InitialPos)
	if diags.HasErrors() {
		return cty.NilVal, templateError(diags)
	}
	ctx := &hcl.EvalContext{Variables: vars.AsValueMap(), Functions: h.Pure}
	if ctx.Variables == nil {
		ctx.Variables = map[string]cty.Value{}
	}
	Guard(expr)
	ctx, m := Metered(ctx)
	v, diags := expr.Value(ctx)
	if err, at := m.Spent(); err != nil {
		return cty.NilVal, fmt.Errorf("line %d of %s: %s", at.Start.Line, path, strings.TrimRight(err.Error(), "."))
	}
	if diags.HasErrors() {
		return cty.NilVal, templateError(diags)
	}
	return asString(v)
}

func templateError(diags hcl.Diagnostics) error {
	for _, d := range diags {
		if d.Severity == hcl.DiagError && d.Subject != nil {
			return fmt.Errorf("line %d of %s: %s: %s", d.Subject.Start.Line, d.Subject.Filename, strings.ToLower(d.Summary), strings.TrimRight(d.Detail, "."))
		}
	}
	return diags
}
