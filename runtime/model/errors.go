package model

import (
	"errors"
	"net/http"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// Causes of a failed call that decide whether it is worth repeating. Adapters put
// them into the chain of their *fault.Error.
var (
	// ErrConnect: a Timeout before a connection was there.
	ErrConnect = errors.New("no connection in time")
	// ErrFirstToken: a Timeout before the first piece of the answer.
	ErrFirstToken = errors.New("no first token in time")
	// ErrQuota: an Exhausted that waiting does not cure, for example an unpaid bill.
	ErrQuota = errors.New("quota used up")
	// ErrOverflow: a TooLarge because the conversation is over what the model can read. A
	// shorter one may succeed.
	ErrOverflow = errors.New("over the model's context window")
)

// RetryAfterError is the cause of a failed call whose provider said when to come
// back. It belongs in the chain of a *fault.Error.
type RetryAfterError struct {
	Wait time.Duration // from the moment of the answer; 0: at once
	Err  error         // the cause behind; may be nil
}

// Error names the wait.
func (e *RetryAfterError) Error() string { return "retry after " + e.Wait.String() }

// Unwrap gives the cause behind.
func (e *RetryAfterError) Unwrap() error { return e.Err }

// RetryAfter is how long the provider asked to wait before the call is repeated;
// false if it did not say.
func RetryAfter(err error) (time.Duration, bool) {
	if after, ok := errors.AsType[*RetryAfterError](err); ok {
		return after.Wait, true
	}
	return 0, false
}

// Retryable says whether sending the same request again may succeed: rate limits
// (not used-up quotas), providers that are down or broke off, and timeouts before
// the first token. A timeout after it is not: the same again would take as long.
func Retryable(err error) bool {
	switch fault.KindOf(err) {
	case fault.Exhausted:
		return !errors.Is(err, ErrQuota)
	case fault.Unavailable:
		return true
	case fault.Timeout:
		return errors.Is(err, ErrConnect) || errors.Is(err, ErrFirstToken)
	case fault.Internal, fault.Invalid, fault.NotFound, fault.Exists,
		fault.Denied, fault.Canceled, fault.TooLarge:
		return false
	}
	return false
}

// Elsewhere says whether another model may succeed where this one failed: it is down,
// overloaded, slow to begin, refuses the key or has no quota left. What this one refuses,
// another refuses as well.
func Elsewhere(err error) bool {
	switch fault.KindOf(err) {
	case fault.Exhausted, fault.Unavailable, fault.Denied:
		return true
	case fault.Timeout:
		return errors.Is(err, ErrConnect) || errors.Is(err, ErrFirstToken)
	case fault.Internal, fault.Invalid, fault.NotFound, fault.Exists, fault.Canceled, fault.TooLarge:
		return false
	}
	return false
}

// KindOfStatus is the kind of a provider's answer with an HTTP status that is not a
// success. Invalid is what the provider refuses, so the same request is refused
// again; a redirect is Invalid too, since adapters do not follow any.
func KindOfStatus(status int) fault.Kind {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fault.Denied
	case http.StatusPaymentRequired, http.StatusTooManyRequests:
		return fault.Exhausted
	case http.StatusRequestEntityTooLarge:
		return fault.TooLarge
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly:
		return fault.Unavailable
	}
	if status >= 300 && status < 500 {
		return fault.Invalid
	}
	return fault.Unavailable
}
