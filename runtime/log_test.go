package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/reload"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
)

// logProject declares tools that go wrong in every way that is logged, and an agent that
// calls them all in one turn.
const logProject = `
provider "script" "offline" {}

model "m" {
  provider = "script.offline"
  retry {
    attempts = 2
    base     = "1ms"
    max      = "1ms"
  }
  rule {
    match = "all of it"
    fail {
      status = 500
      times  = 1
    }
    call "clock" { args = {} }
    call "fails" { args = {} }
    call "panics" { args = {} }
    call "fetch" { args = {} }
    call "guest" { args = {} }
    call "swaps" {
      step = 2
      args = {}
    }
    reply = "Done."
  }
  rule {
    match = ".*"
    call "clock" { args = {} }
    reply = "It is ${result.weekday}."
  }
}

agent "a" {
  model        = "m"
  instructions = "Be brief."
  toolsets     = ["*"]
}

tool "clock" {
  handler "native" {
    function = "time.now"
  }
}

tool "fails" {
  handler "native" {
    function = "test.fails"
  }
}

tool "panics" {
  handler "native" {
    function = "test.panics"
  }
}

tool "swaps" {
  handler "native" {
    function = "test.swaps"
  }
}

tool "fetch" {
  description = "Fetches what may not be fetched."
  handler "native" {
    function = "http.request"
    config = {
      url = "https://127.0.0.1/"
    }
  }
}

tool "guest" {
  description = "Asks for what it was not granted."
  handler "wasm" {
    module   = "guest.wasm"
    optional = true
  }
}

server {
  key "ops" {
    secret = secret_env("HERMES_TEST_KEY")
    role   = "admin"
  }
}
`

// asking is a module that asks for a key without a grant, and fails with the answer.
func asking() []byte {
	return moduletest.Module{
		Imports: []moduletest.Import{{Module: "hermes_kv", Name: "get", Params: []byte{moduletest.I32, moduletest.I32}, Results: []byte{moduletest.I32}}},
		Funcs: []moduletest.Func{
			{Export: "hermes_abi_v1"}, {Export: "hermes_call", Results: []byte{moduletest.I32}, Body: moduletest.Call(0, 0, 0)},
		},
		Pages: 1,
	}.Bytes()
}

// handlerOf is a native function without arguments.
func handlerOf(name string, call func() error) hostfuncs.Func {
	return hostfuncs.Func{
		Name: name, Description: "A function of the test.", Params: json.RawMessage(`{"type":"object","additionalProperties":false}`),
		New: func(hostfuncs.Binding) (tool.Handler, error) {
			return tool.HandlerFunc(func(context.Context, *tool.Call) (tool.Result, error) { return tool.Text("done"), call() }), nil
		},
	}
}

// logWorld is a served project whose log is kept.
type logWorld struct {
	t    *testing.T
	dir  string
	sys  *System
	base string
	log  *heard
}

func newLogWorld(t *testing.T) *logWorld {
	t.Helper()
	t.Setenv("HERMES_TEST_KEY", secretText)
	w := &logWorld{t: t, dir: filepath.Join(t.TempDir(), "agents"), log: &heard{want: "nothing in particular", seen: make(chan struct{})}}
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w.put("main.hcl", logProject)
	w.put("guest.wasm", string(asking()))
	w.sys = loaded(t, Options{
		ConfigDir: w.dir, NoWatch: true, Log: slog.New(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		HostFuncs: []hostfuncs.Func{
			handlerOf("test.fails", func() error { return errors.New("a reason for the log") }),
			handlerOf("test.panics", func() error { panic("at the disco") }),
			handlerOf("test.swaps", w.swap),
		},
	})
	t.Cleanup(w.sys.Close)
	w.base = serving(t, w.sys)
	return w
}

func (w *logWorld) put(name, content string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(content), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// swap makes a generation while a step runs on the one before.
func (w *logWorld) swap() error {
	w.put("more.hcl", strings.ReplaceAll(timeTool, "clock", "more"))
	_, err := w.sys.Reloader().Reload(context.Background(), reload.TriggerAPI)
	return err
}

func (w *logWorld) do(method, path, body string) *http.Response {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.base+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+secretText)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		b, err := io.ReadAll(resp.Body)
		w.t.Fatalf("%s %s: %s %s %v", method, path, resp.Status, b, err)
	}
	return resp
}

// get decodes the answer of a GET.
func get[T any](w *logWorld, path string) (out T) {
	w.t.Helper()
	if err := json.NewDecoder(w.do(http.MethodGet, path, "").Body).Decode(&out); err != nil {
		w.t.Fatal(err)
	}
	return out
}

type ranTurn struct {
	Run, Session, Text string
	Generation         int64
	header             string
}

func (w *logWorld) run(input string) ranTurn {
	w.t.Helper()
	resp := w.do(http.MethodPost, "/api/runs", fmt.Sprintf(`{"agent":"a","input":%q}`, input))
	var out ranTurn
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		w.t.Fatal(err)
	}
	out.header = resp.Header.Get("Hermes-Generation")
	return out
}

// lines of the log so far, as written.
func (w *logWorld) lines() []string {
	return strings.Split(strings.TrimSpace(w.log.String()), "\n")
}

type numberedRow struct {
	Generation int64
	Type, Role string
}

// TestEveryLineNamesItsGeneration: what is about a run, a call, an agent or a reload says
// in which generation, exactly once.
func TestEveryLineNamesItsGeneration(t *testing.T) {
	leakFree(t)
	w := newLogWorld(t)
	w.run("all of it")
	w.put("broken.hcl", "agent {")
	if _, err := w.sys.Reloader().Reload(t.Context(), reload.TriggerAPI); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(w.dir, "broken.hcl")); err != nil {
		t.Fatal(err)
	}
	w.do(http.MethodPost, "/api/reload", "{}")
	seen := map[string]int64{}
	for _, line := range w.lines() {
		var got map[string]any
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatal(err)
		}
		message, _ := got["msg"].(string)
		n := strings.Count(line, `"generation":`)
		if n > 1 {
			t.Errorf("said twice: %s", line)
		}
		for _, inside := range []string{"run", "call", "agent", "trigger", "change", "path"} {
			if _, ok := got[inside]; ok && n == 0 {
				t.Errorf("it has %s, and no generation: %s", inside, line)
			}
		}
		if g, ok := got["generation"].(float64); ok {
			seen[message] = max(seen[message], int64(g))
		}
	}
	want := map[string]int64{
		"agent ready": 1, "compiling module": 1,
		"tool handler failed": 1, "tool handler panicked": 1, "egress refused": 1,
		"capability refused": 1, "guest ran": 1, "reload asked for": 2, "generation swapped": 2, "turn ended": 2,
		"change withheld": 2, "change no longer withheld": 2,
	}
	for message, g := range want {
		if seen[message] != g {
			t.Errorf("%q is of generation %d, want %d", message, seen[message], g)
		}
	}
	if t.Failed() {
		t.Log(w.log.String())
	}
}

// TestOneNumberEverywhere: header, log, messages, events and the row of a run on one
// generation all have its number.
func TestOneNumberEverywhere(t *testing.T) {
	leakFree(t)
	w := newLogWorld(t)
	if err := w.swap(); err != nil {
		t.Fatal(err)
	}
	ran := w.run("what day is it?")
	if !strings.HasPrefix(ran.Text, "It is ") {
		t.Fatalf("%+v", ran)
	}
	got := map[string][]int64{
		"answer": {ran.Generation}, "row": {get[numberedRow](w, "/api/runs/"+ran.Run).Generation},
	}
	for _, m := range get[struct{ Messages []numberedRow }](w, "/api/sessions/"+ran.Session+"/messages").Messages {
		got["message "+m.Role] = append(got["message "+m.Role], m.Generation)
	}
	events, err := io.ReadAll(w.do(http.MethodGet, "/api/runs/"+ran.Run+"/events", "").Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(events)) {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var e numberedRow
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatal(err)
		}
		got["event "+e.Type] = append(got["event "+e.Type], e.Generation)
	}
	for _, line := range w.lines() {
		if strings.Contains(line, ran.Run) && strings.Contains(line, "turn ended") {
			var l numberedRow
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatal(err)
			}
			got["log"] = append(got["log"], l.Generation)
		}
	}
	want := map[string][]int64{
		"answer": {2}, "row": {2}, "log": {2}, "message user": {2}, "message assistant": {2, 2}, "message tool": {2},
		"event run.started": {2}, "event tool.started": {2}, "event tool.finished": {2}, "event message.completed": {2, 2}, "event run.completed": {2},
	}
	delete(got, "event message.delta")
	if diff := cmp.Diff(want, got); diff != "" || ran.header != "2" {
		t.Errorf("header %s (-want +got):\n%s", ran.header, diff)
	}
}
