package wasmtools

import (
	"io/fs"
	"time"

	"github.com/tetratelabs/wazero/experimental/sys"
	wasisys "github.com/tetratelabs/wazero/sys"
)

// Lstat gives the status of a name, which may be a link.
func (m *mountFS) Lstat(path string) (wasisys.Stat_t, sys.Errno) {
	return stat(m.root.Lstat(local(path)))
}

// Stat gives the status of what a name leads to, within the root.
func (m *mountFS) Stat(path string) (wasisys.Stat_t, sys.Errno) {
	return stat(m.root.Stat(local(path)))
}

func stat(fi fs.FileInfo, err error) (wasisys.Stat_t, sys.Errno) {
	if err != nil {
		return wasisys.Stat_t{}, errno(err)
	}
	return wasisys.NewStat_t(fi), 0
}

// Mkdir makes a directory.
func (m *mountFS) Mkdir(path string, perm fs.FileMode) sys.Errno {
	if !m.writable {
		return sys.EROFS
	}
	return errno(m.root.Mkdir(local(path), perm.Perm()))
}

// Rename moves a name within the root.
func (m *mountFS) Rename(from, to string) sys.Errno {
	if !m.writable {
		return sys.EROFS
	}
	return errno(m.root.Rename(local(from), local(to)))
}

// Rmdir removes an empty directory.
func (m *mountFS) Rmdir(path string) sys.Errno { return m.remove(path, true) }

// Unlink removes anything else.
func (m *mountFS) Unlink(path string) sys.Errno { return m.remove(path, false) }

func (m *mountFS) remove(path string, dir bool) sys.Errno {
	if !m.writable {
		return sys.EROFS
	}
	st, err := m.root.Lstat(local(path))
	switch {
	case err != nil:
		return errno(err)
	case dir && !st.IsDir():
		return sys.ENOTDIR
	case !dir && st.IsDir():
		return sys.EISDIR
	}
	return errno(m.root.Remove(local(path)))
}

// Link is refused, as every kind of link is.
func (m *mountFS) Link(_, _ string) sys.Errno { return sys.EPERM }

// Symlink is refused.
func (m *mountFS) Symlink(_, _ string) sys.Errno { return sys.EPERM }

// Readlink is refused: targets are paths of the host.
func (m *mountFS) Readlink(string) (string, sys.Errno) { return "", sys.EPERM }

// Chmod is refused.
func (m *mountFS) Chmod(string, fs.FileMode) sys.Errno { return sys.EPERM }

// Utimens sets times.
func (m *mountFS) Utimens(path string, atim, mtim int64) sys.Errno {
	if !m.writable {
		return sys.EROFS
	}
	return errno(m.root.Chtimes(local(path), moment(atim), moment(mtim)))
}

// moment is the time of ns; the zero time leaves one as it is.
func moment(ns int64) time.Time {
	if ns == sys.UTIME_OMIT {
		return time.Time{}
	}
	return time.Unix(0, ns)
}
