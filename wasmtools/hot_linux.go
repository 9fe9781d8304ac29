package wasmtools

import (
	"encoding/binary"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Bounds of what is copied at a reset instead of being mapped anew. Copying a page costs a
// tenth of a fault. Each span costs a system call that interrupts every processor which runs
// guests, so pages between two spans that are near to each other are copied too.
const (
	maxHot      = 1 << 20 // bytes
	maxHotSpans = 48
	hotGap      = 16 << 10 // bytes
)

// touched gives the pages of mem, a private mapping, that have contents of their own: what
// was written to since it was mapped or discarded. Where the system does not tell, or if
// they are too many, it gives none.
func touched(mem []byte) []span {
	const (
		entry    = 8
		present  = 1 << 63
		fileBack = 1 << 61
	)
	page := unix.Getpagesize()
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	at := uintptr(unsafe.Pointer(unsafe.SliceData(mem))) //nolint:gosec // of a mapping, which the collector does not move
	entries := make([]byte, len(mem)/page*entry)
	if _, err := f.ReadAt(entries, int64(at/uintptr(page)*entry)); err != nil { //nolint:gosec // an address over 512
		return nil
	}
	var spans []span
	total := 0
	for i := 0; i < len(entries); i += entry {
		if e := binary.NativeEndian.Uint64(entries[i:]); e&present == 0 || e&fileBack != 0 {
			continue
		}
		from := i / entry * page
		if n := len(spans); n > 0 && from-spans[n-1].to <= hotGap {
			total += from + page - spans[n-1].to
			spans[n-1].to = from + page
		} else {
			total += page
			spans = append(spans, span{from, from + page})
		}
	}
	if total > maxHot || len(spans) > maxHotSpans {
		return nil
	}
	return spans
}
