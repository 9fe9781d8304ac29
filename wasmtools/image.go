package wasmtools

import (
	"bytes"
	"errors"
	"sync/atomic"
)

// copyLimit is the size of a linear memory, in bytes, up to which copying its image costs no
// more than mapping it, for which the first calls pay with a fault for each page they touch.
const copyLimit = 128 << 10

// image is what a linear memory starts from: the data segments of a module, or the memory
// of a guest that has been initialised. It is never written to after it was made.
//
// Where the system can, a large image lies in a file in memory that instances map
// copy-on-write: they share what they only read, and making or resetting one costs no more
// than the pages it wrote to. Else instances copy it.
type image struct {
	size   int64  // of the memory it was taken from, in bytes
	bytes  []byte // to be copied: all up to the last byte that is not zero
	shared *sharedImage
	budget *budget
	held   int64        // bytes reserved in the budget
	refs   atomic.Int32 // the last to let go frees it
}

var errNoRoom = errors.New("the memory budget of all guests is used up")

// newImage copies mem, the first bytes of a memory of size bytes that is zero behind them.
// The caller has the only reference.
func newImage(mem []byte, size int64, b *budget, how memoryUse) (*image, error) {
	im := &image{size: size, budget: b}
	im.refs.Store(1)
	used := mem[:lastByte(mem)]
	if !b.reserve(int64(len(used))) {
		return nil, errNoRoom
	}
	im.held = int64(len(used))
	if how.maps(im.size) {
		if s, err := newSharedImage(used); err == nil {
			im.shared = s
			return im, nil
		}
		// Descriptors have run out, or a sandbox around hermes has no files in memory:
		// copying does the same, only more slowly.
	}
	im.bytes = bytes.Clone(used)
	return im, nil
}

// lastByte is the length of mem without the zeros at its end.
func lastByte(mem []byte) int {
	const block = 4096
	var zeros [block]byte
	n := len(mem)
	for n >= block && bytes.Equal(mem[n-block:n], zeros[:]) {
		n -= block
	}
	for n > 0 && mem[n-1] == 0 {
		n--
	}
	return n
}

// acquire takes another reference; whoever calls has one.
func (im *image) acquire() *image {
	im.refs.Add(1)
	return im
}

// release gives a reference back. Memories that were mapped from the image keep what they
// have.
func (im *image) release() {
	if im == nil || im.refs.Add(-1) > 0 {
		return
	}
	if im.shared != nil {
		im.shared.close()
	}
	im.bytes = nil
	im.budget.release(im.held)
}

// memoryUse says how memories get the contents of their image; the zero value is what is
// best on the system.
type memoryUse int

const (
	bestUse memoryUse = iota
	copyAlways
	mapAlways
)

// maps says whether a memory of size bytes is mapped from its image.
func (u memoryUse) maps(size int64) bool {
	switch {
	case !canShare || u == copyAlways:
		return false
	case u == mapAlways:
		return true
	}
	return size > copyLimit
}
