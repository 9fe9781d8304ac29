package reload

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// maxLinks bounds the links followed on the way to one path.
const maxLinks = 40

// names says which entries of a watched directory matter; nil: all.
type names map[string]bool

// places are the directories whose entries decide what a configuration is read from,
// by real path, so that a directory reached in two ways is watched once.
type places map[string]names

// entry notes that what happens to one entry of a directory matters.
func (p places) entry(dir, name string) {
	if n, ok := p[dir]; !ok {
		p[dir] = names{name: true}
	} else if n != nil {
		n[name] = true
	}
}

// path notes all that decides what path means: for each link on the way the
// directory it stands in, and in the end the directory that holds the file, or, of one
// that is not there, the deepest that exists.
func (p places) path(path string) {
	at, rest := string(filepath.Separator), parts(path)
	for links := 0; len(rest) > 0; {
		next := filepath.Join(at, rest[0])
		info, err := os.Lstat(next)
		if err != nil || len(rest) == 1 {
			p.entry(at, rest[0])
		}
		if err != nil {
			return
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at, rest = next, rest[1:]
			continue
		}
		p.entry(at, rest[0])
		target, err := os.Readlink(next)
		if links++; err != nil || links > maxLinks {
			return
		}
		if filepath.IsAbs(target) {
			at = string(filepath.Separator)
		}
		rest = append(parts(target), rest[1:]...)
	}
}

// parts are the names on the way down a path.
func parts(path string) []string {
	clean := strings.Trim(filepath.Clean(path), string(filepath.Separator))
	if clean == "" {
		return nil
	}
	return strings.Split(clean, string(filepath.Separator))
}

// watcher gets events of directories from the system.
type watcher struct {
	fs   *fsnotify.Watcher
	skip string // the state directory: it changes all the time and declares nothing

	mu      sync.Mutex // guards below
	watched places
}

func newWatcher(skip string) (*watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	return &watcher{fs: w, skip: skip, watched: places{}}, nil
}

// sync watches what decides about dirs, read recursively, and about files, and
// nothing else. It says whether a directory is watched that was not, in which
// something may have happened before. The error tells of directories that cannot be
// watched; the others are.
func (w *watcher) sync(dirs, files []string) (grown bool, err error) {
	want := places{}
	var failed error
	for _, dir := range dirs {
		want.path(dir)
		failed = errors.Join(failed, w.tree(want, dir, map[string]bool{}))
	}
	for _, file := range files {
		if !underAny(file, dirs) {
			want.path(file)
		}
	}
	for dir := range want {
		failed = errors.Join(failed, w.add(dir))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for dir := range want {
		if _, ok := w.watched[dir]; !ok {
			grown = true
		}
	}
	for dir := range w.watched {
		if _, ok := want[dir]; !ok {
			_ = w.fs.Remove(dir) // one that was deleted is not watched any more
		}
	}
	w.watched = want
	return grown, failed
}

// tree adds dir and the directories below it in which declarations are looked for.
// Each is watched before it is listed, so that nothing appears unseen in between.
func (w *watcher) tree(want places, dir string, seen map[string]bool) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || seen[real] || real == w.skip {
		return nil //nolint:nilerr // what is not there is watched from above
	}
	seen[real] = true
	failed := w.add(real)
	want[real] = nil
	entries, err := os.ReadDir(real)
	if err != nil {
		return failed // gone meanwhile; its parent tells
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || strings.HasPrefix(e.Name(), "_") {
			continue
		}
		path := filepath.Join(real, e.Name())
		if e.Type()&fs.ModeSymlink != 0 {
			want.path(path)
		}
		if e.IsDir() || e.Type()&fs.ModeSymlink != 0 && isDir(path) {
			failed = errors.Join(failed, w.tree(want, path, seen))
		}
	}
	return failed
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// add watches a directory. Adding one again costs nothing, and moves the watch when
// another directory stands at the path now.
func (w *watcher) add(dir string) error {
	err := w.fs.Add(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// pump signals out for every event that matters until ctx ends.
func (w *watcher) pump(ctx context.Context, out chan<- struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case ev, ok := <-w.fs.Events:
			if !ok {
				return
			}
			if w.matters(ev) {
				signal(out)
			}
		case _, ok := <-w.fs.Errors:
			if !ok {
				return
			}
			signal(out) // events were lost: look at everything
		}
	}
}

// matters says that an event can change what is loaded. What happens to a watched
// directory itself always can.
func (w *watcher) matters(ev fsnotify.Event) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.watched[ev.Name]; ok {
		return true
	}
	only, ok := w.watched[filepath.Dir(ev.Name)]
	return !ok || only == nil || only[filepath.Base(ev.Name)]
}

func (w *watcher) close() error { return w.fs.Close() }
