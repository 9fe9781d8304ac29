package reload

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/check"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/provision"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/wasmtools"
)

// mainHCL declares the agent of most tests, which is offered every tool.
const mainHCL = `
provider "script" "offline" {}

model "offline" {
  provider = "script.offline"
  rule {
    match = ".*"
    reply = "Hello."
  }
}

agent "assistant" {
  model        = "offline"
  instructions = "Help."
  toolsets     = ["*"]
}
`

// native declares a tool that echoes its arguments.
func native(name, description string) string {
	return `
tool "` + name + `" {
  description = "` + description + `"
  handler "native" {
    function = "test.echo"
  }
}
`
}

// wasm declares a tool that runs a module.
func wasm(name, module string) string {
	return `
tool "` + name + `" {
  description = "Runs ` + module + `."
  handler "wasm" {
    module = "` + module + `"
  }
}
`
}

// module is a WebAssembly command that does nothing; note makes its bytes different.
func module(note string) string {
	custom := append([]byte{4, 'n', 'o', 't', 'e'}, note...)
	return "\x00asm\x01\x00\x00\x00" +
		"\x01\x04\x01\x60\x00\x00" + // one type: no arguments, no results
		"\x03\x02\x01\x00" + // one function of it
		"\x05\x03\x01\x00\x01" + // one page of memory
		"\x07\x13\x02\x06memory\x02\x00\x06_start\x00\x00" + // both exported
		"\x0a\x04\x01\x02\x00\x0b" + // an empty body
		"\x00" + string(rune(len(custom))) + string(custom)
}

// echo is the native function of the tests.
func echo() hostfuncs.Func {
	return hostfuncs.Func{
		Name: "test.echo", Description: "Gives its arguments back.", Open: true,
		Params: json.RawMessage(`{"type":"object"}`), Traits: tool.Traits{Effect: tool.Read},
		New: func(hostfuncs.Binding) (tool.Handler, error) {
			return tool.HandlerFunc(func(_ context.Context, c *tool.Call) (tool.Result, error) {
				return tool.Result{JSON: c.Arguments}, nil
			}), nil
		},
	}
}

// refusing is a function whose declaration no build accepts.
func refusing() hostfuncs.Func {
	f := echo()
	f.Name = "test.refusing"
	f.New = func(hostfuncs.Binding) (tool.Handler, error) {
		return nil, &hostfuncs.ConfigError{Attr: "", Detail: "This function refuses everything."}
	}
	return f
}

// logged is a log that tests read.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// project is a project on disk with a reloader over the real language and the real
// provisioner.
type project struct {
	t      testing.TB
	root   string
	r      *Reloader
	holder *snapshot.Holder
	cache  *config.Cache
	swaps  chan *snapshot.Snapshot // of every generation; large enough for a test
	log    *logged
}

// files of a project: content by path relative to it.
type files map[string]string

// newProject writes files and makes a reloader that has not started.
func newProject(t testing.TB, fs files, options ...func(*Options)) *project {
	t.Helper()
	return newProjectAt(t, tempDir(t), fs, options...)
}

// newProjectAt is newProject in a folder that may have a project already.
func newProjectAt(t testing.TB, root string, fs files, options ...func(*Options)) *project {
	t.Helper()
	p := &project{
		t: t, root: root, holder: snapshot.NewHolder(), cache: config.NewCache(),
		swaps: make(chan *snapshot.Snapshot, 10000), log: &logged{},
	}
	must(t, os.MkdirAll(p.at("agents"), 0o755))
	must(t, os.MkdirAll(p.at("tools.d"), 0o755))
	for path, content := range fs {
		write(t, p.at(path), content)
	}
	paths, err := config.Find(p.at("agents"))
	must(t, err)
	wasm, err := wasmtools.Open(wasmtools.Options{})
	must(t, err)
	checks := check.New(check.Options{})
	funcs := []hostfuncs.Func{echo(), refusing()}
	log := slog.New(slog.NewTextHandler(p.log, nil))
	prov := provision.New(provision.Options{Funcs: funcs, Wasm: wasm, Checks: checks, Log: log})
	t.Cleanup(func() {
		prov.Close()
		p.holder.Close()
		checks.Close()
		must(t, wasm.Close(context.Background()))
	})
	o := Options{
		Load:  config.Options{Paths: paths, Funcs: funcs, Cache: p.cache},
		Build: prov, Holder: p.holder, Log: log, Watch: true, Poll: time.Hour,
		OnSwap: func(s *snapshot.Snapshot) { p.swaps <- s },
	}
	for _, option := range options {
		option(&o)
	}
	p.r = New(o)
	return p
}

// start makes a project and its first generation.
func start(t testing.TB, fs files, options ...func(*Options)) *project {
	t.Helper()
	p := newProject(t, fs, options...)
	out, err := p.r.Start(t.Context(), false)
	if err != nil {
		t.Fatalf("%v\n%v", err, out.Report)
	}
	diff(t, out.Generation, int64(1))
	<-p.swaps
	return p
}

func (p *project) at(path string) string { return filepath.Join(p.root, path) }

func (p *project) write(path, content string) {
	p.t.Helper()
	write(p.t, p.at(path), content)
}

func (p *project) remove(path string) {
	p.t.Helper()
	must(p.t, os.RemoveAll(p.at(path)))
}

// reload reloads and gives the outcome.
func (p *project) reload() Outcome {
	p.t.Helper()
	out, err := p.r.Reload(p.t.Context(), TriggerAPI)
	must(p.t, err)
	return out
}

// live is the generation in force.
func (p *project) live() *snapshot.Snapshot {
	p.t.Helper()
	lease, release, err := p.holder.Acquire()
	must(p.t, err)
	defer release()
	return lease.Snapshot
}

// offered are the tools of the agent with their descriptions.
func (p *project) offered() map[string]string { p.t.Helper(); return offered(p.t, p.live()) }

func offered(t testing.TB, s *snapshot.Snapshot) map[string]string {
	t.Helper()
	out := map[string]string{}
	a := s.Agents["assistant"]
	if a == nil {
		t.Fatal("no agent")
	}
	for _, d := range a.View.Definitions() {
		var def struct {
			Function struct{ Description string }
		}
		must(t, json.Unmarshal(d.JSON, &def))
		out[d.Name] = def.Function.Description
	}
	return out
}

// names are the offered tools, sorted.
func (p *project) names() []string { p.t.Helper(); return sortedKeys(p.offered()) }

// call calls a tool and gives the text of its answer, or the kind of its error.
func (p *project) call(name string) string {
	p.t.Helper()
	lease, release, err := p.holder.Acquire()
	must(p.t, err)
	defer release()
	t, ok := lease.Registry.Tool(tool.Name(name))
	if !ok {
		return "no such tool"
	}
	res, err := t.Handler.Call(p.t.Context(), &tool.Call{
		ID: "c", Tool: tool.Name(name), Arguments: json.RawMessage(`{}`), Agent: "assistant", Principal: principal.Principal{Name: "local"},
	})
	if err != nil {
		return err.Error()
	}
	return string(res.JSON)
}

// tool is a tool of the live generation.
func (p *project) tool(name string) *registry.Tool {
	p.t.Helper()
	t, ok := p.live().Registry.Tool(tool.Name(name))
	if !ok {
		p.t.Fatalf("no tool %q", name)
	}
	return t
}

// next waits for the next generation.
func (p *project) next() *snapshot.Snapshot {
	p.t.Helper()
	select {
	case s := <-p.swaps:
		return s
	case <-time.After(20 * time.Second):
		p.t.Fatalf("no generation came\n%s", p.log)
		return nil
	}
}

// run starts Run, which ends with the test.
func (p *project) run() {
	p.t.Helper()
	ctx, cancel := context.WithCancel(p.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.r.Run(ctx) }()
	p.t.Cleanup(func() {
		cancel()
		must(p.t, <-ended)
	})
}

// staleOf gives what is stale: by path, the kind of change and the summaries.
func staleOf(list []Stale) map[string]string {
	out := map[string]string{}
	for _, s := range list {
		var parts []string
		for _, d := range s.Report {
			parts = append(parts, d.Summary)
		}
		slices.Sort(parts)
		text := string(s.Change) + ": " + strings.Join(slices.Compact(parts), ", ")
		if s.With != "" {
			text = string(s.Change) + " with " + s.With
		}
		if s.Refused {
			text += " (refused)"
		}
		out[s.Path] = text
	}
	return out
}

// stale is what is stale now; the status and the outcome must agree.
func (p *project) stale(out Outcome) map[string]string {
	p.t.Helper()
	got := staleOf(out.Stale)
	diff(p.t, staleOf(p.r.Status().Stale), got)
	return got
}

// summaries of diagnostics of a severity.
func summaries(diags hcl.Diagnostics, severity hcl.DiagnosticSeverity) []string {
	var out []string
	for _, d := range diags {
		if d.Severity == severity {
			out = append(out, d.Summary)
		}
	}
	slices.Sort(out)
	return out
}
