package wasmtools

import (
	"bytes"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// canShare says whether the system has memory that can be mapped copy-on-write.
const canShare = true

// sharedImage is a file in memory, sealed against writing.
type sharedImage struct {
	fd   int
	size int    // bytes; a multiple of the page size of the system
	view []byte // all of it, to be read
}

// newSharedImage copies mem to a file. Pages that are all zero take no memory in it until
// an instance touches them.
func newSharedImage(mem []byte) (*sharedImage, error) {
	fd, err := unix.MemfdCreate("guest", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("creating file: %w", err)
	}
	page := unix.Getpagesize()
	s := &sharedImage{fd: fd, size: (len(mem) + page - 1) / page * page}
	if err := errors.Join(unix.Ftruncate(fd, int64(s.size)), s.fill(mem, page), s.seal()); err != nil {
		s.close()
		return nil, err
	}
	if s.size > 0 {
		if s.view, err = unix.Mmap(fd, 0, s.size, unix.PROT_READ, unix.MAP_SHARED); err != nil {
			s.close()
			return nil, fmt.Errorf("mapping file: %w", err)
		}
	}
	return s, nil
}

// contents is the image, to be read while a reference to it is held.
func (s *sharedImage) contents() []byte { return s.view }

// fill writes the pages that are not zero, those that follow each other at once.
func (s *sharedImage) fill(mem []byte, page int) error {
	zeros := make([]byte, page)
	zero := func(at int) bool {
		p := mem[at:min(at+page, len(mem))]
		return bytes.Equal(p, zeros[:len(p)])
	}
	for at := 0; at < len(mem); {
		if zero(at) {
			at += page
			continue
		}
		end := at + page
		for end < len(mem) && !zero(end) {
			end += page
		}
		if err := s.write(mem[at:min(end, len(mem))], at); err != nil {
			return err
		}
		at = end
	}
	return nil
}

func (s *sharedImage) write(b []byte, at int) error {
	for len(b) > 0 {
		n, err := unix.Pwrite(s.fd, b, int64(at))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("writing file: %w", err)
		}
		n = max(n, 0)
		b, at = b[n:], at+n
	}
	return nil
}

func (s *sharedImage) seal() error {
	_, err := unix.FcntlInt(uintptr(s.fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE|unix.F_SEAL_SEAL)
	if err != nil {
		return fmt.Errorf("sealing file: %w", err)
	}
	return nil
}

// mapInto maps the image over the beginning of mem, a mapping of whole pages.
func (s *sharedImage) mapInto(mem []byte) error {
	if s.size == 0 {
		return nil
	}
	at := unsafe.Pointer(unsafe.SliceData(mem)) //nolint:gosec // of a mapping, which the collector does not move
	_, err := unix.MmapPtr(s.fd, 0, at, uintptr(s.size),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED)
	return err
}

func (s *sharedImage) close() {
	if s.view != nil {
		_ = unix.Munmap(s.view) // it is a mapping
	}
	_ = unix.Close(s.fd) // nothing is written that could be lost
}

// discardPages forgets what was written to mem: pages of an image are that again, others
// are zero.
func discardPages(mem []byte) error { return unix.Madvise(mem, unix.MADV_DONTNEED) }
