package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// Timeouts bound one call of a model. Zero: no limit.
type Timeouts struct {
	Connect    time.Duration // until there is a connection
	FirstToken time.Duration // from the connection to the first piece of the answer
	// Idle is between two pieces of the answer. Keep-alives and empty chunks are no
	// pieces.
	Idle  time.Duration
	Total time.Duration // the whole call; each attempt has its own
}

// Retry says how often and how fast a failed call is repeated.
type Retry struct {
	Attempts int           // calls in all, the first included; under 2: no repeat
	Base     time.Duration // about the first wait; it doubles with every attempt
	// Max is the longest wait. A provider that asks for longer gets no further
	// attempt: coming back earlier is refused again, and later is not wanted.
	Max time.Duration
	// AfterOutput repeats a call also when something was emitted: whoever follows was told
	// the beginning of an answer that does not count, and learns of it from onRetry.
	AfterOutput bool
}

// Retrying repeats calls of p that fail with a [Retryable] error, unless something was
// emitted and r.AfterOutput is not set, or emit refused it. Waits are jittered and exponential; a Retry-After is waited out, plus at
// most a tenth. A wait that would outlast the context's deadline is not begun: the
// error is returned at once. onRetry, if not nil, is told before each wait: which
// attempt failed (from 1), how long the wait is, and why.
//
// Closing the result (io.Closer) closes p.
func Retrying(
	p Provider, r Retry, onRetry func(attempt int, wait time.Duration, err error),
) Provider {
	if onRetry == nil {
		onRetry = func(int, time.Duration, error) {}
	}
	return &retrying{next: p, retry: r, onRetry: onRetry}
}

type retrying struct {
	next    Provider
	retry   Retry
	onRetry func(int, time.Duration, error)
}

var (
	_ Provider  = (*retrying)(nil)
	_ io.Closer = (*retrying)(nil)
)

// Stream implements [Provider].
func (r *retrying) Stream(
	ctx context.Context, req *Request, emit func(Delta) error,
) (*Response, error) {
	for attempt := 1; ; attempt++ {
		emitted, refused := false, false
		resp, err := r.next.Stream(ctx, req, func(d Delta) error {
			emitted = true
			err := emit(d)
			refused = refused || err != nil
			return err
		})
		if err == nil {
			return resp, nil
		}
		if refused || emitted && !r.retry.AfterOutput || attempt >= r.retry.Attempts || ctx.Err() != nil || !Retryable(err) {
			return nil, err
		}
		wait, ok := r.retry.wait(attempt, err)
		if !ok || outlasts(ctx, wait) {
			return nil, err
		}
		r.onRetry(attempt, wait, err)
		if err := sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// Close closes the provider behind, if it can be closed.
func (r *retrying) Close() error {
	if c, ok := r.next.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// wait is how long to wait after the attempt-th call failed with err; false if the
// provider asks for more than Max.
func (r Retry) wait(attempt int, err error) (time.Duration, bool) {
	if asked, ok := RetryAfter(err); ok && asked > 0 {
		return min(asked+jitter(asked/10), r.Max), asked <= r.Max
	}
	backoff := r.Max
	if shift := attempt - 1; shift < 32 && r.Base < r.Max>>shift {
		backoff = r.Base << shift
	}
	return backoff/2 + jitter(backoff/2), true
}

// jitter is a random duration in [0, most], so that clients which failed together do
// not come back together.
func jitter(most time.Duration) time.Duration {
	return time.Duration(rand.Int64N(int64(max(most, 0)) + 1)) //nolint:gosec // no secret depends on it
}

func outlasts(ctx context.Context, wait time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) < wait
}

func sleep(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return Interrupted(ctx)
	}
}

// Interrupted is the error of a call whose context ended: kind and message of the
// context's cause if that is a *fault.Error, else Timeout or Canceled, with both in
// its chain. It must only be called when ctx is done.
func Interrupted(ctx context.Context) *fault.Error {
	cause := context.Cause(ctx)
	chain := cause
	if cause != ctx.Err() { //nolint:errorlint // identity: is there a cause of its own?
		chain = fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	var f *fault.Error
	switch {
	case errors.As(cause, &f):
		return fault.Wrap(f.Kind, chain, "the model call was ended: %s", f.Message)
	case errors.Is(cause, context.DeadlineExceeded) || errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fault.Wrap(fault.Timeout, chain, "the model call was cut off: its caller's time ran out")
	}
	return fault.Wrap(fault.Canceled, chain, "the model call was canceled")
}
