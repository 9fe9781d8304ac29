package std_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/hostfuncs/std"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/egress"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// declare loads a project whose tools.d has one file.
func declare(t *testing.T, text string) (*config.Config, hcl.Diagnostics) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"agents", "tools.d"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "tools.d", "t.hcl"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	paths, err := config.Find(filepath.Join(dir, "agents"))
	if err != nil {
		t.Fatal(err)
	}
	return config.Load(t.Context(), config.DirSource(), config.Options{
		Paths: paths, Funcs: std.Funcs(std.Deps{}), Generation: 1,
		LookupEnv: func(name string) (string, bool) { return "hunter2", name == "KEY" },
	})
}

// bind makes the handler of the tool named t.
func bind(t *testing.T, cfg *config.Config, g *egress.Guard) (tool.Handler, error) {
	t.Helper()
	tl := cfg.Tools["t"]
	if tl == nil {
		t.Fatal("the tool was not loaded")
	}
	for _, f := range std.Funcs(std.Deps{Egress: g}) {
		if f.Name == tl.Native.Function {
			return f.New(hostfuncs.Binding{Tool: "t", Params: tl.Schema.JSON(), Config: tl.Native.Config, Project: cfg.Paths.Project})
		}
	}
	t.Fatalf("no function %q", tl.Native.Function)
	return nil, nil
}

// TestDeclaredRequest goes from HCL with late expressions to what arrives at a server.
func TestDeclaredRequest(t *testing.T) {
	var got map[string]string
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = map[string]string{"line": r.Method + " " + r.RequestURI, "body": string(body), "auth": r.Header.Get("Authorization"), "key": r.Header.Get("Idempotency-Key")}
	}))
	t.Cleanup(srv.Close)
	g := egress.New(egress.Options{})
	t.Cleanup(g.Close)
	cfg, diags := declare(t, `
tool "t" {
  description = "Adds a note."
  param "id" { type = string }
  param "n" { type = integer }
  param "tag" {
    type     = string
    required = false
  }
  handler "native" {
    function = "http.request"
    config = {
      method        = "POST"
      url           = "`+srv.URL+`/notes/${urlencode(args.id)}"
      query         = { n = args.n, tag = args.tag }
      headers       = { Authorization = "Bearer ${secret_env("KEY")}", Idempotency-Key = call.idempotency_key }
      json          = { id = args.id, n = args.n, fixed = [1.50, "x"] }
      allow_private = true
    }
  }
}
`)
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	h, err := bind(t, cfg, g)
	if err != nil {
		t.Fatal(err)
	}
	args, err := cfg.Tools["t"].Schema.Parse(`{"id":"a/b c","n":9007199254740993}`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Call(t.Context(), &tool.Call{Tool: "t", Arguments: args, IdempotencyKey: "run/1"}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"line": "POST /notes/a%2Fb%20c?n=9007199254740993", "auth": "Bearer hunter2", "key": "run/1",
		"body": `{"fixed":[1.5,"x"],"id":"a/b c","n":9007199254740993}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if text, err := json.Marshal(cfg.Tools["t"].Native.Config); err == nil && strings.Contains(string(text), "hunter2") {
		t.Error("the secret prints")
	}
}

// TestDeclarationsThatAreRefused holds faults that the language cannot see, and the
// functions must.
func TestDeclarationsThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ config, attr string }{
		"host by argument":    {`url = args.x`, "url"},
		"part of the host":    {`url = "https://api.example.com${args.x}"`, "url"},
		"port by argument":    {`url = "https://api.example.com:${args.x}/"`, "url"},
		"scheme by argument":  {`url = "${args.x}://api.example.com/"`, "url"},
		"fixed host":          {`url = "https://api.example.com/${urlencode(args.x)}"`, ""},
		"conditional host":    {`url = args.x == "a" ? "https://a.example.com/" : "https://b.example.com/"`, "url"},
		"conditional, listed": {"url = args.x == \"a\" ? \"https://a.example.com/\" : \"https://b.example.com/\"\nhosts = [\"*.example.com\"]", ""},
		"secret path":         {`url = "https://api.example.com/bot${local.key}/${urlencode(args.x)}"`, ""},
	} {
		cfg, diags := declare(t, `
locals { key = secret_env("KEY") }
tool "t" {
  description = "A tool."
  param "x" { type = string }
  handler "native" {
    function = "http.request"
    config = {
      `+c.config+`
    }
  }
}
`)
		if len(diags) > 0 {
			t.Errorf("%s: %v", name, diags)
			continue
		}
		_, err := bind(t, cfg, nil)
		var at *hostfuncs.ConfigError
		if c.attr == "" && err != nil || c.attr != "" && (!errors.As(err, &at) || at.Attr != c.attr) {
			t.Errorf("%s: got %v, want an error at %q", name, err, c.attr)
		}
	}
}

func TestRootsStayInTheProject(t *testing.T) {
	for root, ok := range map[string]bool{
		"../workspace": true, "../not/there/yet": true, ".": true, "../../elsewhere": false, "/etc": false,
	} {
		cfg, diags := declare(t, `
tool "t" {
  handler "native" {
    function = "file.read"
    config   = { root = "`+root+`" }
  }
}
`)
		if diags.HasErrors() == ok {
			t.Errorf("%s: %v", root, diags)
		}
		if got := ""; ok {
			got, _ = cfg.Tools["t"].Native.Config["root"].(string)
			if want := filepath.Join(cfg.Paths.Project, "tools.d", root); got != want {
				t.Errorf("%s: got %s, want %s", root, got, want)
			}
		}
	}
}
