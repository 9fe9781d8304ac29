package funcs_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/hermes-runtime/hermes/runtime/config/funcs"
)

func host() funcs.Host {
	files := map[string]string{"a.txt": "text\n", "secret": "s3cret\r\n", "t.tmpl": "Hello ${name}%{ if vip }!%{ endif }", "bad.tmpl": "${nope}", "bin": "\xff", "deep.tmpl": strings.Repeat("${[", 1000)}
	return funcs.Host{
		Pure: funcs.Pure(),
		Read: func(_, p string) ([]byte, error) {
			s, ok := files[p]
			if !ok {
				return nil, &funcs.Error{Summary: "Missing file", Detail: "no " + p}
			}
			return []byte(s), nil
		},
		Exists: func(p string) (bool, error) { _, ok := files[p]; return ok, nil },
		Env: func(_, n string) (string, bool, error) {
			if n == "FORBIDDEN" {
				return "", false, errors.New("may not be read")
			}
			return "value", n == "SET", nil
		},
		Block: func() string { return `tool "x"` },
	}
}

func eval(t testing.TB, src string) (cty.Value, error) {
	t.Helper()
	expr, diags := hclsyntax.ParseExpression([]byte(src), "x", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	pure := &hcl.EvalContext{Functions: funcs.Pure(), Variables: map[string]cty.Value{
		"s": cty.StringVal("hidden").Mark(funcs.Sensitive), "u": cty.UnknownVal(cty.String), "n": cty.NullVal(cty.String),
	}}
	ctx := pure.NewChild()
	ctx.Functions = funcs.Hosted(host())
	v, diags := expr.Value(ctx)
	if diags.HasErrors() {
		return v, diags
	}
	return v, nil
}

func TestFunctions(t *testing.T) {
	tests := []struct{ src, want string }{
		{`env("SET")`, `"value"`},
		{`env("UNSET", "d")`, `"d"`},
		{`env("UNSET", null)`, `null`},
		{`file("a.txt")`, `"text\n"`},
		{`fileexists("a.txt")`, `true`},
		{`fileexists("b.txt")`, `false`},
		{`templatefile("t.tmpl", { name = "Ada", vip = true })`, `"Hello Ada!"`},
		{`filesha256("a.txt") == sha256("text\n")`, `true`},
		{`nonsensitive(secret_file("secret"))`, `"s3cret"`},
		{`nonsensitive(secret_env("SET"))`, `"value"`},
		{`urlencode("a b/c?d=ä+~")`, `"a%20b%2Fc%3Fd%3D%C3%A4%2B~"`},
		{`base64decode(base64encode("hällo"))`, `"hällo"`},
		{`strcontains("abc", "b")`, `true`},
		{`startswith("abc", "ab")`, `true`},
		{`endswith("abc", "ab")`, `false`},
		{`matches("^a+$", "aaa")`, `true`},
		{`glob("*.txt", "a.txt")`, `true`},
		{`glob("[ab]?", "cd")`, `false`},
		{`alltrue([])`, `true`},
		{`alltrue([true, "true"])`, `true`},
		{`anytrue([])`, `false`},
		{`anytrue([false, true])`, `true`},
		{`sum([1, 2.5, "3"])`, `6.5`},
		{`sum([])`, `0`},
		{`one([])`, `null`},
		{`one(["x"])`, `"x"`},
		{`one(toset(["x"]))`, `"x"`},
		{`length("häl")`, `3`},
		{`length([1, 2])`, `2`},
		{`length({ a = 1 })`, `1`},
		{`length(tomap({ a = "1" }))`, `1`},
		{`index(["a", "b"], "b")`, `1`},
		{`replace("a.b.c", ".", "-")`, `"a-b-c"`},
		{`replace("a1b22", "/[0-9]+/", "#")`, `"a#b#"`},
		{`replace("a/b", "/", "-")`, `"a-b"`},
		{`replace("a1b22", "/([0-9])/", "$1$1")`, `"a11b2222"`},
		{`replace("a1b22", "/[0-9]/", "")`, `"ab"`},
		{`pow(2, 10)`, `1024`},
		{`jsondecode("{\"a\":[1,null]}").a[0]`, `1`},
		{`yamldecode("a: [1, x]").a[1]`, `"x"`},
		{`jsonencode({ b = 1, a = [true, null] })`, `"{\"a\":[true,null],\"b\":1}"`},
		{`try(jsondecode("{"), "fallback")`, `"fallback"`},
		{`can(tonumber("x"))`, `false`},
		{`join(",", sort(["b", "a"]))`, `"a,b"`},
		{`merge({ a = 1 }, { b = 2 }).b`, `2`},
		{`coalesce(null, "x")`, `"x"`},
		{`lookup({ a = 1 }, "b", 3)`, `3`},
		{`issensitive("a")`, `false`},
		{`basename("a/b.txt")`, `"b.txt"`},
		{`12345678901234567890123 + 1`, `12345678901234567890124`},
	}
	for _, tt := range tests {
		v, err := eval(t, `jsonencode(`+tt.src+`)`)
		if err != nil {
			t.Errorf("%s: %v", tt.src, err)
			continue
		}
		if diff := cmp.Diff(tt.want, v.AsString()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.src, diff)
		}
	}
}

// TestMarksPropagate runs a sensitive value through every function that takes a text, a
// list or a map, through conditions, loops and templates.
func TestMarksPropagate(t *testing.T) {
	exprs := []string{
		`"x${s}"`, `s == "x"`, `s == "x" ? 1 : 2`, `[for c in ["a"] : "${c}${s}"]`, `{ (s) = 1 }`, `"%{ if s == "x" }a%{ else }b%{ endif }"`,
		`secret_env("SET")`, `secret_env("UNSET", "d")`, `secret_file("secret")`, `sensitive("x")`, `templatefile("t.tmpl", { name = s, vip = false })`,
		`jsonencode({ a = [s] })`, `length([s])`, `one([s])`, `sum([length(s)])`, `alltrue([s == "x"])`, `index([s], "x2") == 0 ? 1 : 0`, `try(s, "x")`, `try(nope, s)`, `env(s, "x")`,
		`merge({ a = s }, {}).a`, `[s][0]`, `lookup({ a = s }, "a", "")`, `coalesce(s, "x")`, `{ a = s }["a"]`, `upper(s)`, `!(s == "x")`, `s == "x" && true`, `true || s == "x"`,
		`yamlencode({ a = s })`, `contains(["a"], s)`, `[for k, v in { a = s } : v][0]`, `zipmap(["a"], [s]).a`,
	}
	for name, f := range funcs.Pure() {
		if ps := f.Params(); len(ps) > 0 && name != "nonsensitive" && name != "try" && name != "can" && name != "issensitive" {
			args := make([]cty.Value, len(ps))
			ok := true
			for i, p := range ps {
				switch p.Type {
				case cty.String:
					args[i] = cty.StringVal("1").Mark(funcs.Sensitive)
				case cty.Number:
					args[i] = cty.NumberIntVal(1).Mark(funcs.Sensitive)
				default:
					ok = false
				}
			}
			if v, err := f.Call(args); ok && err == nil && !v.ContainsMarked() {
				t.Errorf("%s drops the mark", name)
			}
		}
	}
	for _, src := range exprs {
		v, err := eval(t, src)
		if err != nil {
			if strings.Contains(src, "nope") || strings.Contains(src, "index") {
				continue
			}
			t.Errorf("%s: %v", src, err)
			continue
		}
		if !v.ContainsMarked() {
			t.Errorf("%s is not sensitive: %#v", src, v)
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, src := range []string{
		`env("UNSET")`, `env("FORBIDDEN")`, `env("A", "b", "c")`, `file("none")`, `file("bin")`, `templatefile("bad.tmpl", {})`, `templatefile("deep.tmpl", {})`, `templatefile("t.tmpl", [])`,
		`templatefile("t.tmpl", { name = file("a.txt") }, 1)`, `matches("(", "x")`, `glob("[", "x")`, `base64decode("?")`, `base64decode("/w==")`, `sum(["x"])`, `sum({})`, `alltrue([1])`,
		`one(["a", "b"])`, `one(tolist(["a", "b"]))`, `length(1)`, `index(["a"], "b")`, `index({}, "b")`, `replace("a", "/(/", "b")`, `replace(join("", [for i in range(1024) : format("%0999d", i)]), "/.*/", "$0$0$0$0$0$0$0$0$0$0")`, `pow(2, 99999999)`,
		`jsondecode("` + strings.Repeat("[", 300) + `")`, `yamldecode("` + strings.Repeat("[", 300) + `")`, `timestamp()`, `uuid()`,
	} {
		if v, err := eval(t, src); err == nil {
			t.Errorf("%.60s gives %#v", src, v)
		}
	}
}

func TestUnknownPrefix(t *testing.T) {
	v, err := eval(t, `"https://example.com/${urlencode(u)}"`)
	if err != nil || v.IsKnown() || v.Range().StringPrefix() != "https://example.com/" {
		t.Errorf("%#v, %v", v, err)
	}
}

// TestYAMLAliases decodes a text that stands for 9^9 values.
func TestYAMLAliases(t *testing.T) {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x]\n")
	for i := 1; i < 40; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [*a%d, *a%d, *a%d]\n", i, i, i-1, i-1, i-1)
	}
	if _, err := funcs.Pure()["yamldecode"].Call([]cty.Value{cty.StringVal(b.String())}); err == nil {
		t.Error("aliases of aliases are expanded")
	}
	v, err := funcs.Pure()["yamldecode"].Call([]cty.Value{cty.StringVal("text: \"R&D *bold* a: &b\"\nother: a *b\nlist:\n  - x & y\n")})
	if err != nil || v.GetAttr("other").AsString() != "a *b" {
		t.Errorf("text with & and *: %#v, %v", v, err)
	}
}

func TestCheckNesting(t *testing.T) {
	for name, tt := range map[string]struct {
		src      string
		template bool
		deep     bool
	}{
		"brackets": {src: "x = " + strings.Repeat("[", 2e4), deep: true}, "blocks": {src: strings.Repeat("a {\n", 1000), deep: true},
		"parentheses in text": {src: "x = \"" + strings.Repeat("(", 1000) + "\"\n"}, "operators": {src: "x = " + strings.Repeat("!", 2e4) + "true\n", deep: true},
		"minus signs": {src: "x = " + strings.Repeat("- ", 2e4) + "1\n", deep: true}, "templates": {src: "x = " + strings.Repeat("\"${", 2e4), deep: true},
		"conditions": {src: "x = " + strings.Repeat("true ? 1 : ", 2e4) + "2\n", deep: true}, "a heredoc": {src: "x = <<EOT\n" + strings.Repeat("((((\n", 1000) + "EOT\n"},
		"dashes in a comment": {src: "# " + strings.Repeat("-", 2e4) + "\n"}, "a template": {src: strings.Repeat("${[", 1000), template: true, deep: true},
		"a list": {src: "x = [" + strings.Repeat("-1, ", 2e4) + "]\n", deep: false},
		"sums":   {src: "x = 1" + strings.Repeat("\n+ 1", 2e4) + "\n", deep: true}, "sums of calls": {src: "x = 1" + strings.Repeat("+ f(a, b)", 2e4) + "\n", deep: true},
		"indexes": {src: "x = a" + strings.Repeat("[b]", 2e4) + "\n", deep: true}, "splats": {src: "x = a" + strings.Repeat(".*", 2e4) + "\n", deep: true},
		"directives":      {src: "x = \"" + strings.Repeat("%{ if a }", 2e4) + "\"\n", deep: true},
		"many attributes": {src: strings.Repeat("x = 1 + 2\n", 1e4)},
		"index":           {src: "x = a" + strings.Repeat("[a", 1e4) + "\n", deep: true}, "for": {src: "x = " + strings.Repeat("[for a in b : ", 1e4) + "\n", deep: true},
	} {
		if err := funcs.CheckNesting([]byte(tt.src), tt.template); (err != nil) != tt.deep {
			t.Errorf("%s: %v", name, err)
		}
	}
}
