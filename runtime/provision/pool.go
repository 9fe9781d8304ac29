package provision

import "sync"

// pool shares objects between generations: one per key, closed after its last user.
type pool[T any] struct {
	mu    sync.Mutex // guards items
	items map[string]*item[T]
}

type item[T any] struct {
	value T
	users int
	close func()
}

func newPool[T any]() *pool[T] { return &pool[T]{items: map[string]*item[T]{}} }

// acquire gives the object of key, making it if nobody has it. release must be called
// once.
func (p *pool[T]) acquire(key string, make func() (T, func(), error)) (value T, release func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	it, ok := p.items[key]
	if !ok {
		v, closer, err := make()
		if err != nil {
			return value, nil, err
		}
		it = &item[T]{value: v, close: closer}
		p.items[key] = it
	}
	it.users++
	return it.value, func() { p.release(key) }, nil
}

func (p *pool[T]) release(key string) {
	p.mu.Lock()
	it := p.items[key]
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
