package runtime

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/schema"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// TestWriteToLive measures how long it takes from the write of one file to the first
// definitions that show it, with the watcher and its debounce, in directories of
// HERMES_LATENCY=edits[,tools…] (for example 200,10,100,1000,2000). Without that it only
// holds that every edit goes live.
func TestWriteToLive(t *testing.T) {
	given := os.Getenv("HERMES_LATENCY")
	if given == "" {
		given = "5,10"
	}
	var numbers []int
	for part := range strings.SplitSeq(given, ",") {
		n, err := strconv.Atoi(part)
		if err != nil {
			t.Fatalf("HERMES_LATENCY=%s: %v", given, err)
		}
		numbers = append(numbers, n)
	}
	for _, tools := range numbers[1:] {
		t.Run(fmt.Sprint(tools), func(t *testing.T) {
			took := writeToLive(t, numbers[0], tools)
			slices.Sort(took)
			at := func(p int) time.Duration {
				return took[min(len(took)-1, len(took)*p/100)].Round(100 * time.Microsecond)
			}
			t.Logf("| %d tools | p50 %v | p90 %v | p99 %v | worst %v | of %d edits, the debounce of 50 ms included", tools, at(50), at(90), at(99), at(100), len(took))
		})
	}
}

// writeToLive edits one tool after the other and gives how long each edit took.
func writeToLive(t *testing.T, edits, tools int) []time.Duration {
	t.Helper()
	dir := t.TempDir()
	write := func(path, content string) {
		if err := os.WriteFile(filepath.Join(dir, path), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{"agents", "tools.d"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("agents/main.hcl", latencyAgents)
	schemas := manySchemas(t, tools)
	for i, raw := range schemas {
		write(latencyPath(i), latencyTool(i, "first", raw))
	}
	sys := loaded(t, Options{ConfigDir: dir, Listen: "127.0.0.1:0", HostFuncs: []hostfuncs.Func{nothing()}, Log: slog.New(slog.NewTextHandler(loadLog(t), nil))})
	defer sys.Close()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- sys.Serve(ctx, nil) }()
	defer func() { cancel(); <-served }()
	rnd := rand.New(rand.NewPCG(1, 2))
	var took []time.Duration
	for n := range edits + 3 {
		i := rnd.IntN(len(schemas))
		nonce := fmt.Sprintf("edit %d", n)
		content := latencyTool(i, nonce, schemas[i])
		time.Sleep(time.Duration(60+rnd.IntN(100)) * time.Millisecond) // the debounce of the edit before is over
		before, begin := sys.Holder().Number(), time.Now()
		write(latencyPath(i), content)
		awaitDefinition(t, sys, before, i, nonce)
		if n >= 3 { // the first ones meet a daemon that is still starting
			took = append(took, time.Since(begin))
		}
	}
	return took
}

// awaitDefinition waits until the agent is offered the edited tool.
func awaitDefinition(t *testing.T, sys *System, before int64, i int, nonce string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Microsecond) {
		if sys.Holder().Number() == before {
			if time.Now().After(deadline) {
				t.Fatalf("%s of tool %d did not go live: %+v", nonce, i, sys.Reloader().Status())
			}
			continue
		}
		lease, release, err := sys.Holder().Acquire()
		if err != nil {
			t.Fatal(err)
		}
		defs := lease.Agents["assistant"].View.Definitions()
		release()
		name := latencyName(i)
		at := slices.IndexFunc(defs, func(d chat.Definition) bool { return d.Name == string(name) })
		if at >= 0 && strings.Contains(string(defs[at].JSON), nonce+".") {
			return
		}
		before = lease.Number
	}
}

const latencyAgents = `
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

// nothing is a native function with whatever parameters its tool declares.
func nothing() hostfuncs.Func {
	return hostfuncs.Func{
		Name: "test.nothing", Description: "Does nothing.", Open: true, Params: json.RawMessage(`{"type":"object"}`), Traits: tool.Traits{Effect: tool.Read},
		New: func(hostfuncs.Binding) (tool.Handler, error) {
			return tool.HandlerFunc(func(context.Context, *tool.Call) (tool.Result, error) { return tool.Result{}, nil }), nil
		},
	}
}

func latencyName(i int) tool.Name { return tool.Name(fmt.Sprintf("t%04d", i)) }
func latencyPath(i int) string    { return fmt.Sprintf("tools.d/t%04d.hcl", i) }

func latencyTool(i int, nonce string, raw json.RawMessage) string {
	quoted, _ := json.Marshal(string(raw))
	text := strings.NewReplacer("${", "$${", "%{", "%%{", `\b`, `\u0008`, `\f`, `\u000c`).Replace(string(quoted))
	return fmt.Sprintf("tool %q {\n  description = \"In its %s.\"\n  schema = jsondecode(%s)\n  handler \"native\" {\n    function = \"test.nothing\"\n  }\n}\n", latencyName(i), nonce, text)
}

// manySchemas are n schemas of real tools, or as many as there are.
func manySchemas(t testing.TB, n int) []json.RawMessage {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "shared", "data", "bfcl", "tools.jsonl"))
	if err != nil {
		t.Skipf("the tool definitions are not there: %v", err)
	}
	defer f.Close()
	var out []json.RawMessage
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() && len(out) < n {
		var d struct{ Schema json.RawMessage }
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			t.Fatal(err)
		}
		if _, err := schema.Compile(d.Schema); err == nil {
			out = append(out, d.Schema)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}
