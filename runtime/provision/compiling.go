package provision

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Compile is one module that is being compiled, by a reload or behind a start.
type Compile struct {
	Module string    `json:"module"` // relative to the project where it is inside
	Since  time.Time `json:"since"`
}

// compiles are those under way. The zero value is ready to use.
type compiles struct {
	mu  sync.Mutex // guards all
	all []*Compile
}

// begin notes a compile; end forgets it.
func (c *compiles) begin(module string) (end func()) {
	one := &Compile{Module: module, Since: time.Now()}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, one)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all = slices.DeleteFunc(c.all, func(o *Compile) bool { return o == one })
	}
}

// Compiling lists the modules that are being compiled now, those that wait for a place
// included; modules loaded from the cache are not.
func (p *Provisioner) Compiling() []Compile {
	p.compiles.mu.Lock()
	defer p.compiles.mu.Unlock()
	out := make([]Compile, 0, len(p.compiles.all))
	for _, c := range p.compiles.all {
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b Compile) int { return cmp.Compare(a.Module, b.Module) })
	return out
}
