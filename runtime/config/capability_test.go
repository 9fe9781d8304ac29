package config_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/hostfuncs/std"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

func TestCapabilities(t *testing.T) {
	wasm := func(grants string) string {
		return "tool \"x\" {\n description = \"d\"\n limits {\n timeout = \"9s\"\n }\n handler \"wasm\" {\n module = \"x.wasm\"\n" + grants + "\n }\n}\n"
	}
	native := func(function, config string) string {
		return "tool \"x\" {\n description = \"d\"\n handler \"native\" {\n function = \"" + function + "\"\n config = {\n" + config + "\n }\n }\n}\n"
	}
	tests := []struct {
		name, text string
		want       []string
	}{
		{"nothing granted", wasm(""), nil},
		{"hosts and methods", wasm("grant \"http\" {\n hosts = [\"B.example\", \"https://*.a.example:443\"]\n methods = [\"GET\", \"POST\"]\n}"), []string{
			"http GET https://*.a.example", "http GET https://b.example", "http POST https://*.a.example", "http POST https://b.example",
		}},
		{"what the host adds and where it may go", wasm("grant \"http\" {\n hosts = [\"b.example\"]\n allow_private = true\n headers = { X = \"x\" }\n}"), []string{
			"http GET https://b.example", "http header X https://b.example", "http private https://b.example",
		}},
		{"two grants of one host", wasm("grant \"http\" {\n hosts = [\"b.example\"]\n}\ngrant \"http\" {\n hosts = [\"b.example\"]\n}"), []string{"http GET https://b.example"}},
		{"folders", wasm("grant \"files\" {\n path = \"../data\"\n mount = \"/d\"\n mode = \"rw\"\n}\ngrant \"files\" {\n path = \".\"\n mount = \"/t\"\n}"), []string{"files ro tools.d at /t", "files rw data at /d"}},
		{"variables, never their values", wasm("grant \"env\" {\n values = { B = sensitive(\"s3cret\"), A = \"plain\" }\n}"), []string{"env A", "env B"}},
		{"variables whose names are secret", wasm("grant \"env\" {\n values = jsondecode(sensitive(\"{\\\"s3cret\\\":\\\"x\\\"}\"))\n}"), []string{"env (sensitive)"}},
		{"a store", wasm("grant \"kv\" {\n namespace = \"notes\"\n}"), []string{"kv ro notes"}},
		{"other tools", wasm("grant \"tools\" {\n allow = [\"x\", \"y\"]\n max_depth = 3\n}\ngrant \"progress\" {}"), []string{"progress", "tools call x", "tools call y", "tools depth 3"}},
		{"a folder of a native function", native("file.write", "root = \"../data\""), []string{"files rw data"}},
		{"a request", native("http.request", "url = \"https://a.example/x\"\nheaders = { Authorization = sensitive(\"s3cret\") }"), []string{"http GET https://a.example", "http header Authorization https://a.example"}},
		{"headers whose names are secret", native("http.request", "url = \"https://a.example/x\"\nheaders = sensitive({ s3cret = \"x\" })"), []string{"http GET https://a.example", "http header (sensitive) https://a.example"}},
		{"a function that says nothing", native("time.now", ""), []string{"native time.now"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			other := "tool \"y\" {\n handler \"native\" {\n function = \"time.now\"\n }\n}\n"
			o := options(project(t, map[string]string{"agents/main.hcl": offline, "tools.d/x.hcl": tt.text, "tools.d/y.hcl": other, "tools.d/x.wasm": "bytes"}))
			o.Funcs = std.Funcs(std.Deps{})
			cfg, diags := config.Load(t.Context(), config.DirSource(), o)
			fatal(t, cfg, diags)
			got := cfg.Tools["x"].Capabilities()
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if strings.Contains(strings.Join(got, " "), "s3cret") {
				t.Errorf("a secret shows in %q", got)
			}
		})
	}
}

func TestAFunctionSaysItsCapabilitiesOfPathsInTheProject(t *testing.T) {
	var seen hostfuncs.Values
	fn := hostfuncs.Func{
		Name: "x.y", Description: "d", Params: json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`),
		Config: []hostfuncs.Attr{{Name: "dir", Doc: "A folder.", Type: hostfuncs.Path}, {Name: "note", Doc: "A note.", Type: hostfuncs.String}},
		Capabilities: func(v hostfuncs.Values) []string {
			seen = v
			return []string{"b", "a", "b"}
		},
		New: func(hostfuncs.Binding) (tool.Handler, error) { return nil, nil },
	}
	o := options(project(t, map[string]string{"agents/main.hcl": offline, "tools.d/x.hcl": "tool \"x\" {\n handler \"native\" {\n function = \"x.y\"\n config = {\n dir = \"../data\"\n note = \"../data\"\n }\n }\n}\n"}))
	o.Funcs = []hostfuncs.Func{fn}
	cfg, diags := config.Load(t.Context(), config.DirSource(), o)
	fatal(t, cfg, diags)
	if diff := cmp.Diff(hostfuncs.Values{"dir": "data", "note": "../data"}, seen); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if got := cfg.Tools["x"].Native.Config["dir"]; got == "data" {
		t.Error("the handler's own config was changed")
	}
	if diff := cmp.Diff([]string{"a", "b"}, cfg.Tools["x"].Capabilities()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAFunctionThatPanicsOverItsCapabilitiesIsReported(t *testing.T) {
	fn := hostfuncs.Func{
		Name: "x.y", Description: "d", Params: json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`),
		Capabilities: func(hostfuncs.Values) []string { panic("s3cret") },
		New:          func(hostfuncs.Binding) (tool.Handler, error) { return nil, nil },
	}
	o := options(project(t, map[string]string{"agents/main.hcl": offline, "tools.d/x.hcl": "tool \"x\" {\n handler \"native\" {\n function = \"x.y\"\n }\n}\n"}))
	o.Funcs = []hostfuncs.Func{fn}
	_, diags := config.Load(t.Context(), config.DirSource(), o)
	if len(diags) != 1 || diags[0].Summary != "Invalid handler" || diags[0].Subject.Start.Line != 3 || strings.Contains(diags[0].Detail, "s3cret") {
		t.Errorf("diagnostics = %v", diags)
	}
}
