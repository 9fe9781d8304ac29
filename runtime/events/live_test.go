package events

import (
	"encoding/json"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/run"
)

// lived is what one live subscriber was told: texts joined, numbers apart.
type lived struct {
	text    string
	numbers []int64
	early   int // pieces without a number
}

func (l *lived) take(t *testing.T, e run.Event) {
	t.Helper()
	if isDelta(e.Type) {
		var d Delta
		if err := json.Unmarshal(e.Data, &d); err != nil {
			t.Fatal(err)
		}
		l.text += d.Text
	} else {
		l.text += "|" + string(e.Type) + "|"
	}
	if e.Seq == 0 {
		l.early++
		return
	}
	l.numbers = append(l.numbers, e.Seq)
}

// TestLive: pieces come before their commit, and with the numbered events make each text
// once and in order.
func TestLive(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	g := b.gate()
	s := b.begin("r")
	ctx := t.Context()
	next, stop := iter.Pull2(b.SubscribeLive(ctx, mine(), "r", 0))
	defer stop()
	var got lived
	step := func() {
		t.Helper()
		e, err, ok := next()
		if !ok || err != nil {
			t.Fatalf("%v, %v", ok, err)
		}
		got.take(t, e)
	}
	b.must(s.Emit(ctx, run.Started, 1, nil))
	step()
	g.set(true) // nothing is committed from here on
	b.must(s.Delta(ctx, run.MessageDelta, 1, "one ", 1))
	step()
	b.must(s.Delta(ctx, run.MessageDelta, 1, "two ", 1))
	step()
	if got.text != "|run.started|one two " || got.early != 2 {
		t.Errorf("before the commit: %+v", got)
	}
	g.set(false)
	b.must(s.Emit(ctx, run.ToolStarted, 1, nil))
	b.must(s.Delta(ctx, run.MessageDelta, 1, "three ", 1))
	b.must(s.Emit(ctx, run.RunFailed, 1, map[string]any{}))
	for e, err, ok := next(); ok; e, err, ok = next() {
		b.must(err)
		got.take(t, e)
	}
	if want := "|run.started|one two |tool.started|three |run.failed|"; got.text != want {
		t.Errorf("told %q, want %q", got.text, want)
	}
	if diff := cmp.Diff([]int64{1, 2, 3, 4, 5}, got.numbers); diff != "" {
		t.Errorf("numbers (-want +got):\n%s", diff)
	}
}

// TestLiveHammer: many live and plain subscribers of a run are told the same text.
func TestLiveHammer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.begin("r")
	ctx := t.Context()
	var want strings.Builder
	var subscribers sync.WaitGroup
	texts := make([]lived, 16)
	for i := range texts {
		subscribers.Go(func() {
			subscribe := b.SubscribeLive
			if i%4 == 0 {
				subscribe = b.Subscribe
			}
			for e, err := range subscribe(ctx, mine(), "r", 0) {
				if err != nil {
					t.Error(err)
					return
				}
				texts[i].take(t, e)
			}
		})
	}
	for i := range 2000 {
		piece := strings.Repeat(string(rune('a'+i%26)), 1+i%7) + "é"
		want.WriteString(piece)
		b.must(s.Delta(ctx, run.MessageDelta, 1, piece, 1))
		if i%97 == 0 {
			want.WriteString("|tool.started|")
			b.must(s.Emit(ctx, run.ToolStarted, 1, nil))
		}
	}
	want.WriteString("|run.failed|")
	b.must(s.Emit(ctx, run.RunFailed, 1, map[string]any{}))
	subscribers.Wait()
	for i, got := range texts {
		if got.text != want.String() {
			t.Errorf("subscriber %d was told %d bytes, want %d", i, len(got.text), want.Len())
		}
		for n, seq := range got.numbers {
			if seq != int64(n+1) {
				t.Errorf("subscriber %d: event %d has number %d", i, n+1, seq)
				break
			}
		}
	}
	b.wantNoTopics()
}
