package wasmtools

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/tetratelabs/wazero/experimental/sys"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// mounts are the granted directories of one call, and the files it has open in them.
type mounts struct {
	list []*mountFS
	open map[*rootFile]struct{}
	max  int
	look func() // ends a guest whose call has ended
	// refuse makes the record of what was refused.
	refuse func(format string, args ...any)
}

// reason is an error of the system without the path in it.
func reason(err error) string {
	if no, ok := errors.AsType[syscall.Errno](err); ok {
		return no.Error()
	}
	return "it is not a directory that can be read, or it leads out of one that tools may write to"
}

// mount opens the granted directories.
func (c *call) mount() error {
	c.mounts = mounts{open: map[*rootFile]struct{}{}, max: c.tool.limits.OpenFiles, look: c.look, refuse: func(format string, args ...any) {
		c.refuse(filesGrant, format, args...)
	}}
	for _, g := range c.tool.files {
		root, err := c.tool.rt.openMount(g)
		if err != nil {
			return fault.Wrap(fault.Unavailable, err, "the directory %s of the tool cannot be opened: %s", g.Mount, reason(err))
		}
		c.mounts.list = append(c.mounts.list, &mountFS{root: root, at: g.Mount, writable: g.Mode == ReadWrite, all: &c.mounts})
	}
	return nil
}

// close closes all that is still open.
func (m *mounts) close() {
	for f := range m.open {
		_ = f.f.Close() // the guest left it; there is nobody to tell
	}
	m.open = nil
	for _, f := range m.list {
		_ = f.root.Close()
	}
	m.list = nil
}

// mountFS is a directory as a guest sees it. Everything goes through os.Root, so no path
// and no symbolic link leads out of it. Guests can neither make links nor read where
// links point.
type mountFS struct {
	sys.UnimplementedFS
	root     *os.Root
	at       string
	writable bool
	all      *mounts
}

var _ sys.FS = (*mountFS)(nil)

// local is the name below the root of a path of wazero's, which may start with a slash.
func local(path string) string {
	path = strings.Trim(path, "/")
	if path == "" {
		return "."
	}
	return path
}

const writeFlags = sys.O_RDWR | sys.O_WRONLY | sys.O_APPEND | sys.O_CREAT | sys.O_TRUNC

// OpenFile opens a regular file or a directory; pipes, sockets and devices are refused,
// since reading them could wait for ever.
func (m *mountFS) OpenFile(path string, flag sys.Oflag, perm fs.FileMode) (sys.File, sys.Errno) {
	name := local(path)
	if no := m.mayWrite(flag&writeFlags != 0, "opening", path); no != 0 {
		return nil, no
	}
	if len(m.all.open) >= m.all.max {
		return nil, sys.EAGAIN // of the numbers that wazero can pass on, the nearest to EMFILE
	}
	if flag&sys.O_NOFOLLOW != 0 {
		if st, err := m.root.Lstat(name); err == nil && st.Mode()&fs.ModeSymlink != 0 {
			return nil, sys.ELOOP
		}
	}
	f, err := m.root.OpenFile(name, osFlags(flag), perm.Perm())
	if err != nil {
		return nil, m.errno(err, "opening", path)
	}
	rf := &rootFile{fs: m, name: name, f: f, flag: flag}
	if no := rf.accept(strings.HasSuffix(path, "/")); no != 0 {
		_ = f.Close()
		if no == sys.EACCES {
			return nil, m.refused(no, "opening", path, "which is neither a regular file nor a directory")
		}
		return nil, no
	}
	m.all.open[rf] = struct{}{}
	return rf, 0
}

// osFlags never blocks: a pipe must be opened to be refused.
func osFlags(flag sys.Oflag) int {
	out := os.O_RDONLY | openNonblock
	switch {
	case flag&sys.O_RDWR != 0:
		out = os.O_RDWR | openNonblock
	case flag&sys.O_WRONLY != 0:
		out = os.O_WRONLY | openNonblock
	}
	for _, x := range []struct {
		from sys.Oflag
		to   int
	}{
		{sys.O_APPEND, os.O_APPEND}, {sys.O_CREAT, os.O_CREATE}, {sys.O_EXCL, os.O_EXCL},
		{sys.O_TRUNC, os.O_TRUNC}, {sys.O_SYNC, os.O_SYNC}, {sys.O_DSYNC, os.O_SYNC}, {sys.O_RSYNC, os.O_SYNC},
	} {
		if flag&x.from != 0 {
			out |= x.to
		}
	}
	return out
}

// refused makes the record of an operation that is answered with no.
func (m *mountFS) refused(no sys.Errno, doing, path, why string) sys.Errno {
	m.all.refuse("%s %.200q below %s, %s", doing, path, m.at, why)
	return no
}

// mayWrite holds an operation that writes against the mode of the grant.
func (m *mountFS) mayWrite(writes bool, doing, path string) sys.Errno {
	if !writes || m.writable {
		return 0
	}
	return m.refused(sys.EROFS, doing, path, "which is granted for reading")
}

// errno translates the outcome of an operation of os.Root. That a path leaves the root has
// no number of its own there; it is refused.
func (m *mountFS) errno(err error, doing, path string) sys.Errno {
	if err == nil {
		return 0
	}
	if _, ok := errors.AsType[syscall.Errno](err); !ok && sys.UnwrapOSError(err) == sys.EIO {
		return m.refused(sys.EPERM, doing, path, "which leads out of it")
	}
	return errno(err)
}

// errno translates errors of open files.
func errno(err error) sys.Errno { return sys.UnwrapOSError(err) }
