package runtime

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/dispatch"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

const keptProject = `
provider "script" "offline" {}
model "m" {
  provider = "script.offline"
  rule {
    match = "."
    reply = "x"
  }
}
agent "a" {
  model        = "m"
  instructions = "x"
  toolsets     = ["*"]
}
runtime {
  results {
    ttl   = "1h"
    quota = "500KiB"
  }
}
`

const keptTools = `
tool "big" {
  description = "x"
  param "n" {
    type = integer
  }
  handler "native" {
    function = "test.big"
  }
}
tool "result_read" {
  handler "native" {
    function = "result.read"
  }
}
`

// keeping is a daemon whose tool answers with 150,000 bytes.
type keeping struct {
	*System
	t *testing.T
}

func newKeeping(t *testing.T) *keeping {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"agents/main.hcl": keptProject, "tools.d/t.hcl": keptTools} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sys, err := New(Options{ConfigDir: filepath.Join(dir, "agents"), NoWatch: true, HostFuncs: []hostfuncs.Func{{
		Name: "test.big", Description: "x", Open: true, Traits: tool.Traits{Effect: tool.Read},
		New: func(hostfuncs.Binding) (tool.Handler, error) {
			return tool.HandlerFunc(func(_ context.Context, c *tool.Call) (tool.Result, error) {
				return tool.Text(string(c.Arguments) + strings.Repeat("x", 150_000)), nil
			}), nil
		},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sys.Close)
	if diags, err := sys.Load(t.Context()); err != nil {
		t.Fatal(err, diags)
	}
	return &keeping{sys, t}
}

// call runs a tool for a principal, outside of any run.
func (k *keeping) call(who, name, arguments string) dispatch.Outcome {
	k.t.Helper()
	lease, release, err := k.holder.AcquireFor("the test")
	if err != nil {
		k.t.Fatal(err)
	}
	defer release()
	return k.dispatch.Dispatch(k.t.Context(), dispatch.Request{
		View: lease.Agents["a"].View, Call: chat.Call{ID: "c", Name: name, Arguments: arguments}, Agent: "a",
		Principal: principal.Principal{Name: who, Role: principal.User}, Generation: lease.Number,
	})
}

func (k *keeping) rows(who string) []store.Result {
	k.t.Helper()
	rows, err := k.db.ListResults(k.t.Context(), session.Scope{Owner: who}, store.ResultList{})
	if err != nil {
		k.t.Fatal(err)
	}
	return rows
}

// TestResultsAreKeptAsConfigured keeps three results of each principal, the newest, for an
// hour; the sweep takes what has expired, and files that nothing names, and nothing else.
func TestResultsAreKeptAsConfigured(t *testing.T) {
	k := newKeeping(t)
	var digests []string
	for _, n := range []string{"1", "2", "3", "4"} {
		o := k.call("ann", "big", `{"n":`+n+`}`)
		if o.Failed || o.Result == nil || o.Result.Expires.Sub(o.Result.Created) != time.Hour {
			t.Fatalf("%+v: %.300s", o.Result, o.Content)
		}
		digests = append(digests, o.Result.Digest)
	}
	other := k.call("bob", "big", `{"n":1}`)
	if rows := k.rows("ann"); len(rows) != 3 || rows[2].Digest != digests[1] || len(k.rows("bob")) != 1 {
		t.Errorf("kept: %+v", rows)
	}
	if err := k.sweepResults(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The first one's file is that of another principal's result too.
	for _, d := range digests {
		f, err := k.results.Open(d)
		if err != nil {
			t.Errorf("after a sweep: %v", err)
			continue
		}
		_ = f.Close()
	}
	if got := k.call("bob", "result_read", `{"handle":"`+k.rows("ann")[0].ID+`"}`); got.Kind != fault.NotFound {
		t.Errorf("another's result: %.300s", got.Content)
	}
	if got := k.call("bob", "result_read", `{"handle":"`+other.Result.ID+`","limit":8}`); got.Failed || !strings.Contains(got.Content, `"text":"\"{\\\"n\\\":","next_offset":8`) {
		t.Errorf("read: %.300s", got.Content)
	}

	old := *other.Result
	if err := k.db.DeleteResult(t.Context(), session.Scope{Owner: "bob"}, old.ID); err != nil {
		t.Fatal(err)
	}
	old.Expires = time.Now().Add(-time.Second)
	if err := k.db.PutResult(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if got := k.call("bob", "result_read", `{"handle":"`+old.ID+`"}`); got.Kind != fault.NotFound || !strings.Contains(got.Content, "has expired") {
		t.Errorf("expired: %.300s", got.Content)
	}
	if err := k.sweepResults(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := k.results.Open(digests[0]); fault.KindOf(err) != fault.NotFound || len(k.rows("bob")) != 0 {
		t.Errorf("after the sweep: %v, rows %v", err, k.rows("bob"))
	}
	if got := k.call("ann", "result_read", `{"handle":"`+k.rows("ann")[0].ID+`"}`); got.Failed {
		t.Errorf("what nobody took: %.300s", got.Content)
	}
}

// TestResultsAtOnce stores for one principal from many goroutines while sweeps run: the quota
// holds, and whoever was given a handle that is still there can read it.
func TestResultsAtOnce(t *testing.T) {
	k := newKeeping(t)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 6 {
				if o := k.call("ann", "big", `{"n":`+string(rune('0'+(w+i)%5))+`}`); o.Failed {
					t.Errorf("%.300s", o.Content)
				}
			}
		})
	}
	wg.Go(func() {
		for range 20 {
			if err := k.sweepResults(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	rows := k.rows("ann")
	var used int64
	for _, row := range rows {
		used += row.Size
		if o := k.call("ann", "result_read", `{"handle":"`+row.ID+`","path":"$","limit":7}`); o.Failed {
			t.Errorf("%s: %.300s", row.ID, o.Content)
		}
	}
	if used > 500<<10 || len(rows) != 3 {
		t.Errorf("%d results with %d bytes are kept", len(rows), used)
	}
}
