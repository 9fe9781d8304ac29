package runtime

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/store/sqlite"
)

const secretText = "hunter2-of-the-test"

// lifeProject is a directory with a project that holds a secret.
func lifeProject(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "agents")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HERMES_TEST_KEY", secretText)
	err := os.WriteFile(filepath.Join(dir, "main.hcl"), []byte(`
provider "script" "offline" {}
model "m" {
  provider = "script.offline"
  rule {
    match = ".*"
    reply = "hi"
  }
}
agent "a" {
  model        = "m"
  instructions = "Be brief."
}
server {
  key "ops" {
    secret = secret_env("HERMES_TEST_KEY")
    role   = "admin"
  }
}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestFailedOpenGivesTheStateBack breaks each stage of New in turn; after the repair
// New works, so nothing was kept.
func TestFailedOpenGivesTheStateBack(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir := lifeProject(t)
	state := filepath.Join(filepath.Dir(dir), "state")
	file := func(name string) func() (string, string) {
		return func() (string, string) { return filepath.Join(state, name), "not what it should be" }
	}
	for name, broken := range map[string]func() (path, content string){
		"database": file("hermes.db"), "results": file("results"), "module cache": file("cache"),
	} {
		t.Run(name, func(t *testing.T) {
			path, content := broken()
			if err := os.RemoveAll(state); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(state, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if s, err := New(Options{ConfigDir: dir}); err == nil {
				s.Close()
				t.Fatal("New took it")
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			openAndClose(t, Options{ConfigDir: dir})
		})
	}
	twice := hostfuncs.Func{Name: "time.now"}
	if _, err := New(Options{ConfigDir: dir, HostFuncs: []hostfuncs.Func{twice}}); fault.KindOf(err) != fault.Exists {
		t.Errorf("a function that is there twice: %v", err)
	}
	openAndClose(t, Options{ConfigDir: dir})
	if err := os.RemoveAll(state); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(state, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{ConfigDir: dir}); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("a state that is a file: %v", err)
	}
}

func openAndClose(t *testing.T, o Options) {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatalf("after the repair: %v", err)
	}
	if _, err := New(o); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("a second owner: %v", err)
	}
	s.Close()
	s.Close()
}

func TestServeBeforeLoad(t *testing.T) {
	s, err := New(Options{ConfigDir: lifeProject(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Serve(t.Context(), nil); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("Serve = %v", err)
	}
}

// TestServeOnATakenPort fails, and leaves the state to the next.
func TestServeOnATakenPort(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var lc net.ListenConfig
	taken, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	o := Options{ConfigDir: lifeProject(t), Listen: taken.Addr().String()}
	s := loaded(t, o)
	if err := s.Serve(t.Context(), nil); err == nil {
		t.Error("Serve took a taken port")
	}
	s.Close()
	openAndClose(t, o)
}

func loaded(t *testing.T, o Options) *System {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if diags, err := s.Load(t.Context()); err != nil {
		s.Close()
		t.Fatalf("Load: %v %v", err, diags)
	}
	return s
}

// heard is a log that tells when it heard a message.
type heard struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
	want string
	once sync.Once
	seen chan struct{}
}

func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if strings.Contains(string(p), h.want) {
		h.once.Do(func() { close(h.seen) })
	}
	return h.text.Write(p)
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.String()
}

// TestServeAndStop serves with signals, the last of which is the end of the channel,
// and stops: nothing is left, nothing is logged twice, no secret is logged.
func TestServeAndStop(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	log := &heard{want: "msg=serving", seen: make(chan struct{})}
	s := loaded(t, Options{
		ConfigDir: lifeProject(t), Listen: "127.0.0.1:0", NoWatch: true,
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	ctx, cancel := context.WithCancel(t.Context())
	hup, served := make(chan os.Signal), make(chan error, 1)
	go func() { served <- s.Serve(ctx, hup) }()
	<-log.seen
	for range 3 {
		hup <- os.Interrupt
	}
	close(hup)
	cancel()
	if err := <-served; err != nil {
		t.Errorf("Serve = %v", err)
	}
	s.Close()
	text := log.String()
	for _, once := range []string{"msg=serving", "msg=stopping"} {
		if n := strings.Count(text, once); n != 1 {
			t.Errorf("%s is logged %d times", once, n)
		}
	}
	if n := strings.Count(text, "\n"); n > 40 {
		t.Errorf("%d lines for three signals:\n%s", n, text)
	}
	if strings.Contains(text, secretText) || strings.Contains(text, "level=ERROR") {
		t.Errorf("log:\n%s", text)
	}
	openAndClose(t, Options{ConfigDir: s.Paths().ConfigDir})
}

// TestStateSaysHowSafelyItIsWritten reads the setting as it is documented.
func TestStateSaysHowSafelyItIsWritten(t *testing.T) {
	dir := lifeProject(t)
	for state, want := range map[string]sqlite.Synchronous{
		"x": sqlite.Full, "x?synchronous=full": sqlite.Full, "x?synchronous=normal": sqlite.Normal, "x?synchronous=NORMAL": sqlite.Normal,
		"x?synchronous=off": "", "x?sync=full": "",
	} {
		_, got, err := Locate(dir, nil, state)
		if got := got.Synchronous; err == nil && got != want || (err != nil) != (want == "") {
			t.Errorf("%s: %q, %v; want %q", state, got, err, want)
		}
	}
}
