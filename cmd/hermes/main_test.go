package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hermes-runtime/hermes/runtime/server/api"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"hermes": main})
}

// compiled holds the shipped modules in compiled form, made once per test process by
// serving until no tool is compiling any more.
var compiled struct {
	once sync.Once
	dir  string
}

// warm puts the compiled modules into a state directory, so that what is tested there
// does not wait for a compiler. A cold start has a test of its own.
func warm(t *testing.T, state string) {
	t.Helper()
	compiled.once.Do(func() { compiled.dir = compileShipped(t) })
	if compiled.dir == "" {
		t.Fatal("the shipped modules could not be compiled")
	}
	if err := os.CopyFS(filepath.Join(state, "cache"), os.DirFS(compiled.dir)); err != nil {
		t.Fatal(err)
	}
}

func compileShipped(t *testing.T) string {
	t.Helper()
	dir := project(t)
	d := serveProject(t, dir)
	defer d.stop()
	for range 1000 {
		code, raw := d.request(http.MethodGet, "/api/status", "")
		var s api.Status
		if err := json.Unmarshal(raw, &s); code != http.StatusOK || err != nil {
			t.Fatalf("status %d: %v", code, err)
		}
		if len(s.Tools) == 0 {
			return keep(t, filepath.Join(dir, "state", "cache"))
		}
		time.Sleep(200 * time.Millisecond)
	}
	t.Fatal("the shipped modules do not finish compiling")
	return ""
}

// keep copies a directory to where it outlives the test; the binary stands there too.
func keep(t *testing.T, dir string) string {
	t.Helper()
	out := filepath.Join(filepath.Dir(binary(t)), "cache")
	if err := os.CopyFS(out, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return out
}
