package wasmtools

import (
	"io/fs"
	"time"

	"github.com/tetratelabs/wazero/experimental/sys"
	wasisys "github.com/tetratelabs/wazero/sys"
)

// Lstat gives the status of a name, which may be a link.
func (m *mountFS) Lstat(path string) (wasisys.Stat_t, sys.Errno) {
	return m.stat(path, m.root.Lstat)
}

// Stat gives the status of what a name leads to, within the root.
func (m *mountFS) Stat(path string) (wasisys.Stat_t, sys.Errno) {
	return m.stat(path, m.root.Stat)
}

func (m *mountFS) stat(path string, how func(string) (fs.FileInfo, error)) (wasisys.Stat_t, sys.Errno) {
	fi, err := how(local(path))
	if err != nil {
		return wasisys.Stat_t{}, m.errno(err, "looking at", path)
	}
	return wasisys.NewStat_t(fi), 0
}

// Mkdir makes a directory.
func (m *mountFS) Mkdir(path string, perm fs.FileMode) sys.Errno {
	if no := m.mayWrite(true, "making", path); no != 0 {
		return no
	}
	return m.errno(m.root.Mkdir(local(path), perm.Perm()), "making", path)
}

// Rename moves a name within the root.
func (m *mountFS) Rename(from, to string) sys.Errno {
	if no := m.mayWrite(true, "moving", from); no != 0 {
		return no
	}
	return m.errno(m.root.Rename(local(from), local(to)), "moving", from)
}

// Rmdir removes an empty directory.
func (m *mountFS) Rmdir(path string) sys.Errno { return m.remove(path, true) }

// Unlink removes anything else.
func (m *mountFS) Unlink(path string) sys.Errno { return m.remove(path, false) }

func (m *mountFS) remove(path string, dir bool) sys.Errno {
	if no := m.mayWrite(true, "removing", path); no != 0 {
		return no
	}
	st, err := m.root.Lstat(local(path))
	switch {
	case err != nil:
		return m.errno(err, "removing", path)
	case dir && !st.IsDir():
		return sys.ENOTDIR
	case !dir && st.IsDir():
		return sys.EISDIR
	}
	return m.errno(m.root.Remove(local(path)), "removing", path)
}

// Link is refused, as every kind of link is.
func (m *mountFS) Link(_, to string) sys.Errno {
	return m.refused(sys.EPERM, "making a link at", to, "where links are refused")
}

// Symlink is refused.
func (m *mountFS) Symlink(_, to string) sys.Errno {
	return m.refused(sys.EPERM, "making a link at", to, "where links are refused")
}

// Readlink is refused: targets are paths of the host.
func (m *mountFS) Readlink(path string) (string, sys.Errno) {
	return "", m.refused(sys.EPERM, "reading the link", path, "where links are refused")
}

// Chmod is refused.
func (m *mountFS) Chmod(path string, _ fs.FileMode) sys.Errno {
	return m.refused(sys.EPERM, "changing the permissions of", path, "which stay as they are")
}

// Utimens sets times.
func (m *mountFS) Utimens(path string, atim, mtim int64) sys.Errno {
	if no := m.mayWrite(true, "setting the times of", path); no != 0 {
		return no
	}
	return m.errno(m.root.Chtimes(local(path), moment(atim), moment(mtim)), "setting the times of", path)
}

// moment is the time of ns; the zero time leaves one as it is.
func moment(ns int64) time.Time {
	if ns == sys.UTIME_OMIT {
		return time.Time{}
	}
	return time.Unix(0, ns)
}
