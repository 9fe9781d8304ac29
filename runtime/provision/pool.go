package provision

import (
	"errors"
	"sync"

	"github.com/hermes-runtime/hermes/runtime/snapshot"
)

// pool shares objects between generations: one per key, closed after its last user. Its
// lock is not held while an object is made or closed, so that a slow one of either keeps
// nobody else waiting.
type pool[T any] struct {
	mu    sync.Mutex // guards items, and the users of each
	items map[string]*item[T]
}

type item[T any] struct {
	users int
	made  chan struct{} // closed when what follows is set
	value T
	close func()
	err   error
}

func newPool[T any]() *pool[T] { return &pool[T]{items: map[string]*item[T]{}} }

// errUnmade is the error of those who waited for an object whose making panicked.
var errUnmade = errors.New("making it failed by a fault of the server")

// use is an object taken from a pool.
type use[T any] struct {
	value   T
	shared  bool   // it was there
	release func() // once
}

// acquire gives the object of key, making it if nobody has it. Who comes while it is made
// waits for it.
func (p *pool[T]) acquire(key string, build func() (T, func(), error)) (use[T], error) {
	it, shared := p.enter(key)
	if shared {
		<-it.made
	} else {
		p.make(key, it, build)
	}
	if it.err != nil {
		p.leave(key, it)
		return use[T]{}, it.err
	}
	return use[T]{it.value, shared, func() { p.leave(key, it) }}, nil
}

// enter adds a user to the item of key, and says whether there was one.
func (p *pool[T]) enter(key string) (it *item[T], shared bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	it, shared = p.items[key]
	if !shared {
		it = &item[T]{made: make(chan struct{})}
		p.items[key] = it
	}
	it.users++
	return it, shared
}

// make fills an item. Should build panic, its user is gone and others have an error.
func (p *pool[T]) make(key string, it *item[T], build func() (T, func(), error)) {
	it.err = errUnmade
	returned := false
	defer func() {
		close(it.made)
		if !returned {
			p.leave(key, it)
		}
	}()
	it.value, it.close, it.err = build()
	returned = true
}

// leave takes a user from an item. The last one closes it.
func (p *pool[T]) leave(key string, it *item[T]) {
	p.mu.Lock()
	it.users--
	last := it.users == 0
	if last {
		delete(p.items, key)
	}
	p.mu.Unlock()
	if last && it.close != nil {
		it.close()
	}
}

// count notes in c whether an object was there or made.
func (u use[T]) count(c *snapshot.Count) {
	if u.shared {
		c.Shared++
	} else {
		c.Built++
	}
}
