package reload

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"slices"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
)

// handed is a project that was handed over as files, in the place of the server's. What
// is outside of the project is the server's. It implements config.Source.
type handed struct {
	r     *Reloader
	live  *live
	files map[string][]byte // by path
	paths []string          // sorted
}

// given makes a source of files by name.
func given(r *Reloader, l *live, files map[string][]byte) (*handed, error) {
	if len(files) > maxPlanFiles {
		return nil, fault.New(fault.TooLarge, "%d files are too many for one plan: the limit is %d", len(files), maxPlanFiles)
	}
	h := &handed{r: r, live: l, files: make(map[string][]byte, len(files))}
	size := 0
	for name, content := range files {
		if !fs.ValidPath(name) || name == "." {
			return nil, fault.New(fault.Invalid, "%q is no path inside a project: it is relative, with slashes, and has no . or ..", fault.Cut(name, 200))
		}
		if size += len(content); len(content) > maxInput || size > maxPlanBytes {
			return nil, fault.New(fault.TooLarge, "the files are too large for one plan: the limit is %d MiB, and %d MiB for one", maxPlanBytes>>20, maxInput>>20)
		}
		path := pathOf(name, r.o.Load.Paths.Project)
		h.files[path] = content
		h.paths = append(h.paths, path)
	}
	slices.Sort(h.paths)
	return h, nil
}

func (h *handed) inside(path string) bool {
	return path == h.r.o.Load.Paths.Project || under(path, h.r.o.Load.Paths.Project)
}

// ours says that a path outside of what was handed over is one that the server reads
// already.
func (h *handed) ours(path string) bool {
	if slices.Contains(h.r.o.Load.VarFiles, path) {
		return true
	}
	if h.inside(path) {
		return false
	}
	_, live := h.live.content(path)
	return live || underAny(path, h.r.o.Load.Paths.ToolsDirs)
}

// examine gives a file as a look at the disk does.
func (h *handed) examine(path string) *file {
	content, ok := h.files[path]
	switch {
	case ok:
		sum := sha256.Sum256(content)
		return &file{content: content, digest: hex.EncodeToString(sum[:])}
	case h.ours(path):
		return h.r.disk.examine(path, nil)
	case h.inside(path):
		return &file{err: fs.ErrNotExist}
	}
	return &file{err: fmt.Errorf("%s is outside of the project, and the server does not read it yet: a plan of other files does not either", path)}
}

// ReadFile is examine for whoever does not look.
func (h *handed) ReadFile(path string) ([]byte, error) {
	f := h.examine(path)
	return f.content, f.err
}

// Files lists what was handed over; a directory outside of the project only if it is one
// that the server was told to read.
func (h *handed) Files(dir string) ([]string, error) {
	if !h.inside(dir) {
		if slices.Contains(h.r.o.Load.Paths.ToolsDirs, dir) {
			return h.r.disk.source.Files(dir)
		}
		return nil, fs.ErrNotExist
	}
	var below []string
	for _, path := range h.paths {
		if under(path, dir) {
			below = append(below, path)
		}
	}
	if len(below) == 0 && dir != h.r.o.Load.Paths.ConfigDir {
		return nil, fs.ErrNotExist
	}
	return config.Listed(dir, below), nil
}

// Resolve gives paths inside the project as they are: there are no links among them.
func (h *handed) Resolve(path string) (string, error) {
	if h.inside(path) {
		return path, nil
	}
	return h.r.disk.source.Resolve(path)
}

var _ config.Source = (*handed)(nil)
