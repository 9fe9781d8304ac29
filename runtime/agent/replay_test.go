package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

var errCrash = errors.New("the process is gone")

// journal remembers outputs as a durable engine does, and crashes at the limit-th
// step that is not remembered: before it runs, or (forgets) between its end and the
// memory of it.
type journal struct {
	mu      sync.Mutex
	outputs map[string]json.RawMessage
	asked   map[string]int
	limit   int
	forgets bool
}

func (j *journal) Do(ctx context.Context, key string, out any, fn func(context.Context) (any, error)) error {
	j.mu.Lock()
	j.asked[key]++
	known, ok := j.outputs[key]
	crash := false
	if !ok {
		j.limit--
		crash = j.limit < 0
	}
	j.mu.Unlock()
	if ok {
		return json.Unmarshal(known, out)
	}
	if crash && !j.forgets {
		return errCrash
	}
	v, err := fn(ctx)
	if crash {
		return errCrash
	}
	if err != nil {
		return err
	}
	encoded, err := json.Marshal(v)
	if err != nil {
		return err
	}
	j.mu.Lock()
	j.outputs[key] = encoded
	j.mu.Unlock()
	return json.Unmarshal(encoded, out)
}

const never = 1 << 30

// replayed runs a turn that crashes at the limit-th step and goes on in another
// generation. It returns the steps of the journal, what ran, and what was stored.
func replayed(t *testing.T, limit int, forgets bool) (keys, ran, stored []string, crashed bool) {
	w := newWorld(t)
	var rec recorder
	declare := func(parallel bool) {
		w.tool("look", tool.Traits{Effect: tool.Read, Parallel: parallel}, open, rec.handler("seen"))
		w.tool("write", tool.Traits{Effect: tool.Write, Parallel: !parallel}, open, rec.handler("written"))
	}
	declare(true)
	w.rule("go", says("done"), `1 look {"n":1}`, `1 look {"n":2}`, `1 write {"n":3}`, `1 look {"n":4}`, `2 write {"n":5}`)
	w.swap()
	ctx := t.Context()
	begin(t, w, "run_1", "ses_1")
	in := agent.Turn{Agent: "a", Principal: principal.Local()}
	j := &journal{outputs: map[string]json.RawMessage{}, asked: map[string]int{}, limit: limit, forgets: forgets}
	_, err := w.loop.Replay(ctx, "run_1", "ses_1", in, j)
	crashed = errors.Is(err, errCrash)
	if err != nil && !crashed {
		t.Fatalf("before the crash at %d: %v", limit, err)
	}

	declare(false) // what may run side by side changes, and so does all else that a body could look at
	w.agent.Parallel, w.agent.Budget.Iterations = 1, 5
	w.tool("more", tool.Traits{}, open, rec.handler(0))
	w.swap()
	j.limit = never
	o, err := w.loop.Replay(ctx, "run_1", "ses_1", in, j)
	if err != nil || o.Status != run.Completed || o.Message.Content != "done" {
		t.Errorf("after the crash at %d: %+v, %v", limit, o, err)
	}
	if d := w.holder.Draining(); len(d) != 0 {
		t.Errorf("generations are held: %+v", d)
	}
	slices.Sort(rec.calls)
	wantOneResultEach(t, w.messages("ses_1"))
	return slices.Sorted(maps.Keys(j.asked)), rec.calls, shape(w.messages("ses_1")), crashed
}

func begin(t *testing.T, w *world, runID, sessionID string) {
	t.Helper()
	if err := w.db.CreateSession(t.Context(), session.Session{ID: sessionID, Owner: principal.LocalName, Agent: "a"}); err != nil {
		t.Fatal(err)
	}
	in := session.Message{Run: runID, Step: "0/input/0", Message: chat.Message{Role: chat.User, Content: "go"}}
	if _, err := w.db.BeginRun(t.Context(), store.Run{ID: runID, Session: sessionID, Owner: principal.LocalName, Agent: "a"}, nil, in); err != nil {
		t.Fatal(err)
	}
}

// TestReplayFromEveryPrefix crashes a turn at each of its steps and lets it go on in a
// generation that differs: the same steps follow, and nothing runs twice.
func TestReplayFromEveryPrefix(t *testing.T) {
	wantKeys, wantRan, wantStored, _ := replayed(t, never, false)
	if len(wantRan) != 5 {
		t.Fatalf("an undisturbed turn ran %q", wantRan)
	}
	for _, forgets := range []bool{false, true} {
		for limit := 0; ; limit += int(stride()) {
			keys, ran, stored, crashed := replayed(t, limit, forgets)
			if !crashed {
				if limit != len(wantKeys) && !testing.Short() {
					t.Errorf("%d crashes, want one at each of %d steps", limit, len(wantKeys))
				}
				break
			}
			for what, diff := range map[string]string{"steps": cmp.Diff(wantKeys, keys), "calls": cmp.Diff(wantRan, ran), "messages": cmp.Diff(len(wantStored), len(stored))} {
				if diff != "" {
					t.Errorf("crash at %d (forgets %v): %s (-want +got):\n%s", limit, forgets, what, diff)
				}
			}
		}
	}
}
