package wasmtools

import (
	"runtime"
	"slices"
	"sync"
)

// maxServed is the number of calls after which an instance is replaced. Nothing is known
// to wear out; the bound keeps what is not known from lasting.
const maxServed = 1000

// pool keeps the idle instances of all tools of a Runtime, each as it was when it started.
// An instance serves the calls of one tool, and within it of one principal.
type pool struct {
	most int // idle instances of one tool

	mu    sync.Mutex // guards what follows, and the idle and shut of every Tool
	tools map[*Tool]struct{}
	turn  uint64 // counts what was put; the lowest was idle for longest
}

func newPool() *pool {
	return &pool{most: 2 * runtime.GOMAXPROCS(0), tools: map[*Tool]struct{}{}}
}

// take gives the instance of t and owner that was used last, or nil.
func (p *pool) take(t *Tool, owner string) *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, in := range slices.Backward(t.idle) {
		if in.owner == owner {
			p.drop(t, i)
			return in
		}
	}
	return nil
}

// put keeps an instance, in place of that of the tool which was idle for longest if there
// are too many: the caller closes out. A closed tool keeps none.
func (p *pool) put(in *instance) (out *instance, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := in.tool
	if t.shut {
		return nil, false
	}
	if len(t.idle) >= p.most {
		out = t.idle[0]
		p.drop(t, 0)
	}
	p.turn++
	in.idleSince = p.turn
	t.idle = append(t.idle, in)
	p.tools[t] = struct{}{}
	return out, true
}

// evict closes the instance that was idle for longest, and says whether there was one.
func (p *pool) evict() bool {
	in := p.oldest()
	if in == nil {
		return false
	}
	in.discard(evicted)
	return true
}

func (p *pool) oldest() *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	var of *Tool
	for t := range p.tools {
		if of == nil || t.idle[0].idleSince < of.idle[0].idleSince {
			of = t
		}
	}
	if of == nil {
		return nil
	}
	in := of.idle[0]
	p.drop(of, 0)
	return in
}

// shut closes the idle instances of t, which gets no more of them.
func (p *pool) shut(t *Tool) {
	p.mu.Lock()
	t.shut = true
	idle := t.idle
	t.idle = nil
	delete(p.tools, t)
	p.mu.Unlock()
	for _, in := range idle {
		in.discard(toolClosed)
	}
}

// drop takes the i-th idle instance out. p.mu is held.
func (p *pool) drop(t *Tool, i int) {
	t.idle = slices.Delete(t.idle, i, i+1)
	if len(t.idle) == 0 {
		delete(p.tools, t)
	}
}

// idle is the number of idle instances of all tools.
func (p *pool) idle() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for t := range p.tools {
		n += len(t.idle)
	}
	return n
}

// idleOf is the number of idle instances of one tool.
func (p *pool) idleOf(t *Tool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(t.idle)
}
