package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/server/route"
)

// authenticate finds who asks, and the key asked with (nil on a server without keys).
func (s *Server) authenticate(r *http.Request, conf config.Server) (principal.Principal, *config.Key, error) {
	if len(conf.Keys) == 0 {
		if s.holder.Number() == 0 {
			return principal.Principal{}, nil, fault.New(fault.Unavailable, "no generation is live: the server is starting or stopping")
		}
		return principal.Local(), nil, nil
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return principal.Principal{}, nil, unauthenticated("a key is missing: send Authorization: Bearer KEY")
	}
	key := find(token, conf.Keys)
	if key == nil {
		return principal.Principal{}, nil, unauthenticated("the key is not known")
	}
	return principal.Principal{Name: key.Name, Role: key.Role, Agents: key.Agents, Keyed: true}, key, nil
}

func unauthenticated(message string) error {
	return &route.StatusError{Status: http.StatusUnauthorized, Err: fault.New(fault.Denied, "%s", message)}
}

// find compares the token, which is not empty, with every key, in a time that tells
// nothing about them.
func find(token string, keys []config.Key) *config.Key {
	var found *config.Key
	given := sha256.Sum256([]byte(token))
	for i := range keys {
		want := sha256.Sum256([]byte(keys[i].Secret.Open()))
		if subtle.ConstantTimeCompare(given[:], want[:]) == 1 {
			found = &keys[i]
		}
	}
	return found
}

// rates counts the requests of each key, by name, over all generations.
type rates struct {
	mu      sync.Mutex // guards buckets
	buckets map[string]*bucket
}

// bucket holds what a key may still send: Calls at most, refilled evenly over Per.
type bucket struct {
	left float64
	at   time.Time
}

func newRates() *rates { return &rates{buckets: map[string]*bucket{}} }

// take counts one request of key; keys are all that exist, others are forgotten.
func (l *rates) take(key *config.Key, keys []config.Key) error {
	if key == nil || key.Rate.Calls <= 0 || key.Rate.Per <= 0 {
		return nil
	}
	now := time.Now()
	burst := float64(key.Rate.Calls)
	perSecond := burst / key.Rate.Per.Seconds()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(keys)
	b := l.buckets[key.Name]
	if b == nil {
		b = &bucket{left: burst, at: now}
		l.buckets[key.Name] = b
	}
	b.left = min(burst, b.left+now.Sub(b.at).Seconds()*perSecond)
	b.at = now
	if b.left < 1 {
		wait := time.Duration((1 - b.left) / perSecond * float64(time.Second))
		return &rateError{wait: wait, err: fault.New(fault.Exhausted, "key %q is over its rate of %d requests per %s", key.Name, key.Rate.Calls, key.Rate.Per)}
	}
	b.left--
	return nil
}

// forget drops the buckets of keys that are gone. Needs mu.
func (l *rates) forget(keys []config.Key) {
	if len(l.buckets) <= len(keys) {
		return
	}
	known := make(map[string]bool, len(keys))
	for _, k := range keys {
		known[k.Name] = true
	}
	for name := range l.buckets {
		if !known[name] {
			delete(l.buckets, name)
		}
	}
}

// rateError is a refusal that says when to come again.
type rateError struct {
	wait time.Duration
	err  *fault.Error
}

func (e *rateError) Error() string { return e.err.Error() }
func (e *rateError) Unwrap() error { return e.err }

// retryAfter is the Retry-After header that belongs to err, in whole seconds.
func retryAfter(err error) (string, bool) {
	var e *rateError
	if !errors.As(err, &e) {
		return "", false
	}
	return strconv.Itoa(max(1, int(math.Ceil(e.wait.Seconds())))), true
}
