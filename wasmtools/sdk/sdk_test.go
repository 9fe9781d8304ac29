package sdk_test

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/wasmtools"
	"github.com/hermes-runtime/hermes/wasmtools/sdk"
	"github.com/hermes-runtime/hermes/wasmtools/sdk/sdktest"
)

func TestNew(t *testing.T) {
	for l, want := range map[sdk.Language]string{
		sdk.Go: "Makefile My-Tool.hcl go.mod guest/capability.go guest/guest.go guest/other.go guest/wasip1.go main.go main_test.go test.sh",
		sdk.C:  "Makefile My-Tool.hcl hermes.h test.sh tool.c", sdk.Rust: "Makefile My-Tool.hcl hermes.rs test.sh tool.rs",
		sdk.AssemblyScript: "Makefile My-Tool.hcl hermes.ts package.json test.sh tool.ts", sdk.Native: "Makefile My-Tool.hcl mytool.go mytool_test.go",
	} {
		files, err := sdk.New(l, "My-Tool")
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range files {
			names = append(names, f.Name)
			if strings.Contains(string(f.Content), "{{") && l != sdk.Native && f.Name != "tool.ts" {
				t.Errorf("%s: %s has a hole that is not filled", l, f.Name)
			}
		}
		if diff := cmp.Diff(want, strings.Join(names, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", l, diff)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		l    sdk.Language
		name tool.Name
	}{{"cobol", "x"}, {"common", "x"}, {"", "x"}, {"../c", "x"}, {sdk.C, ""}, {sdk.C, "../x"}, {sdk.C, "9"}, {sdk.C, tool.Name(strings.Repeat("x", 65))}} {
		if _, err := sdk.New(c.l, c.name); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s in %s: %v", c.name, c.l, err)
		}
	}
	files, err := sdk.New(sdk.Native, "func")
	if err != nil || files[1].Name != "func.hcl" || !strings.Contains(string(files[2].Content), "\npackage functool\n") {
		t.Errorf("a keyword as name: %v, %v", files, err)
	}
}

// keyOnly are tools that use one capability of many, and of that one function of many.
var keyOnly = map[sdk.Language]string{
	sdk.Go: `package main
import ("context"; "example.com/guest/guest")
var _ = guest.Serve(guest.Module{Name: "k", Tools: []guest.Definition{guest.Tool("k", "", "{}",
	func(ctx context.Context, _ struct{}) (any, error) { v, _, err := guest.KVGet(ctx, "k"); return string(v), err })}})
func main() { guest.Main() }
`,
	sdk.C: `#include "hermes.h"
static int k(hermes_call *c) { hermes_put_text(&c->out, hermes_kv_get("k").body); return 0; }
HERMES_MODULE("k", "1", {"k", "", NULL, k})
`,
	sdk.Rust: `mod hermes;
fn k(_: &hermes::Call) -> hermes::Result {
	Ok(hermes::kv_get("k")?.map(|v| String::from_utf8_lossy(&v).into_owned()).into())
}
hermes::serve!(hermes::Module { name: "k", version: "1", tools: &[hermes::Tool { name: "k", description: "", schema: "{}", run: k }], wants: "" });
`,
	sdk.AssemblyScript: `import { Call, Json, Tool, kvGet, serve } from "./hermes";
export { hermes_abi_v1, hermes_describe, hermes_call } from "./hermes";
serve("k", "1", [new Tool("k", "", "{}", (call: Call): Json => Json.of(kvGet("k").text()))]);
`,
}

// TestImports: the list of imports is the list of capabilities, so what a tool does not use
// must not be on it.
func TestImports(t *testing.T) {
	if testing.Short() {
		t.Skip("each is a build of its own")
	}
	for l, source := range keyOnly {
		t.Run(string(l), func(t *testing.T) {
			rep, err := wasmtools.Inspect(sdktest.Build(t, l, source))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, im := range rep.Imports {
				if strings.HasPrefix(im.Module, "hermes_") {
					got = append(got, im.String())
				}
			}
			if diff := cmp.Diff([]string{"hermes_kv.get"}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestHeader: the library in C is one for each standard since C99, and for C++.
func TestHeader(t *testing.T) {
	if m := sdktest.Missing(sdk.C); m != "" {
		t.Skip(m)
	}
	for _, flags := range [][]string{
		{"-x", "c", "-std=c99", "-pedantic", "-Wno-c11-extensions"}, {"-x", "c", "-std=c17", "-pedantic"}, {"-x", "c++", "-std=c++11"}, {"-x", "c++", "-std=c++20"},
	} {
		args := append(flags, "--target=wasm32-wasi", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", "c", "-")
		cmd := exec.CommandContext(t.Context(), "clang", args...)
		cmd.Stdin = strings.NewReader(keyOnly[sdk.C])
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", strings.Join(flags, " "), err, out)
		}
	}
}

// torn are results in C that are not whole JSON, which only C can write.
func torn() []string {
	return []string{
		`hermes_object(&c->out);`,
		`hermes_object(&c->out); hermes_key(&c->out, "a"); hermes_end(&c->out);`,
		`hermes_object(&c->out); hermes_put_int(&c->out, 1); hermes_end(&c->out);`,
		`hermes_array(&c->out); hermes_key(&c->out, "a"); hermes_end(&c->out);`,
		`hermes_put_null(&c->out); hermes_put_null(&c->out);`,
		`hermes_end(&c->out);`,
		`hermes_put_json(&c->out, "{");`,
		`for (int i = 0; i < 513; i++) hermes_array(&c->out); for (int i = 0; i < 513; i++) hermes_end(&c->out);`,
	}
}

// TestTornResult: a tool in C that forgets an end or a key has failed; its result is not
// mended and not passed on.
func TestTornResult(t *testing.T) {
	if testing.Short() {
		t.Skip("compiling modules under the race detector takes minutes")
	}
	var source, tools strings.Builder
	source.WriteString("#include \"hermes.h\"\n")
	for i, body := range torn() {
		fmt.Fprintf(&source, "static int f%d(hermes_call *c) { %s return 0; }\n", i, body)
		fmt.Fprintf(&tools, `, {"t%d", "", NULL, f%[1]d}`, i)
	}
	fmt.Fprintf(&source, "HERMES_MODULE(\"torn\", \"1\"%s)\n", &tools)
	g := &guest{language: sdk.C, log: &bytes.Buffer{}}
	g.compile(t, sdktest.Build(t, sdk.C, source.String()))
	for i, body := range torn() {
		got, err := g.call(t, fmt.Sprintf("t%d", i), object{}, wasmtools.Spec{})
		if fault.KindOf(err) != fault.Internal {
			t.Errorf("%s: got %s, %v", body, got, err)
		}
	}
	if !strings.Contains(g.log.String(), "the tool wrote JSON that is not whole") {
		t.Errorf("the log does not say why:\n%s", g.log)
	}
}
