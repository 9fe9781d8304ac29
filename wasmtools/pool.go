package wasmtools

import (
	"runtime"
	"slices"
	"sync"
	"time"
)

// maxServed is the number of calls after which an instance is replaced. Nothing is known
// to wear out; the bound keeps what is not known from lasting.
const maxServed = 1000

// idleFor is how long an instance may be idle before its memory is given back.
const idleFor = time.Minute

// pool keeps the idle instances of all tools of a Runtime, each as it was when it started.
// An instance serves the calls of one tool, and within it of one principal.
type pool struct {
	most int // idle instances of one tool

	mu    sync.Mutex         // guards what follows, and the idle and shut of every Tool
	tools map[*Tool]struct{} // that have idle instances
	snaps map[*Tool]uint64   // that have a snapshot, by the turn of its last use
	turn  uint64             // counts uses; the lowest was longest ago
	sweep *time.Timer        // runs expire; nil: nothing is idle
}

func newPool() *pool {
	return &pool{most: 2 * runtime.GOMAXPROCS(0), tools: map[*Tool]struct{}{}, snaps: map[*Tool]uint64{}}
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
	in.idleAt = time.Now()
	t.idle = append(t.idle, in)
	p.tools[t] = struct{}{}
	p.arm()
	return out, true
}

// arm sees to it that idle instances expire. p.mu is held.
func (p *pool) arm() {
	switch {
	case len(p.tools) > 0 && p.sweep == nil:
		p.sweep = time.AfterFunc(idleFor, p.expire)
	case len(p.tools) == 0 && p.sweep != nil:
		p.sweep.Stop()
		p.sweep = nil
	}
}

// expire closes the instances that were idle for too long.
func (p *pool) expire() {
	var out []*instance
	p.mu.Lock()
	for t := range p.tools {
		for len(t.idle) > 0 && time.Since(t.idle[0].idleAt) >= idleFor {
			out = append(out, t.idle[0])
			p.drop(t, 0)
		}
	}
	p.sweep = nil
	p.arm()
	p.mu.Unlock()
	for _, in := range out {
		in.discard(expired)
	}
}

// evict closes the instance that was idle for longest; without any it lets go of the
// snapshot that was not used for longest, which can be taken again. It says whether there
// was something to evict.
func (p *pool) evict() bool {
	if in := p.oldest(); in != nil {
		in.discard(evicted)
		return true
	}
	t := p.stalest()
	if t == nil {
		return false
	}
	t.forgetSnapshot()
	return true
}

// used notes that a snapshot of t was taken, or that an instance was made from it.
func (p *pool) used(t *Tool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !t.shut {
		p.turn++
		p.snaps[t] = p.turn
	}
}

// stalest takes out the tool whose snapshot was not used for longest.
func (p *pool) stalest() (of *Tool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for t, turn := range p.snaps {
		if of == nil || turn < p.snaps[of] {
			of = t
		}
	}
	delete(p.snaps, of)
	return of
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
	delete(p.snaps, t)
	p.arm()
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
