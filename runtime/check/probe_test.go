package check_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hermes-runtime/hermes/runtime/check"
)

// listener accepts and closes; the address stays taken until the test ends.
func listener(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

func refused(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	return l.Addr().String()
}

func TestProbes(t *testing.T) {
	t.Setenv("HERMES_CHECK_SET", "hunter2")
	t.Setenv("HERMES_CHECK_EMPTY", "")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "there"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/", http.StatusFound)
		case "/sick":
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(srv.Close)
	t.Setenv("HTTP_PROXY", "http://"+refused(t))
	for name, c := range map[string]struct {
		spec check.Spec
		want string // part of the error; empty: passes
	}{
		"env set":           {check.Spec{Kind: check.Env, Vars: []string{"HERMES_CHECK_SET"}}, ""},
		"env empty":         {check.Spec{Kind: check.Env, Vars: []string{"HERMES_CHECK_SET", "HERMES_CHECK_EMPTY", "HERMES_CHECK_NONE"}}, "HERMES_CHECK_EMPTY, HERMES_CHECK_NONE"},
		"file":              {check.Spec{Kind: check.File, Path: filepath.Join(dir, "there")}, ""},
		"directory":         {check.Spec{Kind: check.File, Path: dir}, ""},
		"no file":           {check.Spec{Kind: check.File, Path: filepath.Join(dir, "gone")}, "does not exist"},
		"command":           {check.Spec{Kind: check.Command, Run: []string{"sh", "-c", "test -e there"}, Dir: dir}, ""},
		"command fails":     {check.Spec{Kind: check.Command, Run: []string{"sh", "-c", "exit 3"}}, "exit status 3"},
		"no such command":   {check.Spec{Kind: check.Command, Run: []string{"hermes-no-such-command"}}, "not found"},
		"empty command":     {check.Spec{Kind: check.Command}, "empty"},
		"no shell":          {check.Spec{Kind: check.Command, Run: []string{"true && true"}}, "not found"},
		"clean environment": {check.Spec{Kind: check.Command, Run: []string{"sh", "-c", `test -z "$HERMES_CHECK_SET" && test -n "$PATH"`}}, ""},
		"tcp":               {check.Spec{Kind: check.TCP, Address: listener(t)}, ""},
		"tcp refused":       {check.Spec{Kind: check.TCP, Address: refused(t)}, "does not accept connections"},
		"http":              {check.Spec{Kind: check.HTTP, URL: srv.URL + "/"}, ""},
		"http redirect":     {check.Spec{Kind: check.HTTP, URL: srv.URL + "/moved"}, "status 302, not 200"},
		"http status":       {check.Spec{Kind: check.HTTP, URL: srv.URL + "/sick", Status: 503}, ""},
		"http sick":         {check.Spec{Kind: check.HTTP, URL: srv.URL + "/sick?key=hunter2"}, "status 503, not 200"},
		"http refused":      {check.Spec{Kind: check.HTTP, URL: "http://u:hunter2@" + refused(t) + "/?key=hunter2"}, "does not answer"},
		"http broken":       {check.Spec{Kind: check.HTTP, URL: "http://a/%zz?key=hunter2"}, "cannot be parsed"},
		"unknown":           {check.Spec{Kind: "smell"}, "not a kind"},
	} {
		t.Run(name, func(t *testing.T) {
			cache := check.New(check.Options{})
			defer cache.Close()
			got := cache.State(c.spec)
			if got.OK != (c.want == "") || !strings.Contains(got.Err, c.want) {
				t.Errorf("got %+v, want %q", got, c.want)
			}
			if strings.Contains(got.Err, "hunter2") {
				t.Errorf("leaks: %s", got.Err)
			}
		})
	}
}

func TestCommandIsKilledWithWhatItStarted(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc to hand a pipe to the command; run it on Linux")
	}
	dir := t.TempDir()
	// The grandchild holds the pipe open; when the pipe is at its end, it is gone.
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = read.Close() }()
	fifo := filepath.Join(dir, "alive")
	if err := os.Symlink(fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), write.Fd()), fifo); err != nil {
		t.Fatal(err)
	}
	cache := check.New(check.Options{})
	defer cache.Close()
	got := cache.State(check.Spec{
		Kind: check.Command, Dir: dir, Timeout: 300 * time.Millisecond,
		Run: []string{"sh", "-c", "exec 3>alive; (sleep 600; true) & wait"},
	})
	_ = write.Close()
	if got.OK || !strings.Contains(got.Err, "timed out after 300ms") {
		t.Errorf("got %+v", got)
	}
	if _, err := read.Read(make([]byte, 1)); err == nil {
		t.Error("the pipe said something")
	}
}
