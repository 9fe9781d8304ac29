package events

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// gated is a store whose commits can be held up and made to fail.
type gated struct {
	Store
	entered chan struct{} // a commit has begun while the gate is shut
	pass    chan struct{} // lets it go on

	mu     sync.Mutex // guards what follows
	shut   bool
	broken string // commits with events of this run fail
	sizes  []int  // events in each commit
}

var errDisk = fault.New(fault.Unavailable, "the disk is full")

func (g *gated) fails(entries []store.Entry) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sizes = append(g.sizes, len(entries))
	for _, e := range entries {
		if e.Run == g.broken {
			return errDisk
		}
	}
	return nil
}

func (g *gated) breakRun(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.broken = id
}

func (g *gated) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = shut
}

func (g *gated) isShut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut
}

func (g *gated) Commit(ctx context.Context, entries []store.Entry) error {
	if g.isShut() {
		g.entered <- struct{}{}
		<-g.pass
	}
	if err := g.fails(entries); err != nil {
		return err
	}
	return g.Store.Commit(ctx, entries)
}

// gate puts a gated store under the bench's hub.
func (b *bench) gate() *gated {
	b.Close()
	g := &gated{Store: b.db, entered: make(chan struct{}), pass: make(chan struct{})}
	b.Hub = New(g, nil)
	return g
}

// held emits one event whose commit is under way when held returns; finish lets it and
// all later ones pass.
func (b *bench) held(g *gated, s *Stream) (finish func()) {
	b.tb.Helper()
	g.set(true)
	emitted := make(chan error, 1)
	go func() { emitted <- s.Emit(context.Background(), run.Started, 1, nil) }()
	<-g.entered
	return func() {
		b.tb.Helper()
		g.set(false)
		g.pass <- struct{}{}
		b.must(<-emitted)
	}
}

// short is an event without what varies.
func short(list []run.Event) []string {
	var out []string
	for _, e := range list {
		out = append(out, fmt.Sprintf("%d %s %d %s", e.Seq, e.Type, e.Generation, e.Data))
	}
	return out
}

// TestCoalescing: text that arrives during a commit becomes one event, as long as
// nothing that matters changes.
func TestCoalescing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	g := b.gate()
	s := b.begin("r")
	finish := b.held(g, s)
	ctx := t.Context()
	for range 1000 {
		b.must(s.Delta(ctx, run.MessageDelta, 1, "ab", 0))
	}
	b.must(s.Delta(ctx, run.MessageDelta, 1, "", 0))
	b.must(s.Delta(ctx, run.ReasoningDelta, 1, "think", 0))
	b.must(s.Delta(ctx, run.MessageDelta, 1, "c", 0))
	b.must(s.Delta(ctx, run.MessageDelta, 2, "d", 0))
	b.must(s.Delta(ctx, run.MessageDelta, 2, "e", 1))
	finish()
	b.must(s.Emit(ctx, run.ToolStarted, 2, nil))
	b.must(s.Delta(ctx, run.MessageDelta, 2, "f", 1))
	b.must(s.Emit(ctx, run.RunFailed, 2, map[string]any{}))
	got, err := b.collect(mine(), "r", 0)
	b.must(err)
	want := []string{
		`1 run.started 1 `,
		`2 message.delta 1 {"text":"` + strings.Repeat("ab", 1000) + `","attempt":0}`,
		`3 reasoning.delta 1 {"text":"think","attempt":0}`,
		`4 message.delta 1 {"text":"c","attempt":0}`,
		`5 message.delta 2 {"text":"d","attempt":0}`,
		`6 message.delta 2 {"text":"e","attempt":1}`,
		`7 tool.started 2 `,
		`8 message.delta 2 {"text":"f","attempt":1}`,
		`9 run.failed 2 {}`,
	}
	if diff := cmp.Diff(want, short(got)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if g.sizes[1] < 4 {
		t.Errorf("commits of %v events: what waited should share one", g.sizes)
	}
}

// TestBackPressure: Delta waits when much text is pending, and only then.
func TestBackPressure(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	g := b.gate()
	s := b.begin("r")
	finish := b.held(g, s)
	ctx, cancel := context.WithCancel(t.Context())
	huge := strings.Repeat("x", 2*maxWaiting)
	b.must(s.Delta(ctx, run.MessageDelta, 1, huge, 0))
	wait, err := s.admitted(1, func() { t.Error("it was added") })
	b.must(err)
	if wait == nil {
		t.Fatal("text is taken without end")
	}
	cancel()
	if err := s.Delta(ctx, run.MessageDelta, 1, "y", 0); !errors.Is(err, context.Canceled) {
		t.Errorf("Delta of a cancelled caller: %v", err)
	}
	if err := s.Post(ctx, run.ToolProgress, 1, map[string]string{"a": "b"}, true); !errors.Is(err, context.Canceled) {
		t.Errorf("Post of a cancelled caller: %v", err)
	}
	waiting := make(chan error, 2)
	go func() { waiting <- s.Delta(context.Background(), run.MessageDelta, 1, "z", 0) }()
	go func() {
		waiting <- s.Post(context.Background(), run.ToolProgress, 1, map[string]string{"a": "b"}, true)
	}()
	finish()
	b.must(<-waiting)
	b.must(<-waiting)
	b.must(s.End(t.Context(), run.RunCompleted, completed("r"), nil))
}

// TestPost: posted events stand in order, and those that pass are gone with the deltas
// once the run has completed.
func TestPost(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.begin("r")
	data := map[string]string{"a": "b"}
	b.must(s.Post(t.Context(), run.ToolStarted, 1, data, false))
	b.must(s.Post(t.Context(), run.ToolProgress, 1, data, true))
	b.must(s.Delta(t.Context(), run.MessageDelta, 1, "x", 0))
	b.must(s.Post(t.Context(), run.ToolFinished, 1, data, false))
	var live []run.Event
	for e, err := range b.Subscribe(t.Context(), mine(), "r", 0) {
		b.must(err)
		if live = append(live, e); len(live) == 4 {
			break
		}
	}
	want := []string{`1 tool.started 1 {"a":"b"}`, `2 tool.progress 1 {"a":"b"}`, `3 message.delta 1 {"text":"x","attempt":0}`, `4 tool.finished 1 {"a":"b"}`}
	if diff := cmp.Diff(want, short(live)); diff != "" {
		t.Errorf("live (-want +got):\n%s", diff)
	}
	b.must(s.End(t.Context(), run.RunCompleted, completed("r"), nil))
	rows, err := b.db.Events(t.Context(), mine(), "r", 0, 0)
	b.must(err)
	var kept []int64
	for _, r := range rows {
		kept = append(kept, r.Seq)
	}
	if diff := cmp.Diff([]int64{1, 4, 5}, kept); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
}

func TestEmitOfCancelledCaller(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	g := b.gate()
	s := b.begin("r")
	finish := b.held(g, s)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- s.Emit(ctx, run.ToolStarted, 1, nil) }()
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("Emit: %v", err)
	}
	finish()
	b.must(s.Emit(t.Context(), run.ToolFinished, 1, nil))
}

func TestUnencodableData(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.begin("r")
	if err := s.Emit(t.Context(), run.ToolStarted, 1, func() {}); err == nil {
		t.Error("a function was encoded")
	}
	b.must(s.Emit(t.Context(), run.ToolFinished, 1, nil))
}

// TestCommitFails: the stream at fault ends with the error, the others of the same
// commit do not notice, and nothing uncommitted is announced.
func TestCommitFails(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	g := b.gate()
	good, bad := b.begin("good"), b.begin("bad")
	next, stop := iter.Pull2(b.Subscribe(t.Context(), mine(), "bad", 0))
	defer stop()
	b.must(bad.Emit(t.Context(), run.Started, 1, nil))
	pull(t, next, 1)
	finish := b.held(g, good)
	g.breakRun("bad")
	b.must(good.Delta(t.Context(), run.MessageDelta, 1, "fine", 0))
	b.must(bad.Delta(t.Context(), run.MessageDelta, 1, "lost", 0))
	results := make(chan error, 1)
	go func() { results <- bad.Emit(t.Context(), run.ToolStarted, 1, nil) }()
	finish()
	if err := <-results; !errors.Is(err, errDisk) {
		t.Errorf("Emit: %v", err)
	}
	if err := bad.Delta(t.Context(), run.MessageDelta, 1, "more", 0); !errors.Is(err, errDisk) {
		t.Errorf("Delta afterwards: %v", err)
	}
	b.must(good.End(t.Context(), run.RunCompleted, completed("good"), nil))
	if e, err, ok := next(); !ok || !errors.Is(err, errDisk) {
		t.Errorf("a subscriber gets %v, %v, %v; want the error", e, err, ok)
	}
	if err := bad.End(t.Context(), run.RunFailed, store.Run{ID: "bad", Status: string(run.Failed)}, nil); !errors.Is(err, errDisk) {
		t.Errorf("End while the disk is full: %v", err)
	}
	g.breakRun("")
	b.must(bad.End(t.Context(), run.RunFailed, store.Run{ID: "bad", Status: string(run.Failed)}, nil))
	got, err := b.collect(mine(), "bad", 0)
	b.must(err)
	if diff := cmp.Diff([]string{"1 run.started 1 ", "2 run.failed 0 "}, short(got)); diff != "" {
		t.Errorf("the failed run (-want +got):\n%s", diff)
	}
}

// TestResume: a run goes on counting after a restart, and one with its terminal event
// takes no more.
func TestResume(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.begin("r")
	b.must(s.Emit(t.Context(), run.Started, 1, nil))
	b.must(s.Delta(t.Context(), run.MessageDelta, 1, "half", 0))
	b.Close()
	if err := s.Emit(t.Context(), run.ToolStarted, 1, nil); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("Emit after Close: %v", err)
	}
	b.Hub = New(b.db, nil)
	next, stop := iter.Pull2(b.Subscribe(t.Context(), mine(), "r", 1))
	defer stop()
	if e, err, _ := next(); err != nil || e.Seq != 2 {
		t.Fatalf("the delta of before: %v, %v", e, err)
	}
	s = b.Open(store.Run{ID: "r", Session: "s-r", Owner: owner})
	b.must(s.Delta(t.Context(), run.MessageDelta, 1, "again", 1))
	b.must(s.End(t.Context(), run.RunFailed, store.Run{ID: "r", Status: string(run.Failed)}, nil))
	for _, want := range []int64{3, 4} {
		if e, err, _ := next(); err != nil || e.Seq != want {
			t.Errorf("event %v, %v; want number %d", e, err, want)
		}
	}
	b.restart()
	for _, typ := range []run.EventType{run.MessageCompleted, run.RunFailed} {
		if err := b.Open(store.Run{ID: "r", Session: "s-r", Owner: owner}).Emit(t.Context(), typ, 1, nil); fault.KindOf(err) != fault.Exists {
			t.Errorf("%s after the end: %v", typ, err)
		}
	}
}

// TestNothingAfterTheEnd races events against the terminal one: what comes after it is
// refused, also within one commit.
func TestNothingAfterTheEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for round := range 10 {
		id := fmt.Sprint("r", round)
		s := b.begin(id)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				err := s.Emit(t.Context(), run.ToolProgress, 1, nil)
				if i%2 == 0 {
					err = s.End(t.Context(), run.RunCompleted, completed(id), nil)
				}
				if err != nil && fault.KindOf(err) != fault.Exists {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		got, err := b.collect(mine(), id, 0)
		b.must(err)
		wantGapless(t, got, 0)
	}
	if err := b.begin("x").End(t.Context(), run.ToolStarted, completed("x"), nil); fault.KindOf(err) != fault.Invalid {
		t.Errorf("End with an event that is not terminal: %v", err)
	}
}

// TestStreamClose: what was emitted is committed, the run can go on later.
func TestStreamClose(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.begin("r")
	if b.Open(store.Run{ID: "r", Session: "s-r", Owner: owner}) != s {
		t.Error("Open of a live run gives another stream")
	}
	b.must(s.Delta(t.Context(), run.MessageDelta, 1, "text", 0))
	s.Close()
	s.Close()
	if last, err := b.db.LastEvent(t.Context(), "r"); err != nil || last != 1 {
		t.Errorf("after Close the store has event %d, %v", last, err)
	}
	if err := s.Emit(t.Context(), run.ToolStarted, 1, nil); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("Emit after Close: %v", err)
	}
	b.must(b.Open(store.Run{ID: "r", Session: "s-r", Owner: owner}).End(t.Context(), run.RunCompleted, completed("r"), nil))
	if got, err := b.collect(mine(), "r", 0); err != nil || len(got) != 1 || got[0].Seq != 2 {
		t.Errorf("got %v, %v", got, err)
	}
	b.wantNoTopics()
}

// TestEmitWithoutRow: events of a run that the store does not know.
func TestEmitWithoutRow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if err := b.Open(store.Run{ID: "ghost", Session: "s", Owner: owner}).Emit(t.Context(), run.Started, 1, nil); fault.KindOf(err) != fault.NotFound {
		t.Errorf("Emit: %v", err)
	}
	_, err := b.collect(session.Scope{All: true}, "ghost", 0)
	if fault.KindOf(err) != fault.NotFound {
		t.Errorf("Subscribe: %v", err)
	}
	b.wantNoTopics()
}

// wantNoTopics checks that nothing is kept for runs nobody writes or reads.
func (b *bench) wantNoTopics() {
	b.tb.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.topics) != len(b.recent) || len(b.recent) > keepEnded || len(b.streams) != 0 {
		b.tb.Errorf("%d topics and %d streams are left", len(b.topics), len(b.streams))
	}
}
