package wasmtools

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hermes-runtime/hermes/runtime/egress"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// built holds the guests of the tests and the cache they share. It is set once, by
// TestMain.
var built struct {
	dir              string
	reactor, command []byte
}

func TestMain(m *testing.M) {
	code, err := testMain(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func testMain(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "wasmtools")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	built.dir = dir
	if os.Getenv(bombEnv) != "" {
		return m.Run(), nil // a child, which needs no guests
	}
	if built.reactor, err = buildGuest("./testdata/probe", "-buildmode=c-shared"); err != nil {
		return 1, err
	}
	if built.command, err = buildGuest("./testdata/probe"); err != nil {
		return 1, err
	}
	code := m.Run()
	if code == 0 {
		err = goleak.Find()
	}
	return code, err
}

func buildGuest(pkg string, flags ...string) ([]byte, error) {
	out := filepath.Join(built.dir, "out.wasm")
	args := append([]string{"build", "-trimpath", "-ldflags=-s -w", "-o", out}, flags...)
	cmd := exec.Command("go", append(args, pkg)...)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=")
	if msg, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building %s: %w\n%s", pkg, err, msg)
	}
	return os.ReadFile(out)
}

// open makes a runtime on the shared cache.
func open(t testing.TB, o Options) *Runtime {
	t.Helper()
	if o.CacheDir == "" {
		o.CacheDir = filepath.Join(built.dir, "cache")
	}
	if o.Egress == nil {
		o.Egress = egress.New(egress.Options{})
		t.Cleanup(o.Egress.Close)
	}
	if o.CompileTimeout == 0 {
		o.CompileTimeout = time.Hour // how fast the machine is, is not what is tested
	}
	r, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// bind compiles and binds a module for one test.
func bind(t testing.TB, r *Runtime, wasm []byte, s Spec) *Tool {
	t.Helper()
	m, err := r.Compile(t.Context(), wasm)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Release()
	if s.Name == "" {
		s.Name = "probe"
	}
	tl, err := m.Bind(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tl.Close() })
	return tl
}

func invoke(ctx context.Context, tb testing.TB, tl *Tool, args any) (string, error) {
	tb.Helper()
	b, ok := args.(string)
	if !ok {
		var buf bytes.Buffer
		if err := json.NewEncoder(&buf).Encode(args); err != nil {
			tb.Fatal(err)
		}
		b = buf.String()
	}
	res, err := tl.Call(ctx, &tool.Call{ID: "call-1", Tool: tl.name, Arguments: json.RawMessage(b), Agent: "a", Session: "s", Run: "r", IdempotencyKey: "r/1", Generation: 3, Principal: principal.Principal{Name: "ann"}})
	return string(res.JSON), err
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// op is the arguments of the probe.
type op map[string]any

func descriptors(t *testing.T) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("counting descriptors needs /proc")
	}
	all, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	return len(all)
}
