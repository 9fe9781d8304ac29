package provision_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"
	"go.uber.org/goleak"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/check"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/provision"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/wasmtools"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counted is a native function whose handlers count how many live.
type counted struct{ made, closed, twice, late atomic.Int32 }

type countedHandler struct {
	c    *counted
	over atomic.Bool
}

func (h *countedHandler) Call(context.Context, *tool.Call) (tool.Result, error) {
	if h.over.Load() {
		h.c.late.Add(1)
		return tool.Result{}, errClosed
	}
	return tool.Text("ok"), nil
}

// errClosed is what no call may ever see.
var errClosed = errors.New("the handler is closed")

func (h *countedHandler) Close() error {
	if h.over.Swap(true) {
		h.c.twice.Add(1)
	}
	h.c.closed.Add(1)
	return nil
}

func (c *counted) function() hostfuncs.Func {
	return hostfuncs.Func{
		Name: "test.count", Description: "Counts.", Params: []byte(`{"type":"object","additionalProperties":false}`),
		Traits: tool.Traits{Effect: tool.Read},
		Config: []hostfuncs.Attr{
			{Name: "label", Type: hostfuncs.String, Doc: "Any text."},
			{Name: "bad", Type: hostfuncs.Bool, Doc: "Whether to fail."},
		},
		New: func(b hostfuncs.Binding) (tool.Handler, error) {
			if b.Config["bad"] == true {
				return nil, &hostfuncs.ConfigError{Attr: "bad", Detail: "It must not be true."}
			}
			c.made.Add(1)
			return &countedHandler{c: c}, nil
		},
	}
}

// site is a project on disk that is loaded and built again and again.
type site struct {
	t     *testing.T
	dir   string
	funcs []hostfuncs.Func
	p     *provision.Provisioner
	wasm  *wasmtools.Runtime
	cache *config.Cache
	prev  *config.Config
	n     int64
}

func newSite(t *testing.T, funcs ...hostfuncs.Func) *site {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	wasm, err := wasmtools.Open(wasmtools.Options{CacheDir: filepath.Join(t.TempDir(), "cache"), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	checks := check.New(check.Options{Log: log})
	s := &site{t: t, dir: t.TempDir(), funcs: funcs, wasm: wasm, cache: config.NewCache()}
	s.p = provision.New(provision.Options{Funcs: funcs, Wasm: wasm, Checks: checks, Log: log})
	t.Cleanup(func() {
		s.p.Close()
		checks.Close()
		if err := wasm.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s.write("agents/main.hcl", `
provider "script" "offline" {
}
model "m" {
  provider = "script.offline"
  rule {
    match = ".*"
    reply = "hi"
  }
}
agent "a" {
  model    = "m"
  instructions = "Be brief."
  toolsets = ["*"]
}
`)
	return s
}

// extend begins anew with more functions.
func (s *site) extend(funcs ...hostfuncs.Func) {
	s.p.Close()
	s.funcs = append(s.funcs, funcs...)
	log := slog.New(slog.DiscardHandler)
	checks := check.New(check.Options{Log: log})
	s.p = provision.New(provision.Options{Funcs: s.funcs, Wasm: s.wasm, Checks: checks, Log: log})
	s.t.Cleanup(checks.Close)
}

func (s *site) write(name, content string) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) build(start bool) (*snapshot.Snapshot, hcl.Diagnostics) {
	s.t.Helper()
	paths, err := config.Find(filepath.Join(s.dir, "agents"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.n++
	cfg, diags := config.Load(s.t.Context(), config.DirSource(), config.Options{Paths: paths, Funcs: s.funcs, Cache: s.cache, Previous: s.prev, Generation: s.n})
	if diags.HasErrors() {
		s.t.Fatalf("loading: %v", diags)
	}
	snap, diags := s.p.Build(s.t.Context(), cfg, provision.Generation{Number: s.n, Trigger: "test", Time: time.Now(), Start: start})
	if snap != nil {
		s.prev = cfg
	}
	return snap, diags
}

const countTool = `
tool "%" {
  handler "native" {
    function = "test.count"
    config = {
      label = "LABEL"
    }
  }
}
`

func TestUnchangedObjectsAreShared(t *testing.T) {
	var c counted
	s := newSite(t, c.function())
	s.write("tools.d/x.hcl", strings.NewReplacer("%", "x").Replace(countTool))
	s.write("tools.d/y.hcl", strings.NewReplacer("%", "y").Replace(countTool))
	one, diags := s.build(true)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	s.write("tools.d/y.hcl", strings.NewReplacer("%", "y", "LABEL", "another").Replace(countTool))
	two, diags := s.build(false)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	x1, _ := one.Registry.Tool("x")
	x2, _ := two.Registry.Tool("x")
	y1, _ := one.Registry.Tool("y")
	y2, _ := two.Registry.Tool("y")
	if x1 != x2 || one.Models["m"].Provider != two.Models["m"].Provider {
		t.Error("an unchanged tool or model was built again")
	}
	if y1 == y2 || y1.Handler == y2.Handler && c.made.Load() != 3 {
		t.Errorf("a changed tool was kept; %d handlers made, want 3", c.made.Load())
	}
	one.Close()
	if c.closed.Load() != 1 {
		t.Errorf("%d handlers closed with generation 1, want 1: the other lives on", c.closed.Load())
	}
	two.Close()
	if c.closed.Load() != 3 {
		t.Errorf("%d handlers closed at the end, want 3", c.closed.Load())
	}
}

func TestFailedBuildReleasesWhatItTook(t *testing.T) {
	var c counted
	s := newSite(t, c.function())
	s.write("tools.d/good.hcl", strings.NewReplacer("%", "good").Replace(countTool))
	s.write("tools.d/zbad.hcl", strings.NewReplacer("%", "zbad", "label = \"LABEL\"", "bad = true").Replace(countTool))
	snap, diags := s.build(true)
	if snap != nil || !diags.HasErrors() {
		t.Fatalf("a build with a bad tool gave %v, %v", snap, diags)
	}
	if c.made.Load() != 1 || c.closed.Load() != 1 {
		t.Errorf("%d handlers made, %d closed; want 1 and 1", c.made.Load(), c.closed.Load())
	}
	d := diags[0]
	b, ok := config.BlameOf(d)
	if !ok || filepath.Base(b.Input) != "zbad.hcl" || d.Subject.Start.Line != 6 || d.Detail != "It must not be true." {
		t.Errorf("diagnostic = %+v, blame %+v: want it at config.bad of zbad.hcl", d, b)
	}
}

func TestModuleFaultsAreBlamedOnTheModule(t *testing.T) {
	s := newSite(t)
	s.write("tools.d/w.hcl", `
tool "w" {
  description = "Works not."
  handler "wasm" {
    module = "w.wasm"
  }
}
`)
	for name, tt := range map[string]struct{ content, want string }{
		"component": {"\x00asm\x0d\x00\x01\x00", "component"},
		"text":      {"(module)", "text"},
		"empty":     {"", "empty"},
	} {
		t.Run(name, func(t *testing.T) {
			s.write("tools.d/w.wasm", tt.content)
			snap, diags := s.build(true)
			if snap != nil || !diags.HasErrors() {
				t.Fatalf("got %v, %v", snap, diags)
			}
			b, _ := config.BlameOf(diags[0])
			depends := strings.Join(b.Depends, " ")
			if !strings.Contains(depends, "w.wasm") || !strings.Contains(strings.ToLower(diags[0].Detail), tt.want) {
				t.Errorf("diagnostic %q, depends on %q; want %q blamed on the module", diags[0].Detail, depends, tt.want)
			}
		})
	}
}
