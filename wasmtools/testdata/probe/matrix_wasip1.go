package main

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	guest "github.com/hermes-runtime/hermes/wasmtools/sdk/go"
)

// The functions of WASI that take paths, as they stand: what a library checks first is
// what a hostile guest leaves out.

//go:wasmimport wasi_snapshot_preview1 fd_read
func fdRead(fd int32, vec unsafe.Pointer, n int32, got unsafe.Pointer) int32

//go:wasmimport wasi_snapshot_preview1 fd_pread
func fdPread(fd int32, vec unsafe.Pointer, n int32, off uint64, got unsafe.Pointer) int32

//go:wasmimport wasi_snapshot_preview1 fd_write
func fdWrite(fd int32, vec unsafe.Pointer, n int32, put unsafe.Pointer) int32

//go:wasmimport wasi_snapshot_preview1 fd_pwrite
func fdPwrite(fd int32, vec unsafe.Pointer, n int32, off uint64, put unsafe.Pointer) int32

//go:wasmimport wasi_snapshot_preview1 fd_readdir
func fdReaddir(fd int32, buf unsafe.Pointer, n int32, cookie uint64, used unsafe.Pointer) int32

//go:wasmimport wasi_snapshot_preview1 fd_filestat_set_size
func fdSetSize(fd int32, size uint64) int32

//go:wasmimport wasi_snapshot_preview1 fd_allocate
func fdAllocate(fd int32, off, n uint64) int32

//go:wasmimport wasi_snapshot_preview1 fd_filestat_set_times
func fdSetTimes(fd int32, atim, mtim uint64, flags int32) int32

//go:wasmimport wasi_snapshot_preview1 path_filestat_get
func pathStat(fd, flags int32, p unsafe.Pointer, n int32, out unsafe.Pointer) int32

//go:wasmimport wasi_snapshot_preview1 path_filestat_set_times
func pathSetTimes(fd, flags int32, p unsafe.Pointer, n int32, atim, mtim uint64, fst int32) int32

//go:wasmimport wasi_snapshot_preview1 path_create_directory
func pathMkdir(fd int32, p unsafe.Pointer, n int32) int32

//go:wasmimport wasi_snapshot_preview1 path_remove_directory
func pathRmdir(fd int32, p unsafe.Pointer, n int32) int32

//go:wasmimport wasi_snapshot_preview1 path_unlink_file
func pathUnlink(fd int32, p unsafe.Pointer, n int32) int32

//go:wasmimport wasi_snapshot_preview1 path_rename
func pathRename(fd int32, p unsafe.Pointer, n int32, toFd int32, to unsafe.Pointer, toN int32) int32

//go:wasmimport wasi_snapshot_preview1 path_link
func pathLink(fd, flags int32, p unsafe.Pointer, n int32, toFd int32, to unsafe.Pointer, toN int32) int32

//go:wasmimport wasi_snapshot_preview1 path_symlink
func pathSymlink(target unsafe.Pointer, n, fd int32, p unsafe.Pointer, pn int32) int32

//go:wasmimport wasi_snapshot_preview1 path_readlink
func pathReadlink(fd int32, p unsafe.Pointer, n int32, buf unsafe.Pointer, size int32, used unsafe.Pointer) int32

const (
	follow   = 1
	oCreate  = 1
	oDir     = 2
	oExcl    = 4
	oTrunc   = 8
	fdAppend = 1
)

// outcome is what one operation gave: the last error number, and what was learned.
type outcome struct {
	Errno int32  `json:"errno"`
	Data  string `json:"data"`
}

// place is where an operation acts: paths are below fd, new names below toFd.
type place struct {
	fd, toFd int32
	path     string
}

// matrix does the operation a.Text on a.Path below the first mount. With a.To it opens
// that directory first, lets the host do something, and acts below what it opened; with
// a.N it makes new names in the second mount.
func matrix(a args) any {
	at := place{fd: 3, toFd: 3 + int32(a.N), path: a.Path}
	if a.To != "" {
		dir, errno := open(3, follow, a.To, oDir, 0, 0)
		if errno != 0 {
			return outcome{errno, ""}
		}
		guest.Log(guest.Info, "swap")
		if a.To != "." {
			at.fd = dir
		}
	}
	if do, ok := operations[a.Text]; ok {
		errno, data := do(at)
		return outcome{errno, data}
	}
	return outcome{-1, "no operation " + a.Text}
}

var operations = map[string]func(p place) (int32, string){
	"open, read":           func(p place) (int32, string) { return readBy(p.fd, follow, p.path, 0) },
	"open nofollow, read":  func(p place) (int32, string) { return readBy(p.fd, 0, p.path, 0) },
	"open, pread":          func(p place) (int32, string) { return readBy(p.fd, follow, p.path, 1) },
	"open directory, list": list,
	"open parent, read":    throughParent,
	"open, write":          func(p place) (int32, string) { return writeBy(p, 0, 0, false) },
	"open, pwrite":         func(p place) (int32, string) { return writeBy(p, 0, 0, true) },
	"create new, write":    func(p place) (int32, string) { return writeBy(p, oCreate|oExcl, 0, false) },
	"truncate, write":      func(p place) (int32, string) { return writeBy(p, oTrunc, 0, false) },
	"append":               func(p place) (int32, string) { return writeBy(p, oCreate, fdAppend, false) },
	"open, set size":       func(p place) (int32, string) { return opened(p, func(fd int32) int32 { return fdSetSize(fd, 3) }) },
	"open, allocate": func(p place) (int32, string) {
		return opened(p, func(fd int32) int32 { return fdAllocate(fd, 0, 100_000) })
	},
	"open, set times": func(p place) (int32, string) {
		return opened(p, func(fd int32) int32 { return fdSetTimes(fd, 1e18, 1e18, 5) })
	},
	"stat":  func(p place) (int32, string) { return stat(p, follow) },
	"lstat": func(p place) (int32, string) { return stat(p, 0) },
	"set times": func(p place) (int32, string) {
		return pathSetTimes(p.fd, follow, ptr(p.path), size(p.path), 1e18, 1e18, 5), ""
	},
	"mkdir":                func(p place) (int32, string) { return pathMkdir(p.fd, ptr(p.path), size(p.path)), "" },
	"rmdir":                func(p place) (int32, string) { return pathRmdir(p.fd, ptr(p.path), size(p.path)), "" },
	"unlink":               func(p place) (int32, string) { return pathUnlink(p.fd, ptr(p.path), size(p.path)), "" },
	"rename to":            renameTo,
	"rename from, read":    renameFrom,
	"link, read":           hardLink,
	"symlink, read, write": symlink,
	"readlink":             readlink,
}

func ptr(s string) unsafe.Pointer { return unsafe.Pointer(unsafe.StringData(s)) }

func size(s string) int32 { return int32(len(s)) }

func open(fd, flags int32, path string, oflags int32, rights uint64, fdflags int32) (out, errno int32) {
	if rights == 0 {
		rights = 1<<1 | 1<<14 // fd_read, fd_readdir
	}
	errno = pathOpen(fd, flags, ptr(path), size(path), oflags, rights, 1<<30-1, fdflags, unsafe.Pointer(&out))
	return out, errno
}

// vector is one buffer for fd_read and its like.
type vector struct {
	p unsafe.Pointer
	n uint32
}

func readBy(fd, flags int32, path string, at uint64) (int32, string) {
	f, errno := open(fd, flags, path, 0, 0, 0)
	if errno != 0 {
		return errno, ""
	}
	b := make([]byte, 100)
	v := vector{unsafe.Pointer(&b[0]), uint32(len(b))}
	var got uint32
	if at > 0 {
		errno = fdPread(f, unsafe.Pointer(&v), 1, at, unsafe.Pointer(&got))
	} else {
		errno = fdRead(f, unsafe.Pointer(&v), 1, unsafe.Pointer(&got))
	}
	return errno, string(b[:got])
}

func list(p place) (int32, string) {
	f, errno := open(p.fd, follow, p.path, oDir, 0, 0)
	if errno != 0 {
		return errno, ""
	}
	b := make([]byte, 4096)
	var used uint32
	errno = fdReaddir(f, unsafe.Pointer(&b[0]), int32(len(b)), 0, unsafe.Pointer(&used))
	return errno, string(b[:used])
}

// throughParent opens the directory of the path, and the rest below that.
func throughParent(p place) (int32, string) {
	dir, name := ".", p.path
	for i := len(p.path) - 1; i >= 0; i-- {
		if p.path[i] == '/' {
			dir, name = p.path[:i+1], p.path[i+1:]
			break
		}
	}
	fd, errno := open(p.fd, follow, dir, oDir, 0, 0)
	if errno != 0 {
		return errno, ""
	}
	return readBy(fd, follow, name, 0)
}

const readWrite = 1<<1 | 1<<6 | 1<<8 | 1<<22 | 1<<23 // read, write, allocate, set size, set times

func writeBy(p place, oflags, fdflags int32, positioned bool) (int32, string) {
	f, errno := open(p.fd, follow, p.path, oflags, readWrite, fdflags)
	if errno != 0 {
		return errno, ""
	}
	text := "ESCAPED"
	v := vector{ptr(text), uint32(len(text))}
	var put uint32
	if positioned {
		return fdPwrite(f, unsafe.Pointer(&v), 1, 1, unsafe.Pointer(&put)), ""
	}
	return fdWrite(f, unsafe.Pointer(&v), 1, unsafe.Pointer(&put)), ""
}

func opened(p place, do func(fd int32) int32) (int32, string) {
	f, errno := open(p.fd, follow, p.path, 0, readWrite, 0)
	if errno != 0 {
		return errno, ""
	}
	return do(f), ""
}

func stat(p place, flags int32) (int32, string) {
	var b [64]byte
	errno := pathStat(p.fd, flags, ptr(p.path), size(p.path), unsafe.Pointer(&b))
	if errno != 0 {
		return errno, ""
	}
	return 0, fmt.Sprintf("inode %d, %d bytes", binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[32:]))
}

func renameTo(p place) (int32, string) {
	own := "own.txt"
	f, errno := open(3, 0, own, oCreate, readWrite, 0)
	if errno != 0 {
		return errno, ""
	}
	_ = f
	return pathRename(3, ptr(own), size(own), p.fd, ptr(p.path), size(p.path)), ""
}

func renameFrom(p place) (int32, string) {
	to := "stolen.txt"
	if errno := pathRename(p.fd, ptr(p.path), size(p.path), p.toFd, ptr(to), size(to)); errno != 0 {
		return errno, ""
	}
	return readBy(p.toFd, follow, to, 0)
}

func hardLink(p place) (int32, string) {
	to := "hard.txt"
	if errno := pathLink(p.fd, follow, ptr(p.path), size(p.path), p.toFd, ptr(to), size(to)); errno != 0 {
		return errno, ""
	}
	return readBy(p.toFd, follow, to, 0)
}

func symlink(p place) (int32, string) {
	name := "made"
	if errno := pathSymlink(ptr(p.path), size(p.path), p.toFd, ptr(name), size(name)); errno != 0 {
		return errno, ""
	}
	_, data := readBy(p.toFd, follow, name, 0)
	p.path = name
	errno, _ := writeBy(p, oCreate, 0, false)
	return errno, data
}

func readlink(p place) (int32, string) {
	b := make([]byte, 1000)
	var used uint32
	errno := pathReadlink(p.fd, ptr(p.path), size(p.path), unsafe.Pointer(&b[0]), int32(len(b)), unsafe.Pointer(&used))
	return errno, string(b[:used])
}
