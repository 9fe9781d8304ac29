package dispatch

// Limiters counts the limiters that a dispatcher keeps.
func Limiters(d *Dispatcher) int {
	d.limiters.mu.Lock()
	defer d.limiters.mu.Unlock()
	return len(d.limiters.byKey)
}
