package wasmtools

// Stats are figures of a Runtime, for those who watch it.
type Stats struct {
	// MemoryUsed and MemoryPeak are the bytes reserved now, and the most there ever were;
	// MemoryBudget is what they may be.
	MemoryUsed   int64 `json:"memory_used"`
	MemoryPeak   int64 `json:"memory_peak"`
	MemoryBudget int64 `json:"memory_budget"`
	// MemoryRefused counts what found no room in the budget: calls, and growths of memory.
	MemoryRefused int64 `json:"memory_refused"`
	// Running are the guests that run now, apart from those called by another one; Slots is
	// how many may.
	Running int `json:"running"`
	Slots   int `json:"slots"`
	Idle    int `json:"idle"`    // instances that wait for a call
	Modules int `json:"modules"` // compiled, or being compiled
	// Compiled counts the modules that the compiler made ready since the start, FromCache
	// those whose code the disk had.
	Compiled  int64 `json:"compiled"`
	FromCache int64 `json:"from_cache"`
}

// Stats gives the figures as they are now.
func (r *Runtime) Stats() Stats {
	r.mu.Lock()
	modules := len(r.modules)
	r.mu.Unlock()
	s := Stats{MemoryBudget: r.budget.limit, Running: len(r.slots), Slots: cap(r.slots), Idle: r.pool.idle(), Modules: modules,
		Compiled: r.compiled.Load(), FromCache: r.fromCache.Load()}
	s.MemoryUsed, s.MemoryPeak, s.MemoryRefused = r.budget.figures()
	return s
}

// ToolStats are figures of a Tool since it was bound.
type ToolStats struct {
	Isolation Isolation // in use: Fresh also for a module that turned out not to fit Snapshot
	Calls     int64     // begun
	Made      int64     // instances that were made
	Reused    int64     // calls that had an instance which had served before
	Snapshots int64     // taken; more than one if memory was short meanwhile
	Fuel      int64     // units that all calls and starts together used
	Idle      int       // instances that wait for a call
	// Discarded counts instances that were not used again, by the reason.
	Discarded map[string]int64
}

// Stats gives the figures as they are now. Those of calls that run are not in them.
func (t *Tool) Stats() ToolStats {
	c := &t.stats
	s := ToolStats{
		Isolation: t.isolation, Calls: c.calls.Load(), Made: c.made.Load(), Reused: c.reused.Load(),
		Snapshots: c.snapshots.Load(), Fuel: c.fuel.Load(), Idle: t.rt.pool.idleOf(t), Discarded: map[string]int64{},
	}
	for i := range c.discarded {
		if n := c.discarded[i].Load(); n > 0 {
			s.Discarded[discard(i).String()] = n
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.unfit != "" {
		s.Isolation = Fresh
	}
	return s
}
