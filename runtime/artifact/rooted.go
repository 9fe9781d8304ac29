package artifact

import (
	"os"
	"time"

	"github.com/spf13/afero"
)

// rooted is an os.Root as afero.Fs: no name and no link leads out of it.
type rooted struct{ root *os.Root }

var _ afero.Fs = rooted{}

// Name names the kind of file system.
func (rooted) Name() string { return "os.Root" }

// Create makes or empties a file.
func (r rooted) Create(name string) (afero.File, error) {
	return r.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, fileMode)
}

// Open opens for reading.
func (r rooted) Open(name string) (afero.File, error) { return r.OpenFile(name, os.O_RDONLY, 0) }

// OpenFile opens with flags. The interface is nil after an error.
func (r rooted) OpenFile(name string, flag int, perm os.FileMode) (afero.File, error) {
	f, err := r.root.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Mkdir makes a folder.
func (r rooted) Mkdir(name string, perm os.FileMode) error { return r.root.Mkdir(name, perm) }

// MkdirAll makes a folder and those above it.
func (r rooted) MkdirAll(name string, perm os.FileMode) error { return r.root.MkdirAll(name, perm) }

// Remove removes a file or an empty folder.
func (r rooted) Remove(name string) error { return r.root.Remove(name) }

// RemoveAll removes a folder with what is in it.
func (r rooted) RemoveAll(name string) error { return r.root.RemoveAll(name) }

// Rename moves, replacing a file.
func (r rooted) Rename(from, to string) error { return r.root.Rename(from, to) }

// Stat describes a file.
func (r rooted) Stat(name string) (os.FileInfo, error) { return r.root.Stat(name) }

// Chmod sets permissions.
func (r rooted) Chmod(name string, mode os.FileMode) error { return r.root.Chmod(name, mode) }

// Chown sets the owner.
func (r rooted) Chown(name string, uid, gid int) error { return r.root.Chown(name, uid, gid) }

// Chtimes sets the times.
func (r rooted) Chtimes(name string, atime, mtime time.Time) error {
	return r.root.Chtimes(name, atime, mtime)
}
