package dispatch_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-runtime/hermes/runtime/dispatch"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// TestTimeout ends a handler that honours its context, and says what is not known.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTool(t, "x", `{}`, sleeps(time.Hour))
		x.Limits.Timeout = 2 * time.Second
		d := dispatcher()
		o := d.Dispatch(t.Context(), request(viewOf(t, x), "x", ""))
		kind, message := errorOf(t, o)
		if kind != "timeout" || o.Duration != 2*time.Second || !strings.Contains(message, "2s (tools.d/test.hcl:3); whether it took effect is unknown") {
			t.Errorf("%s after %s: %s", kind, o.Duration, message)
		}
		x.Traits.Effect = tool.Read
		if _, message := errorOf(t, d.Dispatch(t.Context(), request(viewOf(t, x), "x", ""))); strings.Contains(message, "unknown") {
			t.Errorf("a reader's timeout: %s", message)
		}
		if n := d.Abandoned(); n != 0 {
			t.Errorf("%d abandoned", n)
		}
	})
}

// TestHandlerIgnoresItsEnd leaves a handler behind: the call ends in time, the handler
// is counted, keeps its slot and its generation, and its late answer changes nothing.
func TestHandlerIgnoresItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTool(t, "x", `{}`, func(context.Context, *tool.Call) (tool.Result, error) {
			time.Sleep(time.Minute)
			panic("late")
		})
		x.Limits = tool.Limits{Timeout: time.Second, Concurrency: 1}
		d := dispatch.New(dispatch.Options{Grace: 100 * time.Millisecond})
		var held atomic.Int32
		r := request(viewOf(t, x), "x", "")
		r.Retain = func(string) func() { held.Add(1); return func() { held.Add(-1) } }
		o := d.Dispatch(t.Context(), r)
		if kind, _ := errorOf(t, o); kind != "timeout" || o.Duration != 1100*time.Millisecond {
			t.Errorf("%s after %s", kind, o.Duration)
		}
		if d.Abandoned() != 1 || held.Load() != 1 {
			t.Errorf("%d abandoned, %d held", d.Abandoned(), held.Load())
		}
		if kind, _ := errorOf(t, d.Dispatch(t.Context(), r)); kind != "exhausted" {
			t.Errorf("the slot of a handler that still runs was given away: %s", kind)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := d.Wait(short); err == nil {
			t.Error("Wait returned before the handler did")
		}
		if err := d.Wait(t.Context()); err != nil || d.Abandoned() != 0 || held.Load() != 0 {
			t.Errorf("afterwards: %v, %d abandoned, %d held", err, d.Abandoned(), held.Load())
		}
	})
}

// TestCancel ends a call from outside, with and without a cause that has a kind.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := viewOf(t, newTool(t, "x", `{}`, sleeps(time.Hour)))
		for _, test := range []struct {
			cause         error
			kind, message string
		}{
			{nil, "canceled", "turn was canceled"},
			{fault.New(fault.Exhausted, "the budget of the turn is used up"), "exhausted", "budget of the turn"},
		} {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(test.cause) })
			o := dispatcher().Dispatch(ctx, request(v, "x", ""))
			if kind, message := errorOf(t, o); kind != test.kind || !strings.Contains(message, test.message) || o.Duration != time.Second {
				t.Errorf("%s after %s: %s", kind, o.Duration, message)
			}
		}
		over, cancel := context.WithTimeout(t.Context(), 0)
		defer cancel()
		if kind, message := errorOf(t, dispatcher().Dispatch(over, request(v, "x", ""))); kind != "timeout" || !strings.Contains(message, "not run") {
			t.Errorf("%s: %s", kind, message)
		}
	})
}

// TestAnswerAtTheEnd keeps a result that comes just after the time is over: the tool
// did its work.
func TestAnswerAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTool(t, "x", `{}`, func(ctx context.Context, _ *tool.Call) (tool.Result, error) {
			<-ctx.Done()
			return tool.Text("saved"), nil
		})
		if o := dispatcher().Dispatch(t.Context(), request(viewOf(t, x), "x", "")); o.Failed || o.Content != `"saved"` {
			t.Errorf("outcome %+v", o)
		}
	})
}
