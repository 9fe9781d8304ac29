package openai

import (
	"context"
	"sync"
)

// keyed is a lock per session id.
type keyed struct {
	mu   sync.Mutex // guards held
	held map[string]*place
}

// place is one lock: a channel with one token, and how many have or want it.
type place struct {
	token chan struct{}
	users int
}

func newKeyed() *keyed { return &keyed{held: map[string]*place{}} }

// lock waits for the key; unlock must be called once. The error is ctx's.
func (k *keyed) lock(ctx context.Context, key string) (unlock func(), err error) {
	k.mu.Lock()
	p := k.held[key]
	if p == nil {
		p = &place{token: make(chan struct{}, 1)}
		k.held[key] = p
	}
	p.users++
	k.mu.Unlock()
	select {
	case p.token <- struct{}{}:
		return func() { <-p.token; k.leave(key, p) }, nil
	case <-ctx.Done():
		k.leave(key, p)
		return nil, context.Cause(ctx)
	}
}

func (k *keyed) leave(key string, p *place) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p.users--; p.users == 0 {
		delete(k.held, key)
	}
}
