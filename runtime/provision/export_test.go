package provision

// Held is how many objects of each kind generations hold.
func (p *Provisioner) Held() (handlers, modules, models, checks int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.handlers.size(), p.modules.size(), p.models.size(), len(p.inUse)
}

func (p *pool[T]) size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.items)
}
