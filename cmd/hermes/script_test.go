package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hermes-runtime/hermes/runtime/store/lock"
	"github.com/hermes-runtime/hermes/wasmtools/sdk"
	"github.com/hermes-runtime/hermes/wasmtools/sdk/sdktest"
)

// TestScript runs testdata/script, one behaviour a file. Beside the usual commands:
//
//	exits CODE COMMAND…     runs a command, which must end with this exit code
//	json [PATH VALUE]…      what was printed to stdout is JSON, and at each path
//	                        (a.0.b, or a.len for a length) is this JSON value
//	jsonlines MIN           every line of stdout is JSON, and there are at least so many
//	listening [DIR]         waits for the server that owns DIR's state (default .), and
//	                        puts its address into $SERVER and process id into $PID
//	unreachable             puts into $PORT a port that nobody listens on, and into
//	                        $USED one that somebody does
//	eventually COMMAND…     repeats a command until it ends with 0
//	signal NAME SIGNAL      sends TERM, INT or HUP to the process id in $NAME
//	project [DIR]           writes testdata/project into DIR (default .)
//	warm DIR                puts the shipped modules in compiled form into a state
//	[toolchain:LANGUAGE]    is a condition: tools in the language can be built here
//	lines N                 stdout has so many lines
func TestScript(t *testing.T) {
	fixture, err := filepath.Abs("testdata/project")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	tools, err := sdktest.Environ()
	if err != nil {
		t.Fatal(err)
	}
	cache := ""
	if !testing.Short() {
		cache = warmCache(t)
	}
	testscript.Run(t, testscript.Params{
		Files: scripts(t),
		Setup: func(e *testscript.Env) error {
			e.Vars = append(e.Vars, "OPENAI_API_KEY=", "OPENAI_BASE_URL=", "OPENAI_MODEL=", "HERMES_TOKEN=", "NO_COLOR=", "ROOT="+root)
			e.Vars = append(e.Vars, tools...)
			return nil
		},
		Condition: toolchain,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits, "json": jsonOutput, "jsonlines": jsonLines, "listening": listening, "unreachable": unreachable,
			"eventually": eventually, "signal": signalProcess, "lines": lineCount,
			"project": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(os.CopyFS(ts.MkAbs(strings.Join(args, "")), os.DirFS(fixture)))
			},
			"warm": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(linkTree(filepath.Join(ts.MkAbs(args[0]), "cache"), cache))
			},
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// scripts are the files to run. Under the race detector every command takes a second to
// begin, so that in short form only those run in which commands and servers meet.
func scripts(t *testing.T) []string {
	t.Helper()
	patterns := []string{"*"}
	if raceEnabled && testing.Short() {
		patterns = []string{"apply*", "generations", "keys", "reload", "run_server*", "serve_signals", "serve_twice", "status*"}
	}
	var files []string
	for _, p := range patterns {
		found, err := filepath.Glob(filepath.Join("testdata", "script", p+".txtar"))
		if err != nil || len(found) == 0 {
			t.Fatalf("no script is named %s (%v)", p, err)
		}
		files = append(files, found...)
	}
	return files
}

// toolchain is the condition [toolchain:LANGUAGE]: tools in it can be built here.
func toolchain(condition string) (bool, error) {
	language, ok := strings.CutPrefix(condition, "toolchain:")
	if !ok {
		return false, fmt.Errorf("there is no condition %q", condition)
	}
	return sdktest.Missing(sdk.Language(language)) == "", nil
}

func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := exitCode(ts.Exec(args[1], args[2:]...)); got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func exitCode(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	return -1
}

func jsonOutput(ts *testscript.TestScript, _ bool, args []string) {
	if len(args)%2 != 0 {
		ts.Fatalf("usage: json [PATH VALUE]…")
	}
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	dec.UseNumber()
	var value any
	ts.Check(dec.Decode(&value))
	if dec.More() {
		ts.Fatalf("stdout has more than one JSON value")
	}
	for ; len(args) > 1; args = args[2:] {
		got, err := json.Marshal(at(value, strings.Split(args[0], ".")))
		ts.Check(err)
		if string(got) != args[1] {
			ts.Fatalf("%s is %s, want %s", args[0], got, args[1])
		}
	}
}

// at is the value at a path: names, positions, and len for a length.
func at(value any, path []string) any {
	if len(path) == 0 {
		return value
	}
	switch v := value.(type) {
	case map[string]any:
		if path[0] == "len" {
			return len(v)
		}
		return at(v[path[0]], path[1:])
	case []any:
		if path[0] == "len" {
			return len(v)
		}
		i, err := strconv.Atoi(path[0])
		if err != nil || i >= len(v) {
			return fmt.Sprintf("nothing at %s of %d", path[0], len(v))
		}
		return at(v[i], path[1:])
	}
	return fmt.Sprintf("nothing at %s", path[0])
}

func jsonLines(ts *testscript.TestScript, _ bool, args []string) {
	least, err := strconv.Atoi(args[0])
	ts.Check(err)
	n := 0
	for line := range strings.Lines(ts.ReadFile("stdout")) {
		if !json.Valid([]byte(line)) {
			ts.Fatalf("this line is not JSON: %s", line)
		}
		n++
	}
	if n < least {
		ts.Fatalf("%d lines, want at least %d", n, least)
	}
}

func lineCount(ts *testscript.TestScript, _ bool, args []string) {
	if got := strconv.Itoa(strings.Count(ts.ReadFile("stdout"), "\n")); got != args[0] {
		ts.Fatalf("%s lines, want %s", got, args[0])
	}
}

const scriptWait = time.Minute

func listening(ts *testscript.TestScript, _ bool, args []string) {
	dir := "."
	if len(args) > 0 {
		dir = args[0]
	}
	for start := time.Now(); time.Since(start) < scriptWait; time.Sleep(10 * time.Millisecond) {
		if o, ok := lock.Owner(filepath.Join(ts.MkAbs(dir), "state")); ok && o.Address != "" {
			ts.Setenv("SERVER", o.Address)
			ts.Setenv("ADDRESS", strings.TrimPrefix(o.Address, "http://"))
			ts.Setenv("PID", strconv.Itoa(o.PID))
			return
		}
	}
	ts.Fatalf("no server came up")
}

func unreachable(ts *testscript.TestScript, _ bool, _ []string) {
	used, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = used.Close() })
	free, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Check(free.Close())
	for name, l := range map[string]net.Listener{"USED": used, "PORT": free} {
		_, port, err := net.SplitHostPort(l.Addr().String())
		ts.Check(err)
		ts.Setenv(name, port)
	}
}

func eventually(ts *testscript.TestScript, _ bool, args []string) {
	for start := time.Now(); time.Since(start) < scriptWait; time.Sleep(20 * time.Millisecond) {
		if ts.Exec(args[0], args[1:]...) == nil {
			return
		}
	}
	ts.Fatalf("never: %s", strings.Join(args, " "))
}

func signalProcess(ts *testscript.TestScript, _ bool, args []string) {
	pid, err := strconv.Atoi(ts.Getenv(args[0]))
	ts.Check(err)
	process, err := os.FindProcess(pid)
	ts.Check(err)
	sig, ok := signals[args[1]]
	if !ok {
		ts.Fatalf("no signal %s", args[1])
	}
	ts.Check(process.Signal(sig))
}

var signals = map[string]os.Signal{"TERM": syscall.SIGTERM, "INT": os.Interrupt, "HUP": syscall.SIGHUP}
