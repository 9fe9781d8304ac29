package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/config/funcs"
	"github.com/hermes-runtime/hermes/runtime/fault"
)

// Find says which directories belong to configDir: if it has a folder "agents", it is
// the project and that folder is read; else if it is named "agents" itself, or has a
// sibling "tools.d", its parent is the project; else it is both. ToolsDirs is left nil:
// the load decides. Paths are absolute; links are not resolved. The error is a
// *fault.Error of kind Invalid.
func Find(configDir string) (Paths, error) {
	dir, err := filepath.Abs(configDir)
	if err != nil {
		return Paths{}, fault.Wrap(fault.Invalid, err, "the configuration directory %q has no absolute path", configDir)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return Paths{}, fault.Wrap(fault.Invalid, err, "there is no configuration directory %q; name one with --config, or make one with: hermes init", configDir)
	}
	p := Paths{Project: dir, ConfigDir: dir}
	parent := filepath.Dir(dir)
	switch {
	case isDir(filepath.Join(dir, "agents")):
		p.ConfigDir = filepath.Join(dir, "agents")
	case filepath.Base(dir) == "agents", isDir(filepath.Join(parent, "tools.d")):
		p.Project = parent
	}
	p.State = filepath.Join(p.Project, "state")
	return p, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Disk is the [Source] over the file system of the machine. Its zero value is ready.
type Disk struct{}

var _ Source = Disk{}

// DirSource gives the [Source] over the file system of the machine.
func DirSource() Source { return Disk{} }

// maxRead bounds one file in bytes; the largest are modules, whose host bounds them lower.
const maxRead = 256 << 20

// ReadFile reads a regular file of at most 256 MiB.
func (Disk) ReadFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxRead {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("it is larger than " + ShowSize(maxRead))}
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("it is not a regular file")}
	}
	return os.ReadFile(path) //nolint:gosec // what may be read is checked by the load
}

// maxDepth bounds directories below each other.
const maxDepth = 32

// DirError says why a directory below the one that was to be listed could not be.
type DirError struct {
	Dir string
	Err error
}

// Error gives the reason.
func (e *DirError) Error() string { return e.Err.Error() }

// Unwrap gives it too.
func (e *DirError) Unwrap() error { return e.Err }

// Files lists the *.hcl files below dir. Links to files and directories are followed; a
// directory that contains itself through links is an error. Where directories below dir
// cannot be listed the rest is, and the error joins a *[DirError] for each.
func (Disk) Files(dir string) ([]string, error) {
	w := walk{}
	if err := w.dir(dir, nil); err != nil {
		return nil, err
	}
	slices.Sort(w.found)
	return w.found, errors.Join(w.failed...)
}

type walk struct {
	found  []string
	failed []error
}

func (w *walk) dir(dir string, above []fs.FileInfo) error {
	self, err := os.Stat(dir)
	if err != nil {
		return err
	}
	for _, a := range above {
		if os.SameFile(a, self) {
			return &funcs.Error{Summary: "Cyclic link", Detail: fmt.Sprintf("The directory %s is a link to one that contains it. Remove the link.", dir)}
		}
	}
	if len(above) >= maxDepth {
		return &funcs.Error{Summary: "Invalid directory", Detail: fmt.Sprintf("The directory %s is nested deeper than %d levels.", dir, maxDepth)}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		w.entry(filepath.Join(dir, e.Name()), e, append(above, self))
	}
	return nil
}

// entry takes what has the name of a declaration even if it is no file that can be read:
// that is then said of the one file, and does not hold up the others.
func (w *walk) entry(path string, e fs.DirEntry, above []fs.FileInfo) {
	if skipped(e.Name()) {
		return
	}
	isDir := e.IsDir()
	if e.Type()&fs.ModeSymlink != 0 {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) { // a link to nothing, as editors leave for locks
			return
		}
		isDir = err == nil && info.IsDir()
	}
	switch {
	case isDir:
		if err := w.dir(path, above); err != nil && !errors.Is(err, fs.ErrNotExist) { // removed since it was listed
			w.failed = append(w.failed, &DirError{path, err})
		}
	case configFile(e.Name()):
		w.found = append(w.found, path)
	}
}

// Listed gives those of some paths below dir that [Source.Files] lists, in their order,
// for a source that has no file system.
func Listed(dir string, paths []string) []string {
	var out []string
	for _, path := range paths {
		rel, err := filepath.Rel(dir, path)
		if err != nil || !configFile(rel) || slices.ContainsFunc(strings.Split(rel, string(filepath.Separator)), skipped) {
			continue
		}
		out = append(out, path)
	}
	return out
}

// skipped says whether the language ignores a name: hidden, switched off, or left behind
// by an editor.
func skipped(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || strings.HasSuffix(name, "~") ||
		strings.HasSuffix(name, ".swp") || (strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#"))
}

func configFile(name string) bool {
	return strings.HasSuffix(name, ".hcl") && !strings.HasSuffix(name, ".test.hcl")
}

// Resolve follows links. Of a path that does not exist it resolves the deepest directory
// that does.
func (Disk) Resolve(path string) (string, error) {
	path = filepath.Clean(path)
	rest := ""
	for {
		real, err := filepath.EvalSymlinks(path)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		// A link to nothing leads where it says, whether or not something is there.
		if target, lerr := os.Readlink(path); lerr == nil {
			if !filepath.IsAbs(target) {
				target = filepath.Join(filepath.Dir(path), target)
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return "", err
			}
			real, err := Disk{}.Resolve(target)
			return filepath.Join(real, rest), err
		}
		parent := filepath.Dir(path)
		if !errors.Is(err, fs.ErrNotExist) || parent == path {
			return "", err
		}
		rest, path = filepath.Join(filepath.Base(path), rest), parent
	}
}
