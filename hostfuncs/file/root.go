package file

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/afero"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/fault"
)

const (
	fileMode   = 0o644
	folderMode = 0o755
)

// folder is config.root. It is opened for each call, so that a folder that is replaced
// or mounted later is found, and nothing has to be closed with the generation.
type folder struct{ path string }

func newFolder(b hostfuncs.Binding) (folder, error) {
	root, _ := b.Config["root"].(string)
	if root == "" {
		return folder{}, &hostfuncs.ConfigError{Attr: "root", Detail: "The folder is missing. Write root = \"../workspace\", for example."}
	}
	if !filepath.IsAbs(root) {
		root = filepath.Join(b.Project, root)
	}
	if info, err := os.Stat(root); err == nil && !info.IsDir() {
		return folder{}, &hostfuncs.ConfigError{Attr: "root", Detail: "This is a file. The root of file functions must be a folder."}
	}
	return folder{root}, nil
}

func (f folder) open() (tree, error) {
	if err := os.MkdirAll(f.path, folderMode); err != nil {
		return tree{}, fault.Wrap(fault.Unavailable, err, "the root folder of this tool could not be made")
	}
	root, err := os.OpenRoot(f.path)
	if err != nil {
		return tree{}, fault.Wrap(fault.Unavailable, err, "the root folder of this tool could not be opened")
	}
	return tree{Fs: rooted{root}, close: root.Close}, nil
}

// tree is the opened root.
type tree struct {
	afero.Fs
	close func() error
}

// Close releases the root.
func (t tree) Close() error { return t.close() }

// locate makes a model's path relative to the root, with slashes. It is for messages
// and comparison: what keeps accesses inside is the root, not this.
func locate(p string) (string, error) {
	if strings.ContainsRune(p, 0) {
		return "", fault.New(fault.Invalid, "path: a path has no NUL character")
	}
	slashed := filepath.ToSlash(p)
	if path.IsAbs(slashed) || filepath.IsAbs(p) {
		return "", fault.New(fault.Invalid, "path: %.200q is absolute; paths are relative to the root of this tool, for example notes/todo.md, and . is the root", p)
	}
	clean := path.Clean(slashed)
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return "", fault.New(fault.Denied, "path: %.200q leaves the root of this tool", p)
	}
	return clean, nil
}

// openFile opens a regular file for reading.
func (t tree) openFile(p string) (afero.File, fs.FileInfo, error) {
	f, err := t.OpenFile(p, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, nil, t.explain(err, p)
	}
	info, err := f.Stat()
	if err == nil {
		err = regular(info, p)
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, t.explain(err, p)
	}
	return f, info, nil
}

func regular(info fs.FileInfo, p string) error {
	switch {
	case info.IsDir():
		return fault.New(fault.Invalid, "%q is a folder, not a file", p)
	case !info.Mode().IsRegular():
		return fault.New(fault.Denied, "%q is not a regular file (%s); pipes, sockets and devices are refused", p, kind(info))
	}
	return nil
}

func kind(info fs.FileInfo) string {
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return "file"
	case mode.IsDir():
		return "dir"
	case mode&fs.ModeSymlink != 0:
		return "link"
	}
	return "other"
}

// explain turns an error of the file system into one a model can act on. The path in
// it is the one the model gave; the system's may be absolute.
func (t tree) explain(err error, p string) error {
	var known *fault.Error
	cause := err
	if onPath, ok := errors.AsType[*fs.PathError](err); ok {
		cause = onPath.Err
	}
	if onLink, ok := errors.AsType[*os.LinkError](err); ok {
		cause = onLink.Err
	}
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, fs.ErrNotExist):
		return fault.Wrap(fault.NotFound, err, "%q does not exist%s", p, t.suggest(p))
	case errors.Is(err, fs.ErrExist):
		return fault.Wrap(fault.Exists, err, "%q exists already", p)
	case errors.Is(err, fs.ErrPermission):
		return fault.Wrap(fault.Denied, err, "%q: permission denied", p)
	case strings.Contains(cause.Error(), "escapes"): // os has no name for it
		return fault.Wrap(fault.Denied, err, "%q leads out of the root of this tool through a symbolic link", p)
	}
	return fault.Wrap(fault.Unavailable, err, "%q: %s", p, cause.Error())
}

// rooted is an os.Root as afero.Fs: no name and no link leads out of it.
type rooted struct{ root *os.Root }

var (
	_ afero.Fs      = rooted{}
	_ afero.Lstater = rooted{}
)

// Name names the kind of file system.
func (rooted) Name() string { return "os.Root" }

// Create makes or empties a file.
func (r rooted) Create(name string) (afero.File, error) {
	return r.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, fileMode)
}

// Open opens for reading.
func (r rooted) Open(name string) (afero.File, error) { return r.OpenFile(name, os.O_RDONLY, 0) }

// OpenFile opens with flags. After an error the interface is nil, not a nil *os.File.
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

// Stat describes what a name leads to.
func (r rooted) Stat(name string) (os.FileInfo, error) { return r.root.Stat(name) }

// LstatIfPossible describes the name itself, which may be a link; it always can.
func (r rooted) LstatIfPossible(name string) (os.FileInfo, bool, error) {
	info, err := r.root.Lstat(name)
	return info, true, err
}

// Chmod sets permissions.
func (r rooted) Chmod(name string, mode os.FileMode) error { return r.root.Chmod(name, mode) }

// Chown sets the owner.
func (r rooted) Chown(name string, uid, gid int) error { return r.root.Chown(name, uid, gid) }

// Chtimes sets the times.
func (r rooted) Chtimes(name string, atime, mtime time.Time) error {
	return r.root.Chtimes(name, atime, mtime)
}
