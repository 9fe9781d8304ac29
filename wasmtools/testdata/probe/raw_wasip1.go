package main

import "unsafe"

//go:wasmimport wasi_snapshot_preview1 path_open
func pathOpen(fd, dirflags int32, path unsafe.Pointer, n, oflags int32, rights, inheriting uint64, fdflags int32, out unsafe.Pointer) int32

// rawOpen opens a path below the first mount as it stands, past the checks of Go's own
// library, and gives the error number.
func rawOpen(path string) int32 {
	var fd int32
	b := []byte(path)
	return pathOpen(3, 1, unsafe.Pointer(unsafe.SliceData(b)), int32(len(b)), 0, 0x1fffffff, 0x1fffffff, 0, unsafe.Pointer(&fd))
}
