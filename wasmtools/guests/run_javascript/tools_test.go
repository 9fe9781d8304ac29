package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	guest "github.com/hermes-runtime/hermes/wasmtools/sdk/go"
)

// host answers calls of tools, and keeps them.
type host struct{ calls []string }

func (h *host) call(_ context.Context, name string, arguments json.RawMessage) (json.RawMessage, error) {
	h.calls = append(h.calls, name+string(arguments))
	switch name {
	case "echo":
		return arguments, nil
	case "big":
		return json.RawMessage(`{"id":9007199254740993,"list":[1,2.5,null,true,"x"]}`), nil
	case "refuse":
		return nil, &guest.HostError{Kind: "denied", Message: "refuse: not in the allow list"}
	case "broken":
		return json.RawMessage(`{`), nil
	}
	return nil, errors.New("no such tool")
}

func TestTools(t *testing.T) {
	for _, c := range []struct{ name, code, want, calls string }{
		{"by name", `tools.echo({a: 1}).a`, `1`, `[echo{"a":1}]`},
		{"by call", `tools.call("echo", {a: [undefined, 2n]})`, `{"a":[null,2]}`, `[echo{"a":[null,2]}]`},
		{"with await", `const r = await tools.echo({b: 2}); r.b`, `2`, `[echo{"b":2}]`},
		{"several", `[1, 2].map(n => tools.echo({n}).n)`, `[1,2]`, `[echo{"n":1} echo{"n":2}]`},
		{"without arguments", `tools.echo()`, `{}`, `[echo{}]`},
		{"exact integers", `const b = tools.big(); [typeof b.id, b.id === 9007199254740993n, b.list]`, `["bigint",true,[1,2.5,null,true,"x"]]`, `[big{}]`},
		{"an error is caught", `try { tools.refuse() } catch (e) { ({name: e.name, tool: e.tool, kind: e.kind, message: e.message, is: e instanceof Error}) }`,
			`{"name":"ToolError","tool":"refuse","kind":"denied","message":"refuse: refuse: not in the allow list","is":true}`, `[refuse{}]`},
		{"an error is not caught", "const a = 1;\ntools.refuse()", "error: ToolError: refuse: refuse: not in the allow list (line 2, column 13)", `[refuse{}]`},
		{"an error without a kind", `try { tools.other() } catch (e) { [e.kind, e.message] }`, `[null,"other: no such tool"]`, `[other{}]`},
		{"a result that is no JSON", `tools.broken()`, "error: ToolError: broken: reading the result", `[broken{}]`},
		{"no object", `tools.echo(5)`, "error: TypeError: tools.echo: the arguments are one object", `[]`},
		{"a function in the arguments", `tools.echo(() => 1)`, "error: TypeError: tools.echo: the arguments object is a function", `[]`},
		{"no name", `tools.call({})`, "error: TypeError: tools.call takes the name", `[]`},
		{"another Error", `Error = null; try { tools.other() } catch (e) { e.name }`, `"ToolError"`, `[other{}]`},
		{"call is fixed", `tools.call = 1; delete tools.call; tools.call("echo")`, `{}`, `[echo{}]`},
		{"a result of tools itself", `tools`, `{}`, `[]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var h host
			got := ""
			if a, err := run(t.Context(), arguments{Code: &c.code}, h.call); err != nil {
				got = "error: " + err.Error()
			} else {
				got = string(a.Result)
			}
			if strings.HasPrefix(c.want, "error: ") && strings.HasPrefix(got, c.want) {
				got = c.want
			}
			if diff := cmp.Diff([]string{c.want, c.calls}, []string{got, fmt.Sprint(h.calls)}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCodeIsBounded(t *testing.T) {
	code := strings.Repeat(" ", maxCode+1)
	if _, err := run(t.Context(), arguments{Code: &code}, callTool); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Error(err)
	}
}

// TestRandomNumbersDiffer: two calls do not share a seed.
func TestRandomNumbersDiffer(t *testing.T) {
	code := "Math.random()"
	seen := map[string]bool{}
	for range 8 {
		a, err := run(t.Context(), arguments{Code: &code}, callTool)
		if err != nil {
			t.Fatal(err)
		}
		seen[string(a.Result)] = true
	}
	if len(seen) != 8 {
		t.Errorf("%d different numbers of 8", len(seen))
	}
}

// FuzzRun: whatever the code is, a run that ends gives JSON or an error and does not
// panic.
func FuzzRun(f *testing.F) {
	for _, code := range []string{"1", "return 1", "await 1; ({a: [1n, NaN]})", "class A { #x = 1; get y() { return this.#x } } new A().y", "`${1}`", "/a(?<n>b)/u.exec('ab').groups", "function* g() { yield 1 } [...g()]"} {
		f.Add(code)
	}
	f.Fuzz(func(t *testing.T, code string) {
		if strings.Contains(code, "for") || strings.Contains(code, "while") || len(code) > 2000 {
			t.Skip("may not end")
		}
		in, err := json.Marshal(map[string]string{"code": code})
		if err != nil {
			t.Fatal(err)
		}
		out, err := module.Call("run_javascript", in)
		if err == nil && !json.Valid(out) {
			t.Errorf("%q gives %s", code, out)
		}
		if err != nil && strings.HasPrefix(err.Error(), "panic") {
			t.Errorf("%q: %v", code, err)
		}
	})
}
