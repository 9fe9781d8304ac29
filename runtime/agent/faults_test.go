package agent_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/store/sqlite"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

var errDisk = errors.New("disk I/O error")

// faulty fails the operation with index at, counted from 0 over all that write or
// read, and, if broken, every one after it.
type faulty struct {
	backing
	at     int64
	broken bool
	panics bool
	count  atomic.Int64
	armed  atomic.Bool
}

func (f *faulty) fault() error {
	if !f.armed.Load() {
		return nil
	}
	n := f.count.Add(1) - 1
	if n != f.at && (!f.broken || n < f.at) {
		return nil
	}
	if f.panics {
		panic("store fault")
	}
	return errDisk
}

func (f *faulty) fired() bool { return f.count.Load() > f.at }

func (f *faulty) CreateSession(ctx context.Context, s session.Session) error {
	if err := f.fault(); err != nil {
		return err
	}
	return f.backing.CreateSession(ctx, s)
}

func (f *faulty) Append(ctx context.Context, id string, m ...session.Message) ([]session.Message, error) {
	if err := f.fault(); err != nil {
		return nil, err
	}
	return f.backing.Append(ctx, id, m...)
}

func (f *faulty) Messages(ctx context.Context, s session.Scope, id string, after int64, limit int) ([]session.Message, error) {
	if err := f.fault(); err != nil {
		return nil, err
	}
	return f.backing.Messages(ctx, s, id, after, limit)
}

func (f *faulty) BeginRun(ctx context.Context, r store.Run, s *session.Session, in ...session.Message) ([]session.Message, error) {
	if err := f.fault(); err != nil {
		return nil, err
	}
	return f.backing.BeginRun(ctx, r, s, in...)
}

func (f *faulty) Commit(ctx context.Context, e []store.Entry) error {
	if f.panics { // the hub's goroutine is not the loop's to guard
		return f.backing.Commit(ctx, e)
	}
	if err := f.fault(); err != nil {
		return err
	}
	return f.backing.Commit(ctx, e)
}

// faultyTurn runs one turn of three steps on a store that fails, and reports whether
// the fault fired. Whatever it hit, the loop is left idle and the store whole once a
// restart has recovered it.
func faultyTurn(t *testing.T, at int64, broken, panics bool) (fired bool) {
	f := &faulty{at: at, broken: broken, panics: panics}
	w := newWorldOn(t, func(db *sqlite.DB) backing { f.backing = db; return f }, nil)
	w.tool("look", tool.Traits{Effect: tool.Read, Parallel: true}, open, (&recorder{}).handler(1))
	w.tool("write", tool.Traits{Effect: tool.Write}, open, (&recorder{}).handler(1))
	w.rule("go", says("done"), "1 look {}", "1 look {}", "1 write {}", "2 look {}")
	w.rule("again", says("fine"))
	w.swap()
	f.armed.Store(true)
	r, err := start(t, w)
	var ended agent.Outcome
	if err == nil {
		ended = w.wait(r)
	}
	f.armed.Store(false)
	if n := w.loop.Load(); n != 0 {
		t.Errorf("fault %d: %d runs are left", at, n)
	}
	w.swap()
	if d := w.holder.Draining(); len(d) != 0 {
		t.Errorf("fault %d: generations are held: %+v", at, d)
	}
	w.takeOver()
	if r != nil {
		wantWhole(t, w, r, ended, at)
	}
	return f.fired()
}

// start contains a panic of the store, as the server does.
func start(t *testing.T, w *world) (r *agent.Running, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return w.loop.Start(t.Context(), agent.Turn{Agent: "a", Principal: principal.Local(), Input: user("go")})
}

// wantWhole says that a run has one terminal event, each call one result, and the
// session goes on.
func wantWhole(t *testing.T, w *world, r *agent.Running, o agent.Outcome, at int64) {
	t.Helper()
	terminal := 0
	all := w.events(r)
	for _, e := range all {
		if e.Type.Terminal() {
			terminal++
		}
	}
	if terminal != 1 || !all[len(all)-1].Type.Terminal() {
		t.Errorf("fault %d: %d terminal events, last is %s", at, terminal, all[len(all)-1].Type)
	}
	row, err := w.db.Run(t.Context(), session.Scope{All: true}, r.ID)
	if err != nil || row.Status == string(run.Running) {
		t.Errorf("fault %d: row = %+v, %v", at, row, err)
	}
	if o.Status == run.Completed && row.Status != string(run.Completed) {
		t.Errorf("fault %d: told %s, stored %s", at, o.Status, row.Status)
	}
	wantOneResultEach(t, w.messages(r.Session))
	if o, _ := w.turn(agent.Turn{Session: r.Session, Input: user("again")}); o.Status != run.Completed {
		t.Errorf("fault %d: the session does not go on: %+v", at, o)
	}
}

func wantOneResultEach(t *testing.T, messages []session.Message) {
	t.Helper()
	results := map[string]int{}
	for _, m := range messages {
		if m.Role == chat.Tool {
			results[m.CallID]++
		}
	}
	for _, m := range messages {
		for _, c := range m.Calls {
			if results[c.ID] != 1 {
				t.Errorf("call %s of step %s has %d results", c.Name, m.Step, results[c.ID])
			}
		}
	}
}

// stride is how far apart the places are at which tests break something: all of them, or, in
// short runs, some.
func stride() int64 {
	if testing.Short() {
		return 4
	}
	return 1
}

func TestStoreFaultsByIndex(t *testing.T) {
	for name, mode := range map[string][2]bool{"one fails": {}, "all fail from then on": {true, false}, "one panics": {false, true}} {
		t.Run(name, func(t *testing.T) {
			for at := int64(0); ; at += stride() {
				if !faultyTurn(t, at, mode[0], mode[1]) {
					if least := map[bool]int64{false: 6, true: 1}[mode[1]]; at < least { // a panic of the hub's goroutine is not ours
						t.Fatalf("only %d operations could fail", at)
					}
					return
				}
			}
		})
	}
}

// TestCancelAtEveryCommit cancels a run from inside each of its writes in turn.
func TestCancelAtEveryCommit(t *testing.T) {
	for at := int64(0); ; at += stride() {
		c := &canceling{at: at, started: make(chan struct{})}
		w := newWorldOn(t, func(db *sqlite.DB) backing { c.backing = db; return c }, nil)
		w.tool("look", tool.Traits{Effect: tool.Read, Parallel: true}, open, (&recorder{}).handler(1))
		w.tool("write", tool.Traits{Effect: tool.Write}, open, (&recorder{}).handler(1))
		w.rule("go", says("done"), "1 look {}", "1 look {}", "1 write {}", "2 write {}")
		w.rule("again", says("fine"))
		w.swap()
		c.run = w.start(agent.Turn{Input: user("go")})
		close(c.started)
		o := w.wait(c.run)
		if o.Status != run.Canceled && o.Status != run.Completed {
			t.Errorf("commit %d: outcome = %+v, %v", at, o, o.Err)
		}
		past := c.count.Load() <= at
		w.swap()
		if d := w.holder.Draining(); len(d) != 0 {
			t.Errorf("commit %d: generations are held: %+v", at, d)
		}
		wantWhole(t, w, c.run, o, at)
		if past {
			return
		}
	}
}

// canceling cancels a run when its at-th write comes.
type canceling struct {
	backing
	at      int64
	count   atomic.Int64
	started chan struct{}
	run     *agent.Running // set before started is closed
}

func (c *canceling) hit() {
	<-c.started
	if c.count.Add(1)-1 == c.at {
		c.run.Cancel(context.Canceled)
	}
}

func (c *canceling) Commit(ctx context.Context, e []store.Entry) error {
	c.hit()
	return c.backing.Commit(ctx, e)
}

// TestFailedBeginLeavesNoSession takes back the session of a run that never was.
func TestFailedBeginLeavesNoSession(t *testing.T) {
	f := &faulty{at: 0} // beginning the run is the first operation
	w := newWorldOn(t, func(db *sqlite.DB) backing { f.backing = db; return f }, nil)
	w.rule("go", says("done"))
	w.swap()
	f.armed.Store(true)
	if _, err := start(t, w); !errors.Is(err, errDisk) {
		t.Fatalf("Start = %v", err)
	}
	f.armed.Store(false)
	list, err := w.db.Sessions(t.Context(), session.Scope{All: true}, session.ListOptions{})
	if err != nil || len(list) != 0 {
		t.Errorf("sessions = %+v, %v", list, err)
	}
}
