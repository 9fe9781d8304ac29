package wasmtools

import (
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero/experimental"

	"github.com/hermes-runtime/hermes/wasmtools/module"
)

// linear is the linear memory of one instance: address space for its limit, of which the
// system backs what is touched.
//
//	0                          size            len(mapped)
//	|  image  | zero ...        |  not yet grown into  |
//
// wazero calls Free when a guest exits in the middle of a host function; the mapping stays
// until [linear.release], when nothing can run on it.
type linear struct {
	budget *budget
	image  *image // nil: all zero at the start
	mapped []byte
	limit  int64
	size   int64  // bytes handed out
	beside int64  // bytes of the limit that the host uses for the guest
	held   int64  // bytes reserved in the budget
	denied denial // why growth was refused last

	resets int
	hot    []span // that are copied at a reset; ascending, apart from each other
}

// span is a range of bytes, of whole pages.
type span struct{ from, to int }

// learnAt is the reset at which a memory learns which pages its guest writes to: not the
// first, since many instances serve one call only.
const learnAt = 2

// denial is why a guest got no more memory.
type denial int

const (
	notDenied  denial = iota
	overLimit         // of its declaration
	overBudget        // of the process
)

// newLinear maps memory for a module that declares d and may have limit bytes. It begins
// as the image, which the memory keeps a reference to.
func newLinear(d *module.Memory, limit int64, im *image, b *budget) (*linear, error) {
	l := &linear{budget: b, limit: limit}
	if d == nil {
		return l, nil
	}
	start := int64(d.MinPages) * module.PageSize
	if im != nil {
		start = max(start, im.size)
	}
	size := limit
	if d.MaxPages >= 0 {
		size = min(size, int64(d.MaxPages)*module.PageSize)
	}
	if size = max(size, start); size == 0 {
		return l, nil
	}
	if !b.reserve(start) {
		return nil, errNoRoom
	}
	l.held = start
	var err error
	if l.mapped, err = mapMemory(int(size)); err != nil {
		b.release(start)
		return nil, fmt.Errorf("mapping %d bytes of guest memory: %w", size, err)
	}
	if im == nil {
		return l, nil
	}
	if err := l.begin(im.acquire()); err != nil {
		return nil, errors.Join(err, l.release())
	}
	return l, nil
}

// begin puts the image in place, in memory that is all zero.
func (l *linear) begin(im *image) error {
	l.image = im
	if im.shared == nil {
		copy(l.mapped, im.bytes)
		return nil
	}
	if err := im.shared.mapInto(l.mapped); err != nil {
		return fmt.Errorf("mapping a memory image: %w", err)
	}
	return nil
}

var _ experimental.MemoryAllocator = (*linear)(nil)
var _ experimental.LinearMemory = (*linear)(nil)

// Allocate hands out the mapping, whatever capacity is suggested.
func (l *linear) Allocate(_, _ uint64) experimental.LinearMemory { return l }

// Reallocate gives the first bytes, or nil over the limit or the budget: memory.grow
// then gives -1.
func (l *linear) Reallocate(bytes uint64) []byte {
	if bytes > uint64(len(l.mapped)) || l.beside > 0 && int64(bytes)+l.beside > l.limit { //nolint:gosec // at most 4 GiB
		l.denied = overLimit
		return nil
	}
	size := int64(bytes) //nolint:gosec // at most 4 GiB
	if size > l.held {
		if !l.budget.reserve(size - l.held) {
			l.denied = overBudget
			return nil
		}
		l.held = size
	}
	l.size = size
	if l.mapped == nil {
		return []byte{}
	}
	return l.mapped[:size:size]
}

// Free does nothing; see [linear.release].
func (l *linear) Free() {}

// reset makes the memory what it was at the start. It must not have grown.
func (l *linear) reset() error {
	l.denied, l.beside = notDenied, 0
	if l.image == nil || len(l.mapped) == 0 {
		return nil
	}
	if l.image.shared != nil {
		return l.remap()
	}
	n := copy(l.mapped, l.image.bytes)
	clear(l.mapped[n:l.size])
	return nil
}

// remap forgets what was written since the memory was mapped from its image. Most guests
// write to the same pages in every call, and to map a page costs ten times what it costs to
// copy one; so those are copied, and everything between them is mapped anew.
func (l *linear) remap() error {
	if l.resets++; l.resets == learnAt {
		l.hot = touched(l.mapped[:l.size])
	}
	contents, at := l.image.shared.contents(), 0
	for _, h := range l.hot {
		if err := discardBetween(l.mapped, at, h.from); err != nil {
			return err
		}
		page := l.mapped[h.from:h.to]
		n := copy(page, contents[min(h.from, len(contents)):])
		clear(page[n:])
		at = h.to
	}
	return discardBetween(l.mapped, at, int(l.size))
}

func discardBetween(mem []byte, from, to int) error {
	if from >= to {
		return nil
	}
	return discardPages(mem[from:to])
}

// release unmaps the memory and gives back what was reserved. The instance must be gone.
func (l *linear) release() error {
	b, held := l.mapped, l.held
	l.mapped, l.held = nil, 0
	l.image.release()
	l.image = nil
	if b == nil {
		return nil
	}
	err := unmapMemory(b)
	l.budget.release(held)
	return err
}
