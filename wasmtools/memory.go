package wasmtools

import (
	"fmt"

	"github.com/tetratelabs/wazero/experimental"

	"github.com/hermes-runtime/hermes/wasmtools/module"
)

// linear is the linear memory of one instance: address space for its limit, of which the
// system backs what is touched. wazero calls Free when a guest exits in the middle of a
// host function; the mapping stays until [linear.release], when nothing can run on it.
type linear struct {
	mapped []byte
	denied bool // growth was refused
}

// newLinear maps memory for a module that declares d and may have limit bytes.
func newLinear(d *module.Memory, limit int64) (*linear, error) {
	if d == nil {
		return &linear{}, nil
	}
	size := limit
	if d.MaxPages >= 0 {
		size = min(size, int64(d.MaxPages)*module.PageSize)
	}
	size = max(size, int64(d.MinPages)*module.PageSize)
	if size == 0 {
		return &linear{}, nil
	}
	b, err := mapMemory(int(size))
	if err != nil {
		return nil, fmt.Errorf("mapping %d bytes of guest memory: %w", size, err)
	}
	return &linear{mapped: b}, nil
}

var _ experimental.MemoryAllocator = (*linear)(nil)
var _ experimental.LinearMemory = (*linear)(nil)

// Allocate hands out the mapping, whatever capacity is suggested.
func (l *linear) Allocate(_, _ uint64) experimental.LinearMemory { return l }

// Reallocate gives the first size bytes, or nil over the limit: memory.grow then gives -1.
func (l *linear) Reallocate(size uint64) []byte {
	if size > uint64(len(l.mapped)) {
		l.denied = true
		return nil
	}
	if l.mapped == nil {
		return []byte{}
	}
	return l.mapped[:size]
}

// Free does nothing; see [linear.release].
func (l *linear) Free() {}

// release unmaps the memory. The instance must be gone.
func (l *linear) release() error {
	b := l.mapped
	l.mapped = nil
	if b == nil {
		return nil
	}
	return unmapMemory(b)
}
