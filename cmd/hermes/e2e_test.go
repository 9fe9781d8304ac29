package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-runtime/hermes/runtime/reload"
	"github.com/hermes-runtime/hermes/runtime/server/api"
	"github.com/hermes-runtime/hermes/runtime/store/lock"
)

// built is the real binary, linked once per test process.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "hermes-e2e-")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "hermes")
	out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building: %w\n%s", err, out)
	}
	return bin, nil
})

// daemon is hermes serve in a process of its own.
type daemon struct {
	t    *testing.T
	dir  string
	base string
	cmd  *exec.Cmd
	log  *bytes.Buffer
}

func binary(t *testing.T) string {
	t.Helper()
	if raceEnabled && testing.Short() {
		t.Skip("the real binary is built without the race detector: the plain run has this test")
	}
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// project is a fresh one, as hermes init writes it, with a warm compile cache.
func project(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	initProject(t, dir)
	if err := linkTree(filepath.Join(dir, "state", "cache"), warmCache(t)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// linkTree makes the directory to like from, with hard links for its files: compiled
// modules are large, and replaced but never changed.
func linkTree(to, from string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if e.IsDir() {
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		}
		return os.Link(path, filepath.Join(to, name))
	})
}

func initProject(t *testing.T, dir string) {
	t.Helper()
	if out, err := exec.Command(binary(t), "init", dir).CombinedOutput(); err != nil {
		t.Fatalf("init: %v\n%s", err, out)
	}
	if modules, _ := filepath.Glob(filepath.Join(dir, "tools.d", "*.wasm")); len(modules) == 0 {
		t.Fatal("the binary carries no WASM tools: run make guests first")
	}
}

var warmed struct {
	once sync.Once
	dir  string
}

// warmCache is a compile cache with the shipped modules in it, filled once.
func warmCache(t *testing.T) string {
	t.Helper()
	warmed.once.Do(func() {
		dir := filepath.Join(filepath.Dir(binary(t)), "warm")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		initProject(t, dir)
		for _, call := range [][]string{{"text_stats", `{"text":"a"}`}, {"json_query", "{}"}, {"csv_query", "{}"}, {"diff", "{}"}, {"run_javascript", "{}"}} {
			cmd := exec.Command(binary(t), "tools", "call", call[0], call[1])
			cmd.Dir = dir
			_ = cmd.Run() // wrong arguments are answered by a module that is compiled all the same
		}
		warmed.dir = filepath.Join(dir, "state", "cache")
	})
	return warmed.dir
}

func serveProject(t *testing.T, dir string, args ...string) *daemon {
	t.Helper()
	d := &daemon{t: t, dir: dir, log: &bytes.Buffer{}}
	d.cmd = exec.Command(binary(t), append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	d.cmd.Dir = dir
	d.cmd.Env = append(os.Environ(), "OPENAI_API_KEY=", "OPENAI_BASE_URL=")
	d.cmd.Stderr = d.log
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.stop)
	d.await("an address", func() bool {
		owner, ok := lock.Owner(filepath.Join(dir, "state"))
		if ok && owner.PID == d.cmd.Process.Pid && owner.Address != "" {
			d.base = owner.Address
		}
		return d.base != ""
	})
	return d
}

func (d *daemon) stop() {
	if d.cmd.ProcessState != nil {
		return
	}
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	if err := d.cmd.Wait(); err != nil {
		d.t.Errorf("serve ended with %v after SIGTERM\n%s", err, d.log)
	}
}

// await polls until ok, and gives how long that took.
func (d *daemon) await(what string, ok func() bool) time.Duration {
	d.t.Helper()
	start := time.Now()
	for time.Since(start) < 60*time.Second {
		if ok() {
			return time.Since(start)
		}
		time.Sleep(5 * time.Millisecond)
	}
	d.t.Fatalf("waited for %s in vain", what)
	return 0
}

func (d *daemon) request(method, path, body string) (int, []byte) {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), method, d.base+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatalf("%s %s: %v\n%s", method, path, err, d.log)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return resp.StatusCode, raw
}

// definitions are what the assistant's model is offered now.
func (d *daemon) definitions() string {
	d.t.Helper()
	status, raw := d.request(http.MethodGet, "/api/agents/assistant/tools", "")
	if status != http.StatusOK {
		d.t.Fatalf("tools: %d %s", status, raw)
	}
	return string(raw)
}

func (d *daemon) status() api.Status {
	d.t.Helper()
	_, raw := d.request(http.MethodGet, "/api/status", "")
	var s api.Status
	if err := json.Unmarshal(raw, &s); err != nil {
		d.t.Fatalf("status: %v\n%s", err, raw)
	}
	return s
}

// ask runs one turn and gives the reply.
func (d *daemon) ask(text string) string {
	d.t.Helper()
	body, _ := json.Marshal(map[string]any{"model": "assistant", "messages": []map[string]string{{"role": "user", "content": text}}})
	status, raw := d.request(http.MethodPost, "/v1/chat/completions", string(body))
	var c struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if err := json.Unmarshal(raw, &c); err != nil || status != http.StatusOK || len(c.Choices) != 1 {
		d.t.Fatalf("chat: %d %s (%v)", status, raw, err)
	}
	return c.Choices[0].Message.Content
}

func (d *daemon) write(name, content string) {
	d.t.Helper()
	path := filepath.Join(d.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		d.t.Fatal(err)
	}
}

func (d *daemon) read(name string) string {
	d.t.Helper()
	raw, err := os.ReadFile(filepath.Join(d.dir, name))
	if err != nil {
		d.t.Fatal(err)
	}
	return string(raw)
}

func (d *daemon) remove(name string) {
	d.t.Helper()
	if err := os.Remove(filepath.Join(d.dir, name)); err != nil {
		d.t.Fatal(err)
	}
}

// cli runs a command in the project and gives its exit code and output.
func (d *daemon) cli(args ...string) (int, string) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary(d.t), args...)
	cmd.Dir = d.dir
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		d.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

func nativeTool(name, description string) string {
	return fmt.Sprintf("tool %q {\n  description = %q\n  handler \"native\" {\n    function = \"time.now\"\n  }\n}\n", name, description)
}

func wasmTool(name, module string) string {
	return fmt.Sprintf("tool %q {\n  description = \"Counts words.\"\n  param \"text\" {\n    type = string\n  }\n  handler \"wasm\" {\n    module = %q\n    tool   = \"text_stats\"\n  }\n}\n", name, module)
}

// differs is a module that behaves like the given one and is not in any cache.
func differs(module string) string {
	const section = "\x00\x0a\x05other" // a custom section of ten bytes
	return module + section + "12345"[:4]
}

func TestAnswerUsesBothKindsOfTools(t *testing.T) {
	d := serveProject(t, project(t))
	reply := d.ask("Count the words in: to be or not to be")
	if !strings.HasPrefix(reply, "6 words") || !strings.Contains(reply, "time_now") {
		t.Errorf("reply = %q", reply)
	}
}

func TestLiveEdits(t *testing.T) {
	d := serveProject(t, project(t))
	pid := d.status().PID
	took := func(what string, ok func() bool) { t.Logf("%-28s live after %v", what, d.await(what, ok)) }
	offers := func(text string) func() bool { return func() bool { return strings.Contains(d.definitions(), text) } }
	lacks := func(text string) func() bool { return func() bool { return !strings.Contains(d.definitions(), text) } }

	d.write("tools.d/extra.hcl", nativeTool("extra", "First words."))
	took("a new tool", offers("First words."))
	d.write("tools.d/extra.hcl", nativeTool("extra", "Second words."))
	took("an edited description", offers("Second words."))

	d.write("tools.d/copy.wasm", d.read("tools.d/text_stats.wasm"))
	d.write("tools.d/copy.hcl", wasmTool("copy", "copy.wasm"))
	took("a known module", offers(`"copy"`))
	d.write("tools.d/fresh.wasm", differs(d.read("tools.d/text_stats.wasm")))
	d.write("tools.d/fresh.hcl", wasmTool("fresh", "fresh.wasm"))
	shown := false // status says what a reload is waiting for
	took("a module to be compiled", func() bool {
		for _, c := range d.status().Compiling {
			shown = shown || c.Module == "tools.d/fresh.wasm"
		}
		return offers(`"fresh"`)()
	})
	if !shown {
		t.Error("status did not show the compile of the new module")
	}
	status, raw := d.request(http.MethodPost, "/api/tools/fresh/call", `{"arguments":{"text":"a b c"}}`)
	if status != http.StatusOK || !strings.Contains(string(raw), `"words":3`) {
		t.Errorf("call of the new module: %d %s", status, raw)
	}

	for _, name := range []string{"extra.hcl", "copy.hcl", "copy.wasm", "fresh.hcl", "fresh.wasm"} {
		d.remove("tools.d/" + name)
	}
	took("three tools deleted", func() bool { return lacks(`"extra"`)() && lacks(`"copy"`)() && lacks(`"fresh"`)() })
	if got := d.status(); got.PID != pid || len(got.Reload.Stale) != 0 {
		t.Errorf("status = %+v, want process %d and nothing stale", got, pid)
	}
}

func TestBrokenFileIsWithheldAlone(t *testing.T) {
	d := serveProject(t, project(t))
	d.write("tools.d/extra.hcl", nativeTool("extra", "Good words."))
	d.await("the tool", func() bool { return strings.Contains(d.definitions(), "Good words.") })

	d.write("tools.d/extra.hcl", strings.Replace(nativeTool("extra", "Bad words."), "time.now", "time.nwo", 1))
	d.write("tools.d/other.hcl", nativeTool("other", "Other words."))
	d.await("the other tool", func() bool { return strings.Contains(d.definitions(), "Other words.") })
	if !strings.Contains(d.definitions(), "Good words.") {
		t.Error("the last good version is not in force")
	}
	if status, raw := d.request(http.MethodPost, "/api/tools/extra/call", `{"arguments":{}}`); status != http.StatusOK || strings.Contains(string(raw), `"failed":true`) {
		t.Errorf("call of the last good version: %d %s", status, raw)
	}
	for _, args := range [][]string{{"status"}, {"reload"}} {
		code, out := d.cli(args...)
		if !strings.Contains(out, "tools.d/extra.hcl:4") || !strings.Contains(out, `Did you mean "time.now"?`) {
			t.Errorf("hermes %s does not say file, line and fix:\n%s", args[0], out)
		}
		if args[0] == "reload" && code != 2 {
			t.Errorf("hermes reload: exit code %d with a stale file, want 2", code)
		}
	}
	_, raw := d.request(http.MethodPost, "/api/reload", "{}")
	var o reload.Outcome
	if err := json.Unmarshal(raw, &o); err != nil || len(o.Stale) != 1 || o.Stale[0].Path != "tools.d/extra.hcl" || len(o.Stale[0].Report) != 1 || o.Stale[0].Report[0].Line != 4 {
		t.Errorf("POST /api/reload = %s", raw)
	}

	d.write("tools.d/extra.hcl", nativeTool("extra", "Mended words."))
	d.await("the mended tool", func() bool { return strings.Contains(d.definitions(), "Mended words.") })
	if stale := d.status().Reload.Stale; len(stale) != 0 {
		t.Errorf("still stale: %+v", stale)
	}
}

func TestConfigChangeIsWithheldWholeAndRemovalsAreNot(t *testing.T) {
	d := serveProject(t, project(t), "--watch=false")
	d.write("tools.d/extra.hcl", nativeTool("extra", "Extra words."))
	d.cli("reload")
	d.write("agents/more.hcl", "model \"more\" {\n  provider = \"script.offlin\"\n}\n")
	d.write("tools.d/new.hcl", nativeTool("brand_new", "New words."))
	d.remove("tools.d/extra.hcl")
	if pending := d.status().Reload.Pending; len(pending) != 3 {
		// The list is made by the poll; a status asked before it may be empty.
		d.await("pending changes", func() bool { return len(d.status().Reload.Pending) == 3 })
	}
	code, out := d.cli("reload")
	if code != 2 || !strings.Contains(out, "agents/more.hcl:2") {
		t.Errorf("reload: %d\n%s", code, out)
	}
	defs := d.definitions()
	if strings.Contains(defs, `"extra"`) {
		t.Error("a deleted tool is still offered")
	}
	if strings.Contains(defs, "brand_new") {
		t.Error("a new tool went live beside a config change that could not load")
	}
	d.remove("agents/more.hcl")
	d.cli("reload")
	if !strings.Contains(d.definitions(), "brand_new") {
		t.Error("the new tool is not live after the config change was taken back")
	}
}

func TestSharedModuleBroken(t *testing.T) {
	d := serveProject(t, project(t))
	d.write("tools.d/shared.wasm", d.read("tools.d/text_stats.wasm"))
	d.write("tools.d/one.hcl", wasmTool("one", "shared.wasm"))
	d.write("tools.d/two.hcl", wasmTool("two", "shared.wasm"))
	d.await("both tools", func() bool { s := d.definitions(); return strings.Contains(s, `"one"`) && strings.Contains(s, `"two"`) })
	d.write("tools.d/shared.wasm", "(module)")
	d.await("the stale module", func() bool { return len(d.status().Reload.Stale) == 1 })
	_, out := d.cli("status")
	for _, want := range []string{"tools.d/shared.wasm", "tools.d/one.hcl", "tools.d/two.hcl"} {
		if !strings.Contains(out, want) {
			t.Errorf("status does not name %s:\n%s", want, out)
		}
	}
	for _, name := range []string{"one", "two"} {
		if _, raw := d.request(http.MethodPost, "/api/tools/"+name+"/call", `{"arguments":{"text":"a b"}}`); !strings.Contains(string(raw), `"words":2`) {
			t.Errorf("%s does not run on the old module: %s", name, raw)
		}
	}
}

func TestDeletedToolThatAnAgentNames(t *testing.T) {
	d := serveProject(t, project(t))
	d.write("tools.d/extra.hcl", nativeTool("extra", "Extra words."))
	d.await("the tool", func() bool { return strings.Contains(d.definitions(), `"extra"`) })
	d.write("agents/named.hcl", "agent \"named\" {\n  model        = \"offline\"\n  instructions = \"Be brief.\"\n  tools        = [\"extra\"]\n}\n")
	d.await("the agent", func() bool {
		status, _ := d.request(http.MethodGet, "/api/agents/named", "")
		return status == http.StatusOK
	})
	d.remove("tools.d/extra.hcl")
	t.Logf("gone after %v", d.await("the end of the tool", func() bool { return !strings.Contains(d.definitions(), `"extra"`) }))
	_, raw := d.request(http.MethodGet, "/api/agents/named/tools", "")
	if strings.Contains(string(raw), `"extra"`) {
		t.Errorf("the agent that names it is still offered it: %s", raw)
	}
	if code, out := d.cli("validate"); code != 2 || !strings.Contains(out, `Unknown tool`) {
		t.Errorf("validate: %d\n%s", code, out)
	}
}

func TestLocalMovedBetweenFilesInTwoWrites(t *testing.T) {
	d := serveProject(t, project(t))
	tool := "tool \"moved\" {\n  description = local.words\n  handler \"native\" {\n    function = \"time.now\"\n  }\n}\n"
	local := "locals {\n  words = \"Local words.\"\n}\n"
	d.write("tools.d/a.hcl", local+tool)
	d.await("the tool", func() bool { return strings.Contains(d.definitions(), "Local words.") })
	d.write("tools.d/a.hcl", tool)
	d.await("the stale half", func() bool { return len(d.status().Reload.Stale) == 1 })
	if !strings.Contains(d.definitions(), "Local words.") {
		t.Error("the tool is gone while its local is on the way")
	}
	d.write("tools.d/b.hcl", local)
	d.await("the whole", func() bool { return len(d.status().Reload.Stale) == 0 })
	if !strings.Contains(d.definitions(), "Local words.") {
		t.Error("the tool is gone after the local has moved")
	}
}

const slowAgent = `
model "slow" {
  provider = "script.offline"
  delay    = "150ms"
  rule {
    match = "walk"
    %s
    reply = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty"
  }
}

agent "slow" {
  model        = "slow"
  instructions = "Walk."
  toolsets     = ["*"]
}
`

// TestHundredGenerationsUnderOneRun changes a tool that the run is offered while it
// streams; what it says stays byte for byte what it says undisturbed.
func TestHundredGenerationsUnderOneRun(t *testing.T) {
	d := serveProject(t, project(t), "--watch=false")
	var calls strings.Builder
	for step := 1; step <= 30; step++ {
		fmt.Fprintf(&calls, "call \"moving\" {\n      step = %d\n    }\n    ", step)
	}
	d.write("agents/slow.hcl", fmt.Sprintf(slowAgent, calls.String()))
	d.write("tools.d/moving.hcl", nativeTool("moving", "Number 0."))
	if code, out := d.cli("reload"); code != 0 {
		t.Fatalf("reload: %d\n%s", code, out)
	}
	undisturbed := d.stream("slow", "walk")

	d.write("tools.d/moving.hcl", paced(nativeTool("moving", "Number 0.")))
	d.cli("reload")
	first := d.status().Reload.Generation
	done := make(chan string)
	go func() { done <- d.stream("slow", "walk") }()
	generations := int64(0)
	for n := 1; generations < 100; n++ {
		d.write("tools.d/moving.hcl", paced(nativeTool("moving", fmt.Sprintf("Number %d.", n))))
		if status, raw := d.request(http.MethodPost, "/api/reload", "{}"); status != http.StatusOK {
			t.Fatalf("reload: %d %s", status, raw)
		}
		generations = d.status().Reload.Generation - first
	}
	select {
	case <-done:
		t.Error("the run ended before the generation had risen by 100: it was not disturbed enough")
	default:
		if got := <-done; got != undisturbed {
			t.Errorf("disturbed:\n%q\nundisturbed:\n%q", got, undisturbed)
		}
	}
	d.await("drained generations", func() bool { return len(d.status().Draining) == 0 })
	t.Logf("%d generations under one run of 31 steps", generations)
}

// paced slows a tool's calls down, so that a run of many steps takes its time.
func paced(declaration string) string {
	return strings.Replace(declaration, "  handler", "  limits {\n    rate = \"3/s\"\n  }\n  handler", 1)
}

// stream runs a turn over the streaming API and gives its text as it came.
func (d *daemon) stream(agent, text string) string {
	body, _ := json.Marshal(map[string]any{"model": agent, "stream": true, "messages": []map[string]string{{"role": "user", "content": text}}})
	_, raw := d.request(http.MethodPost, "/v1/chat/completions", string(body))
	var out strings.Builder
	lines := slices.Collect(strings.Lines(string(raw)))
	for _, line := range lines {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: {")
		if !ok {
			continue
		}
		var c struct {
			Choices []struct{ Delta struct{ Content string } }
			Error   any
		}
		if err := json.Unmarshal([]byte("{"+data), &c); err != nil || c.Error != nil {
			d.t.Errorf("chunk %s: %v", line, err)
			continue
		}
		for _, choice := range c.Choices {
			out.WriteString(choice.Delta.Content)
		}
	}
	if len(lines) == 0 || !strings.Contains(lines[len(lines)-2], "[DONE]") {
		d.t.Errorf("the stream does not end with [DONE]: %q", raw)
	}
	return out.String()
}

// TestExplicitTriggersWithoutWatching holds that nothing loads by itself, and that each
// explicit trigger loads.
func TestExplicitTriggersWithoutWatching(t *testing.T) {
	d := serveProject(t, project(t), "--watch=false")
	triggers := map[string]func(){
		"SIGHUP":           func() { _ = d.cmd.Process.Signal(syscall.SIGHUP) },
		"POST /api/reload": func() { d.request(http.MethodPost, "/api/reload", "{}") },
		"hermes reload":    func() { d.cli("reload") },
	}
	for name, trigger := range triggers {
		words := "Words of " + name + "."
		d.write("tools.d/extra.hcl", nativeTool("extra", words))
		d.await("the pending change", func() bool { return slices.Contains(d.status().Reload.Pending, "tools.d/extra.hcl") })
		if strings.Contains(d.definitions(), words) {
			t.Errorf("a change went live before %s", name)
		}
		trigger()
		d.await(name, func() bool { return strings.Contains(d.definitions(), words) })
		if pending := d.status().Reload.Pending; len(pending) != 0 {
			t.Errorf("after %s still pending: %v", name, pending)
		}
	}
}
