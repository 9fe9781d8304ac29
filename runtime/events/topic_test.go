package events

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/store/storetest"
)

func TestSubscribeScope(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.begin("r")
	b.must(s.End(t.Context(), run.RunCompleted, completed("r"), nil))
	for name, c := range map[string]struct {
		scope session.Scope
		id    string
		kind  fault.Kind
	}{
		"another owner": {session.Scope{Owner: "bob"}, "r", fault.NotFound},
		"nobody":        {session.Scope{}, "r", fault.NotFound},
		"no run":        {mine(), "x", fault.NotFound},
	} {
		if list, err := b.collect(c.scope, c.id, 0); fault.KindOf(err) != c.kind || len(list) != 0 {
			t.Errorf("%s: got %v, %v", name, list, err)
		}
	}
	if list, err := b.collect(session.Scope{All: true}, "r", 0); err != nil || len(list) != 1 {
		t.Errorf("an admin: got %v, %v", list, err)
	}
	for _, after := range []int64{1, 99} {
		if list, err := b.collect(mine(), "r", after); err != nil || len(list) != 0 {
			t.Errorf("after %d of an ended run: got %v, %v", after, list, err)
		}
	}
	if list, err := b.collect(mine(), "r", -5); err != nil || len(list) != 1 {
		t.Errorf("a negative number: got %v, %v", list, err)
	}
}

// TestSubscribeBeforeOpen: a run that is running without a stream is waited for; one
// that ended without a terminal event is not.
func TestSubscribeBeforeOpen(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.begin("r").Close()
	next, stop := iter.Pull2(b.Subscribe(t.Context(), mine(), "r", 0))
	defer stop()
	go func() {
		_ = b.Open(store.Run{ID: "r", Session: "s-r", Owner: owner}).Emit(context.Background(), run.Started, 1, nil)
	}()
	if e, err, _ := next(); err != nil || e.Type != run.Started {
		t.Errorf("got %v, %v", e, err)
	}
	b.begin("q").Close()
	b.must(storetest.EndRun(t.Context(), b.db, completed("q")))
	if list, err := b.collect(mine(), "q", 0); err != nil || len(list) != 0 {
		t.Errorf("ended without an event: got %v, %v", list, err)
	}
}

func TestSubscribeEnds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.begin("r")
	b.must(s.Emit(t.Context(), run.Started, 1, nil))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	count := 0
	for _, err := range b.Subscribe(ctx, mine(), "r", 0) {
		count++
		if err == nil {
			cancel()
		} else if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	}
	if count != 2 {
		t.Errorf("%d elements, want the event and the error", count)
	}
	for range b.Subscribe(t.Context(), mine(), "r", 0) {
		break
	}
	next, stop := iter.Pull2(b.Subscribe(t.Context(), mine(), "r", 0))
	defer stop()
	if _, err, _ := next(); err != nil {
		t.Fatal(err)
	}
	b.must(s.Delta(t.Context(), run.MessageDelta, 1, "last words", 0))
	b.Close()
	if e, err, _ := next(); err != nil || e.Seq != 2 {
		t.Errorf("what was emitted before Close: %v, %v", e, err)
	}
	if _, err, ok := next(); !ok || fault.KindOf(err) != fault.Unavailable {
		t.Errorf("after Close: %v", err)
	}
}

// TestClosedStream: a subscriber is not left waiting for a producer that gave up.
func TestClosedStream(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.begin("r")
	b.must(s.Emit(t.Context(), run.Started, 1, nil))
	next, stop := iter.Pull2(b.Subscribe(t.Context(), mine(), "r", 0))
	defer stop()
	if _, err, _ := next(); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if _, err, ok := next(); !ok || fault.KindOf(err) != fault.Unavailable {
		t.Errorf("after Close of the stream: %v", err)
	}
}

// TestSlowSubscriber stops reading while more is emitted than the topic remembers: the
// producer is not held up, and the subscriber misses nothing.
func TestSlowSubscriber(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.begin("r")
	b.must(s.Emit(t.Context(), run.Started, 1, nil))
	next, stop := iter.Pull2(b.Subscribe(t.Context(), mine(), "r", 0))
	defer stop()
	list := pull(t, next, 1)
	for range 40 {
		b.must(s.Emit(t.Context(), run.ToolProgress, 1, map[string]string{"text": strings.Repeat("x", maxLog/16)}))
	}
	if n := len(s.topic.log); n > 20 {
		t.Errorf("the topic remembers %d large events", n)
	}
	list = append(list, pull(t, next, 1)...)
	b.must(s.Delta(t.Context(), run.MessageDelta, 1, "end", 0))
	list = append(list, pull(t, next, 40)...)
	b.must(s.End(t.Context(), run.RunCompleted, completed("r"), nil))
	list = append(list, pull(t, next, 1)...)
	wantGapless(t, list, 0)
	if _, _, ok := next(); ok {
		t.Error("something follows the terminal event")
	}
	b.wantNoTopics()
}

// TestSubscriberBehindTheEnd: one that is attached before the end of the run gets the
// deltas after it, although the store has dropped them.
func TestSubscriberBehindTheEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.begin("r")
	b.must(s.Emit(t.Context(), run.Started, 1, nil))
	next, stop := iter.Pull2(b.Subscribe(t.Context(), mine(), "r", 0))
	defer stop()
	list := pull(t, next, 1)
	for i := range 200 {
		b.must(s.Delta(t.Context(), run.MessageDelta, 1, fmt.Sprint(i), i)) // attempts differ: no two are one
	}
	b.must(s.End(t.Context(), run.RunCompleted, completed("r"), nil))
	list = append(list, pull(t, next, 201)...)
	wantGapless(t, list, 0)
}

// TestDroppedDeltas: a subscriber so far behind that its deltas are gone from memory
// and store still gets everything else, and the end.
func TestDroppedDeltas(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.begin("r")
	b.must(s.Emit(t.Context(), run.Started, 1, nil))
	next, stop := iter.Pull2(b.Subscribe(t.Context(), mine(), "r", 0))
	defer stop()
	pull(t, next, 1)
	for i := range 40 {
		b.must(s.Delta(t.Context(), run.MessageDelta, 1, strings.Repeat("x", maxLog/16), i))
	}
	b.must(s.Emit(t.Context(), run.MessageCompleted, 1, nil))
	b.must(s.End(t.Context(), run.RunCompleted, completed("r"), nil))
	var types []run.EventType
	for {
		e, err, ok := next()
		if !ok {
			break
		}
		b.must(err)
		types = append(types, e.Type)
	}
	// The last deltas are still in memory, but without those before they are no text.
	if diff := cmp.Diff([]run.EventType{run.MessageCompleted, run.RunCompleted}, types); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
}

// TestForgets: only so many ended runs are remembered.
func TestForgets(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range keepEnded + 3 {
		id := fmt.Sprint("r", i)
		s := b.begin(id)
		b.must(s.Delta(t.Context(), run.MessageDelta, 1, "text", 0))
		b.must(s.End(t.Context(), run.RunCompleted, completed(id), nil))
	}
	b.wantNoTopics()
	for id, want := range map[string]int{"r0": 1, fmt.Sprint("r", keepEnded+2): 2} {
		list, err := b.collect(mine(), id, 0)
		b.must(err)
		if len(list) != want {
			t.Errorf("%s: %d events, want %d", id, len(list), want)
		}
	}
	b.wantNoTopics()
}

func pull(t *testing.T, next func() (run.Event, error, bool), n int) []run.Event {
	t.Helper()
	var list []run.Event
	for range n {
		e, err, ok := next()
		if err != nil || !ok {
			t.Fatalf("after %d events: %v, %v", len(list), err, ok)
		}
		list = append(list, e)
	}
	return list
}

// TestHammer runs 16 producers with three subscribers each, who disconnect at random
// and resume after the last number they saw. Everybody gets every event once, in
// order, and none before it is in the store.
func TestHammer(t *testing.T) {
	t.Parallel()
	const runs, pieces, subscribers = 16, 40, 3
	b := newBench(t)
	var wg sync.WaitGroup
	for i := range runs {
		id := fmt.Sprint("r", i)
		s := b.begin(id)
		for range subscribers {
			wg.Go(func() { b.follow(t, id, pieces) })
		}
		wg.Go(func() { produce(t, s, id, pieces) })
	}
	wg.Wait()
	b.wantNoTopics()
}

// produce writes text and, every tenth time, three events at the same moment.
func produce(t *testing.T, s *Stream, id string, pieces int) {
	ctx := t.Context()
	for i := range pieces {
		if err := s.Delta(ctx, run.MessageDelta, 1, fmt.Sprint(i, ","), 0); err != nil {
			t.Errorf("Delta: %v", err)
		}
		if i%10 != 0 {
			continue
		}
		var tools sync.WaitGroup
		for range 3 {
			tools.Go(func() {
				if err := s.Emit(ctx, run.ToolFinished, 1, nil); err != nil {
					t.Errorf("Emit: %v", err)
				}
			})
		}
		tools.Wait()
	}
	if err := s.End(ctx, run.RunCompleted, completed(id), nil); err != nil {
		t.Errorf("End: %v", err)
	}
}

// follow reads a run to its end in several subscriptions.
func (b *bench) follow(t *testing.T, id string, pieces int) {
	var list []run.Event
	resumes := rand.IntN(3)
	for done := false; !done; {
		last := int64(0)
		if len(list) > 0 {
			last = list[len(list)-1].Seq
		}
		for e, err := range b.Subscribe(t.Context(), mine(), id, last) {
			if err != nil {
				t.Errorf("Subscribe: %v", err)
				return
			}
			stored, err := b.db.LastEvent(t.Context(), id)
			if err != nil || stored < e.Seq {
				t.Errorf("event %d is announced, the store has %d (%v)", e.Seq, stored, err)
			}
			list = append(list, e)
			done = e.Type.Terminal()
			if resumes > 0 && len(list) < 10 && rand.IntN(4) == 0 {
				resumes--
				break
			}
		}
	}
	b.wantText(t, list, pieces)
}

// wantText allows for deltas that were dropped while a subscriber was away.
func (b *bench) wantText(t *testing.T, list []run.Event, pieces int) {
	var want strings.Builder
	for i := range pieces {
		fmt.Fprint(&want, i, ",")
	}
	for i, e := range list[1:] {
		if e.Seq <= list[i].Seq {
			t.Errorf("event %d after %d", e.Seq, list[i].Seq)
		}
	}
	if int64(len(list)) == list[len(list)-1].Seq && text(t, list) != want.String() {
		t.Errorf("text %q, want %q", text(t, list), want.String())
	}
}

// BenchmarkDeltas is the whole way of text from 16 producers to their subscribers.
func BenchmarkDeltas(bb *testing.B) {
	b := newBench(bb)
	const runs = 16
	var wg sync.WaitGroup
	streams := make([]*Stream, runs)
	for i := range streams {
		id := fmt.Sprint("r", i)
		streams[i] = b.begin(id)
		wg.Go(func() {
			for range b.Subscribe(context.Background(), mine(), id, 0) {
			}
		})
	}
	bb.ReportAllocs()
	for i := 0; bb.Loop(); i++ {
		if err := streams[i%runs].Delta(context.Background(), run.MessageDelta, 1, "a token ", 0); err != nil {
			bb.Fatal(err)
		}
	}
	for i, s := range streams {
		b.must(s.End(context.Background(), run.RunCompleted, completed(fmt.Sprint("r", i)), nil))
	}
	wg.Wait()
}

// TestLongHistory reads more than a page from the store, in a process that has
// announced none of it.
func TestLongHistory(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.begin("r").Close()
	const n = 2*page + 10
	for i := 0; i < n; i += page {
		var rows []store.Event
		for seq := i + 1; seq <= min(i+page, n); seq++ {
			rows = append(rows, store.Event{Run: "r", Seq: int64(seq), Delta: seq%2 == 0, Body: fmt.Appendf(nil, `{"seq":%d,"type":"tool.progress"}`, seq)})
		}
		b.must(storetest.AppendEvents(t.Context(), b.db, rows))
	}
	next, stop := iter.Pull2(b.Subscribe(t.Context(), mine(), "r", 0))
	defer stop()
	list := pull(t, next, n)
	b.must(b.Open(store.Run{ID: "r", Session: "s-r", Owner: owner}).End(t.Context(), run.RunCompleted, completed("r"), nil))
	wantGapless(t, append(list, pull(t, next, 1)...), 0)
	b.restart()
	ended, err := b.collect(mine(), "r", 0)
	b.must(err)
	if len(ended) != n/2+1 {
		t.Errorf("%d events of the ended run, want %d", len(ended), n/2+1)
	}
}
