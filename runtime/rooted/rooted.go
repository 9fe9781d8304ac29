// Package rooted is a folder as an afero file system that nothing leads out of: neither
// "..", nor an absolute name, nor a symbolic link, whoever made it.
//
// afero's own BasePathFs compares strings and follows links; this one stands on
// os.Root. Policies (sizes, kinds of files) are the callers'.
package rooted

import (
	"os"
	"time"

	"github.com/spf13/afero"
)

// fileMode is that of files made by Create, which takes none.
const fileMode = 0o600

// FS is a folder as afero.Fs: no name and no link leads out of it. The caller closes
// the root.
type FS struct{ root *os.Root }

var (
	_ afero.Fs      = FS{}
	_ afero.Lstater = FS{}
)

// New makes the file system of a folder.
func New(root *os.Root) FS { return FS{root} }

// Name names the kind of file system.
func (FS) Name() string { return "os.Root" }

// Create makes or empties a file.
func (r FS) Create(name string) (afero.File, error) {
	return r.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, fileMode)
}

// Open opens for reading.
func (r FS) Open(name string) (afero.File, error) { return r.OpenFile(name, os.O_RDONLY, 0) }

// OpenFile opens with flags. After an error the interface is nil, not a nil *os.File.
func (r FS) OpenFile(name string, flag int, perm os.FileMode) (afero.File, error) {
	f, err := r.root.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Mkdir makes a folder.
func (r FS) Mkdir(name string, perm os.FileMode) error { return r.root.Mkdir(name, perm) }

// MkdirAll makes a folder and those above it.
func (r FS) MkdirAll(name string, perm os.FileMode) error { return r.root.MkdirAll(name, perm) }

// Remove removes a file or an empty folder.
func (r FS) Remove(name string) error { return r.root.Remove(name) }

// RemoveAll removes a folder with what is in it.
func (r FS) RemoveAll(name string) error { return r.root.RemoveAll(name) }

// Rename moves, replacing a file.
func (r FS) Rename(from, to string) error { return r.root.Rename(from, to) }

// Stat describes what a name leads to.
func (r FS) Stat(name string) (os.FileInfo, error) { return r.root.Stat(name) }

// LstatIfPossible describes the name itself, which may be a link; it always can.
func (r FS) LstatIfPossible(name string) (os.FileInfo, bool, error) {
	info, err := r.root.Lstat(name)
	return info, true, err
}

// Chmod sets permissions.
func (r FS) Chmod(name string, mode os.FileMode) error { return r.root.Chmod(name, mode) }

// Chown sets the owner.
func (r FS) Chown(name string, uid, gid int) error { return r.root.Chown(name, uid, gid) }

// Chtimes sets the times.
func (r FS) Chtimes(name string, atime, mtime time.Time) error {
	return r.root.Chtimes(name, atime, mtime)
}
