package wasmtools

import (
	"io/fs"

	"github.com/tetratelabs/wazero/experimental/sys"
	wasisys "github.com/tetratelabs/wazero/sys"
)

// guestFS is a mount of an instance. The directory is opened for every call, so each
// operation goes to the mount of the call that has the instance.
type guestFS struct {
	sys.UnimplementedFS
	in *instance
	i  int // of the mount
}

var _ sys.FS = (*guestFS)(nil)

func (g *guestFS) now() sys.FS { return g.in.call.mounts.list[g.i] }

// OpenFile opens a file for the call. wazero opens the root of a mount once and keeps it
// for as long as the instance lives (that open has no permissions); it gets a stand-in.
func (g *guestFS) OpenFile(path string, flag sys.Oflag, perm fs.FileMode) (sys.File, sys.Errno) {
	if path == "." && flag == sys.O_RDONLY && perm == 0 {
		return &preopen{fs: g}, 0
	}
	g.in.call.touchFiles()
	return g.now().OpenFile(path, flag, perm)
}

// Lstat, and what follows, do as the mount of the call does.
func (g *guestFS) Lstat(path string) (wasisys.Stat_t, sys.Errno) {
	g.in.call.touchFiles()
	return g.now().Lstat(path)
}

// Stat gives the status of a name.
func (g *guestFS) Stat(path string) (wasisys.Stat_t, sys.Errno) {
	g.in.call.touchFiles()
	return g.now().Stat(path)
}

// Mkdir makes a directory.
func (g *guestFS) Mkdir(path string, perm fs.FileMode) sys.Errno {
	g.in.call.touchFiles()
	return g.now().Mkdir(path, perm)
}

// Chmod changes permissions.
func (g *guestFS) Chmod(path string, perm fs.FileMode) sys.Errno {
	g.in.call.touchFiles()
	return g.now().Chmod(path, perm)
}

// Rename moves a name.
func (g *guestFS) Rename(from, to string) sys.Errno {
	g.in.call.touchFiles()
	return g.now().Rename(from, to)
}

// Rmdir removes a directory.
func (g *guestFS) Rmdir(path string) sys.Errno {
	g.in.call.touchFiles()
	return g.now().Rmdir(path)
}

// Unlink removes anything else.
func (g *guestFS) Unlink(path string) sys.Errno {
	g.in.call.touchFiles()
	return g.now().Unlink(path)
}

// Link makes a hard link.
func (g *guestFS) Link(from, to string) sys.Errno {
	g.in.call.touchFiles()
	return g.now().Link(from, to)
}

// Symlink makes a symbolic link.
func (g *guestFS) Symlink(from, to string) sys.Errno {
	g.in.call.touchFiles()
	return g.now().Symlink(from, to)
}

// Readlink reads one.
func (g *guestFS) Readlink(path string) (string, sys.Errno) {
	g.in.call.touchFiles()
	return g.now().Readlink(path)
}

// Utimens sets times.
func (g *guestFS) Utimens(path string, atim, mtim int64) sys.Errno {
	g.in.call.touchFiles()
	return g.now().Utimens(path, atim, mtim)
}

// preopen stands for the root of a mount in an instance. It opens the directory when
// something of it is asked for, once a call.
type preopen struct {
	sys.DirFile
	fs *guestFS
}

var _ sys.File = (*preopen)(nil)

// dir is the directory of the call.
func (p *preopen) dir() (sys.File, sys.Errno) {
	in := p.fs.in
	if f := in.preopens[p.fs.i]; f != nil {
		return f, 0
	}
	in.call.touchFiles()
	f, errno := p.fs.now().OpenFile(".", sys.O_RDONLY, 0)
	if errno == 0 {
		in.preopens[p.fs.i] = f
	}
	return f, errno
}

func (in *instance) openPreopens() (n int) {
	for _, f := range in.preopens {
		if f != nil {
			n++
		}
	}
	return n
}

func (in *instance) closePreopens() {
	for i, f := range in.preopens {
		if f != nil {
			_ = f.Close() // it was only read
			in.preopens[i] = nil
		}
	}
}

// Stat gives the status of the directory.
func (p *preopen) Stat() (wasisys.Stat_t, sys.Errno) { return p.fs.Stat(".") }

// Dev is its device.
func (p *preopen) Dev() (uint64, sys.Errno) {
	st, errno := p.Stat()
	return st.Dev, errno
}

// Ino is its inode.
func (p *preopen) Ino() (wasisys.Inode, sys.Errno) {
	st, errno := p.Stat()
	return st.Ino, errno
}

// IsDir says that it is a directory.
func (p *preopen) IsDir() (bool, sys.Errno) { return true, 0 }

// Seek goes back to its start.
func (p *preopen) Seek(offset offset, whence int) (int64, sys.Errno) {
	f, errno := p.dir()
	if errno != 0 {
		return 0, errno
	}
	return f.Seek(offset, whence)
}

// Readdir reads the next n entries.
func (p *preopen) Readdir(n int) ([]sys.Dirent, sys.Errno) {
	f, errno := p.dir()
	if errno != 0 {
		return nil, errno
	}
	return f.Readdir(n)
}

// Sync waits until it is on the disk.
func (p *preopen) Sync() sys.Errno {
	f, errno := p.dir()
	if errno != 0 {
		return errno
	}
	return f.Sync()
}

// Datasync is Sync.
func (p *preopen) Datasync() sys.Errno { return p.Sync() }

// Utimens sets its times.
func (p *preopen) Utimens(atim, mtim int64) sys.Errno { return p.fs.Utimens(".", atim, mtim) }

// Close has nothing to close: the directory is the call's.
func (p *preopen) Close() sys.Errno { return 0 }
