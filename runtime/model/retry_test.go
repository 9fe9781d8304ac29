package model_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sequence fails with its errors in turn, then answers. Each failure comes after the
// texts of emits.
type sequence struct {
	errs   []error
	emits  string
	calls  int
	closed bool
}

func (s *sequence) Stream(
	_ context.Context, _ *model.Request, emit func(model.Delta) error,
) (*model.Response, error) {
	s.calls++
	if s.emits != "" {
		if err := emit(model.Delta{Text: s.emits}); err != nil {
			return nil, err
		}
	}
	if s.calls <= len(s.errs) {
		return nil, s.errs[s.calls-1]
	}
	return &model.Response{Message: chat.Message{Role: chat.Assistant, Content: "ok"}, Finish: model.Stop}, nil
}

func (s *sequence) Close() error {
	s.closed = true
	return nil
}

func after(wait time.Duration) error {
	return fault.Wrap(fault.Exhausted, &model.RetryAfterError{Wait: wait}, "slow down")
}

func TestRetrying(t *testing.T) {
	down := fault.New(fault.Unavailable, "down")
	limited := fault.New(fault.Exhausted, "slow down")
	retry := model.Retry{Attempts: 3, Base: time.Second, Max: 10 * time.Second}
	type span struct{ min, max time.Duration }
	tests := []struct {
		name  string
		retry model.Retry
		errs  []error
		emits string
		calls int
		waits []span // one per repeat
		err   error  // nil: the answer
	}{
		{name: "no error", retry: retry, calls: 1},
		{
			name: "backoff doubles, jittered in its upper half", retry: retry, errs: []error{down, limited}, calls: 3,
			waits: []span{{time.Second / 2, time.Second}, {time.Second, 2 * time.Second}},
		},
		{
			name: "attempts count the first call", retry: retry, errs: []error{down, down, down, down}, calls: 3, err: down,
			waits: []span{{time.Second / 2, time.Second}, {time.Second, 2 * time.Second}},
		},
		{name: "one attempt is no repeat", retry: model.Retry{Attempts: 1, Max: time.Hour}, errs: []error{down}, calls: 1, err: down},
		{name: "none is one", errs: []error{down}, calls: 1, err: down},
		{
			name: "backoff ends at the maximum", retry: model.Retry{Attempts: 4, Base: 8 * time.Second, Max: 10 * time.Second},
			errs: []error{down, down, down}, calls: 4,
			waits: []span{{4 * time.Second, 8 * time.Second}, {5 * time.Second, 10 * time.Second}, {5 * time.Second, 10 * time.Second}},
		},
		{
			name: "no waits", retry: model.Retry{Attempts: 70}, errs: make69(down), calls: 70,
			waits: make([]span, 69),
		},
		{
			name: "retry after, and a tenth", retry: retry, errs: []error{after(5 * time.Second)}, calls: 2,
			waits: []span{{5 * time.Second, 5500 * time.Millisecond}},
		},
		{
			name: "retry after of exactly the maximum", retry: retry, errs: []error{after(10 * time.Second)}, calls: 2,
			waits: []span{{10 * time.Second, 10 * time.Second}},
		},
		{name: "retry after over the maximum", retry: retry, errs: []error{after(11 * time.Second)}, calls: 1, err: after(11 * time.Second)},
		{
			name: "retry after 0 says nothing", retry: retry, errs: []error{after(0)}, calls: 2,
			waits: []span{{time.Second / 2, time.Second}},
		},
		{name: "not after a delta", retry: retry, errs: []error{down}, emits: "He", calls: 1, err: down},
		{
			name: "after a delta if that is wanted", retry: model.Retry{Attempts: 3, AfterOutput: true}, errs: []error{down}, emits: "He", calls: 2,
			waits: make([]span, 1),
		},
		{name: "foreign errors are not repeated", retry: retry, errs: []error{errors.ErrUnsupported}, calls: 1, err: errors.ErrUnsupported},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &sequence{errs: tt.errs, emits: tt.emits}
				start, total := time.Now(), time.Duration(0)
				p := model.Retrying(s, tt.retry, func(attempt int, wait time.Duration, err error) {
					if attempt != s.calls || err != tt.errs[attempt-1] { //nolint:errorlint // the very error
						t.Errorf("told of attempt %d with %v after %d calls", attempt, err, s.calls)
					}
					if want := tt.waits[attempt-1]; wait < want.min || wait > want.max {
						t.Errorf("wait %d is %v, want %v to %v", attempt, wait, want.min, want.max)
					}
					total += wait
				})
				resp, err := p.Stream(t.Context(), &model.Request{}, func(model.Delta) error { return nil })
				if s.calls != tt.calls {
					t.Errorf("%d calls, want %d", s.calls, tt.calls)
				}
				if took := time.Since(start); took != total {
					t.Errorf("took %v, told of %v", took, total)
				}
				if fmt.Sprint(err) != fmt.Sprint(tt.err) || (resp == nil) != (tt.err != nil) {
					t.Errorf("got %v, error %v; want error %v", resp, err, tt.err)
				}
			})
		})
	}
}

func make69(err error) []error {
	var errs []error
	for range 69 {
		errs = append(errs, err)
	}
	return errs
}

func TestRetryable(t *testing.T) {
	tests := []struct {
		err       error
		want      bool
		elsewhere bool
	}{
		{nil, false, false},
		{errors.ErrUnsupported, false, false},
		{fault.New(fault.Exhausted, "x"), true, true},
		{fault.Wrap(fault.Exhausted, model.ErrQuota, "x"), false, true},
		{fault.Wrap(fault.Exhausted, &model.RetryAfterError{Err: model.ErrQuota}, "x"), false, true},
		{fault.New(fault.Unavailable, "x"), true, true},
		{fmt.Errorf("calling: %w", fault.New(fault.Unavailable, "x")), true, true},
		{fault.New(fault.Timeout, "x"), false, false},
		{context.DeadlineExceeded, false, false},
		{fault.Wrap(fault.Timeout, model.ErrConnect, "x"), true, true},
		{fault.Wrap(fault.Timeout, model.ErrFirstToken, "x"), true, true},
		{fault.New(fault.Invalid, "x"), false, false},
		{fault.New(fault.Denied, "x"), false, true},
		{fault.New(fault.TooLarge, "x"), false, false},
		{fault.New(fault.Canceled, "x"), false, false},
		{fault.New(fault.Internal, "x"), false, false},
	}
	for _, tt := range tests {
		if got := model.Retryable(tt.err); got != tt.want {
			t.Errorf("Retryable(%v) = %v, want %v", tt.err, got, tt.want)
		}
		if got := model.Elsewhere(tt.err); got != tt.elsewhere {
			t.Errorf("Elsewhere(%v) = %v, want %v", tt.err, got, tt.elsewhere)
		}
	}
}

func TestCancelWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sequence{errs: []error{after(time.Minute)}}
		p := model.Retrying(s, model.Retry{Attempts: 3, Max: time.Hour}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := p.Stream(ctx, &model.Request{}, func(model.Delta) error { return nil })
		if fault.KindOf(err) != fault.Canceled || s.calls != 1 {
			t.Errorf("error = %v after %d calls, want canceled after 1", err, s.calls)
		}
	})
}

// canceling ends its caller's context for a reason that alone would be worth a repeat.
type canceling struct {
	sequence
	cancel context.CancelCauseFunc
}

func (c *canceling) Stream(ctx context.Context, req *model.Request, emit func(model.Delta) error) (*model.Response, error) {
	c.cancel(fault.New(fault.Unavailable, "generation 3 is drained"))
	_, _ = c.sequence.Stream(ctx, req, emit)
	return nil, model.Interrupted(ctx)
}

func TestNoRepeatForACallerWhoIsGone(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	c := &canceling{cancel: cancel}
	p := model.Retrying(c, model.Retry{Attempts: 3}, func(int, time.Duration, error) { t.Error("a repeat was announced") })
	_, err := p.Stream(ctx, &model.Request{}, func(model.Delta) error { return nil })
	if fault.KindOf(err) != fault.Unavailable || c.calls != 1 {
		t.Errorf("error = %v after %d calls, want the reason after 1", err, c.calls)
	}
}

func TestNoWaitPastTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sequence{errs: []error{after(time.Minute)}}
		p := model.Retrying(s, model.Retry{Attempts: 3, Max: time.Hour}, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		start := time.Now()
		_, err := p.Stream(ctx, &model.Request{}, func(model.Delta) error { return nil })
		if fault.KindOf(err) != fault.Exhausted || time.Since(start) != 0 {
			t.Errorf("error after %v: %v, want the rate limit at once", time.Since(start), err)
		}
	})
}

func TestEmitErrorIsNotRepeated(t *testing.T) {
	gone := fault.New(fault.Unavailable, "client is gone")
	s := &sequence{emits: "He"}
	p := model.Retrying(s, model.Retry{Attempts: 3, AfterOutput: true}, nil)
	_, err := p.Stream(t.Context(), &model.Request{}, func(model.Delta) error { return gone })
	if err != error(gone) || s.calls != 1 { //nolint:errorlint // the very error
		t.Errorf("error = %v after %d calls, want %v after 1", err, s.calls, gone)
	}
}

func TestCloseReachesTheProvider(t *testing.T) {
	s := &sequence{}
	p := model.Retrying(s, model.Retry{}, nil)
	if err := p.(interface{ Close() error }).Close(); err != nil || !s.closed {
		t.Errorf("closed = %v, error %v", s.closed, err)
	}
}

func TestKindOfStatus(t *testing.T) {
	got := map[int]fault.Kind{}
	want := map[int]fault.Kind{
		302: fault.Invalid, 400: fault.Invalid, 401: fault.Denied, 402: fault.Exhausted, 403: fault.Denied,
		404: fault.Invalid, 408: fault.Unavailable, 409: fault.Unavailable, 413: fault.TooLarge, 422: fault.Invalid,
		425: fault.Unavailable, 429: fault.Exhausted, 500: fault.Unavailable, 504: fault.Unavailable, 529: fault.Unavailable,
	}
	for status := range want {
		got[status] = model.KindOfStatus(status)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
}

func TestInterruptedKeepsTheCause(t *testing.T) {
	drained := fault.New(fault.Unavailable, "generation 3 is drained")
	tests := []struct {
		cause   error
		want    fault.Kind
		message string
	}{
		{nil, fault.Canceled, "the model call was canceled"},
		{errors.ErrUnsupported, fault.Canceled, "the model call was canceled"},
		{drained, fault.Unavailable, "the model call was ended: generation 3 is drained"},
		{context.DeadlineExceeded, fault.Timeout, "the model call was cut off: its caller's time ran out"},
	}
	for _, tt := range tests {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(tt.cause)
		err := model.Interrupted(ctx)
		if err.Kind != tt.want || !errors.Is(err, context.Canceled) || tt.cause != nil && !errors.Is(err, tt.cause) {
			t.Errorf("cause %v: %v of kind %v, want %v", tt.cause, err, err.Kind, tt.want)
		}
		if err.Message != tt.message {
			t.Errorf("cause %v: message = %q, want %q", tt.cause, err.Message, tt.message)
		}
	}
}
