package wasmtools

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/tetratelabs/wazero/experimental/sys"
	wasisys "github.com/tetratelabs/wazero/sys"
)

// rootFile is an open file or directory of a mount.
type rootFile struct {
	fs   *mountFS
	name string
	f    *os.File
	flag sys.Oflag
	st   wasisys.Stat_t // when it was opened
}

var _ sys.File = (*rootFile)(nil)

// accept looks at what was opened; the directory may be wanted by flag or by name.
func (r *rootFile) accept(slash bool) sys.Errno {
	fi, err := r.f.Stat()
	if err != nil {
		return errno(err)
	}
	r.st = wasisys.NewStat_t(fi)
	switch {
	case fi.IsDir():
		return 0
	case r.flag&sys.O_DIRECTORY != 0 || slash:
		return sys.ENOTDIR
	case !fi.Mode().IsRegular():
		return sys.EACCES
	}
	return 0
}

func (r *rootFile) dir() bool { return r.st.Mode.IsDir() }

// Dev is the device.
func (r *rootFile) Dev() (uint64, sys.Errno) { return r.st.Dev, 0 }

// Ino is the inode.
func (r *rootFile) Ino() (wasisys.Inode, sys.Errno) { return r.st.Ino, 0 }

// IsDir says whether it is a directory.
func (r *rootFile) IsDir() (bool, sys.Errno) { return r.dir(), 0 }

// IsAppend says whether writes go to the end.
func (r *rootFile) IsAppend() bool { return r.flag&sys.O_APPEND != 0 }

// SetAppend can only confirm how the file was opened: appending is done by the system.
func (r *rootFile) SetAppend(enable bool) sys.Errno {
	if enable != r.IsAppend() {
		return sys.ENOSYS
	}
	return 0
}

// Stat gives the status now.
func (r *rootFile) Stat() (wasisys.Stat_t, sys.Errno) {
	fi, err := r.f.Stat()
	if err != nil {
		return wasisys.Stat_t{}, errno(err)
	}
	return wasisys.NewStat_t(fi), 0
}

// Read reads on; 0 bytes are the end.
func (r *rootFile) Read(buf []byte) (int, sys.Errno) {
	if r.dir() {
		return 0, sys.EISDIR
	}
	r.fs.all.look()
	n, err := r.f.Read(buf[:min(len(buf), chunk)])
	return n, errno(err)
}

// chunk is what is read or written without a look at the call, in bytes. A guest can ask
// for many times its memory at once.
const chunk = 8 << 20

// pieces writes buf a chunk at a time.
func (r *rootFile) pieces(buf []byte, write func(b []byte, at int) (int, error)) (int, sys.Errno) {
	done := 0
	for {
		r.fs.all.look()
		n, err := write(buf[done:min(len(buf), done+chunk)], done)
		if done += n; err != nil || done == len(buf) {
			return done, errno(err)
		}
	}
}

// Pread reads at an offset.
func (r *rootFile) Pread(buf []byte, off int64) (int, sys.Errno) {
	switch {
	case r.dir():
		return 0, sys.EISDIR
	case off < 0:
		return 0, sys.EINVAL
	}
	r.fs.all.look()
	n, err := r.f.ReadAt(buf[:min(len(buf), chunk)], off)
	return n, errno(err)
}

// offset is an int64 under a name of its own: vet takes a Seek of int64 and int for a
// botched io.Seeker, and this one is wazero's.
type offset = int64

// Seek moves; a directory can only go back to its start.
func (r *rootFile) Seek(offset offset, whence int) (int64, sys.Errno) {
	if r.dir() && (offset != 0 || whence != io.SeekStart) {
		return 0, sys.EISDIR
	}
	if whence < io.SeekStart || whence > io.SeekEnd {
		return 0, sys.EINVAL
	}
	n, err := r.f.Seek(offset, whence)
	return n, errno(err)
}

// Readdir reads the next n entries, all with n <= 0. Fewer are the end.
func (r *rootFile) Readdir(n int) ([]sys.Dirent, sys.Errno) {
	if !r.dir() {
		return nil, sys.ENOTDIR
	}
	entries, err := r.f.ReadDir(n)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, errno(err)
	}
	out := make([]sys.Dirent, 0, len(entries))
	for _, e := range entries {
		out = append(out, sys.Dirent{Name: e.Name(), Type: e.Type() & fs.ModeType})
	}
	return out, 0
}

// writable says whether it may be written to.
func (r *rootFile) writable() sys.Errno {
	switch {
	case r.dir():
		return sys.EISDIR
	case r.flag&(sys.O_RDWR|sys.O_WRONLY) == 0:
		return sys.EBADF
	}
	return 0
}

// Write writes on.
func (r *rootFile) Write(buf []byte) (int, sys.Errno) {
	if no := r.writable(); no != 0 {
		return 0, no
	}
	return r.pieces(buf, func(b []byte, _ int) (int, error) { return r.f.Write(b) })
}

// Pwrite writes at an offset.
func (r *rootFile) Pwrite(buf []byte, off int64) (int, sys.Errno) {
	if no := r.writable(); no != 0 {
		return 0, no
	}
	if off < 0 || r.IsAppend() {
		return 0, sys.EINVAL
	}
	return r.pieces(buf, func(b []byte, at int) (int, error) { return r.f.WriteAt(b, off+int64(at)) })
}

// Truncate sets the size.
func (r *rootFile) Truncate(size int64) sys.Errno {
	if no := r.writable(); no != 0 {
		return no
	}
	if size < 0 {
		return sys.EINVAL
	}
	return errno(r.f.Truncate(size))
}

// Sync waits until the file is on the disk.
func (r *rootFile) Sync() sys.Errno { return errno(r.f.Sync()) }

// Datasync is Sync.
func (r *rootFile) Datasync() sys.Errno { return r.Sync() }

// Utimens sets the times of the name it was opened by.
func (r *rootFile) Utimens(atim, mtim int64) sys.Errno { return r.fs.Utimens(r.name, atim, mtim) }

// Close closes it, once.
func (r *rootFile) Close() sys.Errno {
	if _, open := r.fs.all.open[r]; !open {
		return 0
	}
	delete(r.fs.all.open, r)
	return errno(r.f.Close())
}
