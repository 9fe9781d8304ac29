package generation_test

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/hostfuncs/std"
	"github.com/hermes-runtime/hermes/runtime/check"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/generation"
	"github.com/hermes-runtime/hermes/runtime/provision"
)

// project is a project on disk that is loaded again and again with one cache, as a
// server does.
type project struct {
	t     testing.TB
	dir   string
	env   map[string]string
	cache *config.Cache
	live  *config.Config
	check *check.Cache
}

func newProject(t testing.TB, files map[string]string) *project {
	t.Helper()
	p := &project{t: t, dir: t.TempDir(), env: map[string]string{}, cache: config.NewCache(), check: check.New(check.Options{Log: slog.New(slog.DiscardHandler)})}
	t.Cleanup(p.check.Close)
	for name, text := range files {
		p.write(name, text)
	}
	return p
}

func (p *project) write(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func key() []byte { return []byte("0123456789abcdef0123456789abcdef") }

// load loads the project.
func (p *project) load() (*config.Config, hcl.Diagnostics) {
	p.t.Helper()
	paths, err := config.Find(p.dir)
	if err != nil {
		p.t.Fatal(err)
	}
	lookup := func(name string) (string, bool) { v, ok := p.env[name]; return v, ok }
	return config.Load(p.t.Context(), config.DirSource(), config.Options{Paths: paths, LookupEnv: lookup, Funcs: std.Funcs(std.Deps{}), Cache: p.cache, Previous: p.live})
}

// manifest loads the project, which must have no errors, and describes it.
func (p *project) manifest(previous *generation.Manifest) *generation.Manifest {
	p.t.Helper()
	cfg, diags := p.load()
	if diags.HasErrors() {
		p.t.Fatal(diags)
	}
	p.live = cfg
	return p.describe(key(), previous)
}

// describe describes what was loaded last.
func (p *project) describe(key []byte, previous *generation.Manifest) *generation.Manifest {
	p.t.Helper()
	reg, views, diags := provision.Describe(p.live, p.check)
	if diags.HasErrors() {
		p.t.Fatal(diags)
	}
	m, err := generation.Of(p.live, reg, views, generation.Options{Key: key, Previous: previous})
	if err != nil {
		p.t.Fatal(err)
	}
	return m
}

// ignored is what two manifests of one project may differ in.
func ignored() cmp.Option { return cmpopts.IgnoreUnexported(generation.Object{}) }

func encoded(t testing.TB, v any) string {
	t.Helper()
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestStoredObjectsCompareEqual(t *testing.T) {
	m := newProject(t, rich()).manifest(nil)
	back := &generation.Manifest{Objects: map[string]*generation.Object{}}
	for id, o := range m.Objects {
		var stored generation.Object
		if err := json.Unmarshal([]byte(encoded(t, o)), &stored); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(o, &stored, ignored(), cmp.Transformer("json", func(r json.RawMessage) string { return strings.Join(strings.Fields(string(r)), "") })); diff != "" {
			t.Errorf("%s (-made +stored):\n%s", id, diff)
		}
		back.Objects[id] = &stored
	}
	if d := generation.Compare(back, m); !d.Empty() {
		t.Errorf("a stored manifest differs from itself: %s", encoded(t, d))
	}
}

// rich is a project with something of every kind.
func rich() map[string]string {
	return map[string]string{
		"agents/main.hcl": `
server {
  max_body = "1MiB"
  key "ops" {
    secret = secret_env("OPS_KEY", "a-secret-of-some-length")
    role   = "admin"
  }
}
runtime {
  max_runs = 8
}
provider "script" "offline" {}
provider "openai" "remote" {
  base_url = "https://models.example.com/v1"
  api_key  = secret_env("MODEL_KEY", "")
  headers  = { X-Team = "blue" }
}
model "offline" {
  provider = "script.offline"
  rule {
    match = "(?P<what>.*)"
    call "clock" {
      args = { timezone = match.what }
    }
    reply = "It is ${result.time}."
  }
}
agent "main" {
  model        = "offline"
  instructions = file("prompt.md")
  toolsets     = ["*"]
  budget {
    iterations = 5
    wall       = "2m"
  }
}
`,
		"agents/prompt.md": "Be brief.\n",
		"tools.d/tools.hcl": `
tool "clock" {
  description = "The time, for ${agent.name}."
  handler "native" {
    function = "time.now"
  }
}
tool "fetch" {
  description = "Fetch an item."
  param "id" {
    type        = string
    description = "Which one"
    max_length  = 20
  }
  limits {
    timeout = "5s"
    rate    = "10/s"
  }
  handler "native" {
    function = "http.request"
    config = {
      url     = "https://api.example.com/items/${urlencode(args.id)}"
      headers = { Authorization = secret_env("API_KEY", "") }
    }
  }
}
toolset "web" {
  description = "What reaches the net."
  tools       = ["fetch"]
}
`,
	}
}
