//go:build unix

package wasmtools

import "golang.org/x/sys/unix"

// mapMemory maps size bytes that are zero and cost nothing until they are touched.
func mapMemory(size int) ([]byte, error) {
	return unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
}

func unmapMemory(b []byte) error { return unix.Munmap(b) }
