package wasmtools

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// writable counts the directories that tools may write to. A directory that is granted
// inside of one can be replaced by a guest that has the outer: by moving a symbolic link,
// which lay there and leads anywhere, to its place. So it is opened from the outer, which
// no link leads out of.
type writable struct {
	mu   sync.Mutex // guards dirs
	dirs map[string]int
}

// add counts the directories of a tool that begins (n is 1) or ends (-1).
func (w *writable) add(files []FilesGrant, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range files {
		if f.Mode != ReadWrite {
			continue
		}
		dir := filepath.Clean(f.Path)
		if w.dirs[dir] += n; w.dirs[dir] == 0 {
			delete(w.dirs, dir)
		}
	}
}

// around splits a path at the outermost directory that tools may write to and that the
// path lies in. Without one, dir is empty.
func (w *writable) around(path string) (dir, rest string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	path = filepath.Clean(path)
	for d := range w.dirs {
		below, ok := strings.CutPrefix(path, strings.TrimSuffix(d, string(filepath.Separator))+string(filepath.Separator))
		if ok && below != "" && (dir == "" || len(d) < len(dir)) {
			dir, rest = d, below
		}
	}
	return dir, rest
}

// openMount opens a granted directory. It is opened for every call, so that a directory
// that was replaced is seen, and confined from then on by its handle.
func (r *Runtime) openMount(g FilesGrant) (*os.Root, error) {
	dir, rest := r.writable.around(g.Path)
	if dir == "" {
		return os.OpenRoot(g.Path)
	}
	outer, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	inner, err := outer.OpenRoot(rest)
	if closing := outer.Close(); err == nil && closing != nil {
		return nil, fmt.Errorf("closing %s: %w", dir, closing)
	}
	return inner, err
}
