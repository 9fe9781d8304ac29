package file

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/afero"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/rooted"
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
	return tree{Fs: rooted.New(root), close: root.Close}, nil
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
	case errors.Is(err, syscall.ENOTDIR):
		return fault.Wrap(fault.Invalid, err, "%q: a folder on the way is a file", p)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return fault.Wrap(fault.Invalid, err, "%q...: the name is too long", fault.Cut(p, 60))
	case errors.Is(err, syscall.ELOOP):
		return fault.Wrap(fault.Invalid, err, "%q is a symbolic link that leads to itself", p)
	case errors.Is(err, syscall.ENXIO): // of a socket, which cannot even be opened
		return fault.Wrap(fault.Denied, err, "%q is not a regular file; pipes, sockets and devices are refused", p)
	case strings.Contains(cause.Error(), "escapes"): // os has no name for it
		return fault.Wrap(fault.Denied, err, "%q leads out of the root of this tool through a symbolic link", p)
	}
	return fault.Wrap(fault.Unavailable, err, "%q: %s", p, cause.Error())
}
