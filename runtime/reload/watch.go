package reload

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// maxDepth bounds directories below each other. Declarations are not read as deep.
const maxDepth = 32

// watcher gets events of directories from the system.
type watcher struct {
	fs   *fsnotify.Watcher
	skip string // the state directory: it changes all the time and declares nothing
	// watch has the system watch a directory; tests put another in its place.
	watch func(dir string) error

	mu      sync.Mutex // guards below
	watched places
	// vague says that what an event names may not be all that changed: a directory is
	// read under two names, or one cannot be watched.
	vague bool
}

func newWatcher(skip string) (*watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	return &watcher{fs: w, skip: skip, watch: w.Add, watched: places{}}, nil
}

// sync watches what decides about dirs, read recursively, and about files, and
// nothing else. It says whether something is watched that was not, to which something
// may have happened before. The error tells of directories that cannot be watched; the
// others are.
func (w *watcher) sync(dirs, files []string) (grown bool, err error) {
	w.leave()
	s := survey{w: w, want: places{}, trees: map[string]bool{}}
	for _, dir := range dirs {
		s.want.path(dir)
		s.tree(dir, dir, map[string]bool{}, 0)
	}
	for _, file := range files {
		if !s.trees[filepath.Dir(file)] {
			s.want.path(file)
		}
	}
	for dir, at := range s.want {
		if at.self != nil {
			continue
		}
		self, err := w.add(dir)
		if at.self = self; err != nil {
			s.fail(dir, err)
			delete(s.want, dir)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for dir := range w.watched {
		if s.want[dir] == nil {
			_ = w.fs.Remove(dir) // one that was deleted is not watched any more
		}
	}
	// Watching what stands at a path now ends the events of what stood there before: a
	// directory that was exchanged meanwhile may have told nobody.
	grown = s.want.beyond(w.watched) || len(s.want.moved()) > 0
	w.watched, w.vague = s.want, s.twice || s.failed != nil
	return grown, s.unwatched()
}

// leave gives up directories that are elsewhere now or gone. The system goes on telling of
// one that moved, by the name it had: to watch it by another changes nothing before that.
func (w *watcher) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, dir := range w.watched.moved() {
		_ = w.fs.Remove(dir) // one that was deleted is not watched any more
		delete(w.watched, dir)
	}
}

// survey finds out what to watch.
type survey struct {
	w      *watcher
	want   places
	trees  map[string]bool // the directories of declarations, as named
	twice  bool            // one is read under two names
	failed error           // why the first that cannot be watched cannot
	more   int             // how many others cannot
}

func (s *survey) fail(dir string, err error) {
	if s.failed != nil {
		s.more++
		return
	}
	if named, ok := errors.AsType[*fs.PathError](err); ok {
		err = named.Err
	}
	s.failed = fmt.Errorf("watching %s: %w", dir, err)
}

// unwatched is one line, of however many directories.
func (s *survey) unwatched() error {
	if s.more > 0 {
		return fmt.Errorf("%w (and %d more directories)", s.failed, s.more)
	}
	return s.failed
}

// tree adds dir and the directories below it in which declarations are looked for.
func (s *survey) tree(dir, named string, seen map[string]bool, depth int) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return // what is not there is watched from above
	}
	s.branch(real, named, seen, depth)
}

// branch adds a directory that is no link. It is watched before it is listed, so that
// nothing appears unseen in between.
func (s *survey) branch(real, named string, seen map[string]bool, depth int) {
	if real == s.w.skip || depth > maxDepth {
		return
	}
	if seen[real] {
		s.twice = true
		return
	}
	seen[real] = true
	s.want.declares(real, named)
	s.trees[named] = true
	self, err := s.w.add(real)
	if s.want[real].self = self; err != nil {
		s.fail(real, err)
	}
	entries, err := os.ReadDir(real)
	if err != nil {
		return // gone meanwhile; its parent tells
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || strings.HasPrefix(e.Name(), "_") {
			continue
		}
		path, named := filepath.Join(real, e.Name()), filepath.Join(named, e.Name())
		switch link := e.Type()&fs.ModeSymlink != 0; {
		case e.IsDir():
			s.branch(path, named, seen, depth+1)
		case link && isDir(path):
			s.want.path(path)
			s.tree(path, named, seen, depth+1)
		case link:
			s.want.path(path)
		}
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// add watches a directory and gives it, if it is certain that it is the one at the path.
// Adding one again costs nothing.
func (w *watcher) add(dir string) (self fs.FileInfo, err error) {
	before, err := os.Stat(dir)
	if err == nil {
		err = w.watch(dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	after, err := os.Stat(dir)
	if err != nil || !os.SameFile(before, after) {
		return nil, nil //nolint:nilerr,nilnil // it moved meanwhile, of which its parent tells
	}
	return before, nil
}

// pump adds to n what events say and signals out for each that matters, until ctx ends
// or the system gives no more; the latter is true.
func (w *watcher) pump(ctx context.Context, n *news, out chan<- struct{}) (ended bool) {
	for {
		select {
		case <-ctx.Done():
			return false
		case ev, ok := <-w.fs.Events:
			if !ok {
				return true
			}
			if paths, ok := w.concerns(ev); ok {
				n.add(paths...)
				signal(out)
			}
		case _, ok := <-w.fs.Errors:
			if !ok {
				return true
			}
			n.add() // events were lost: look at everything
			signal(out)
		}
	}
}

// concerns says whether an event can change what is loaded, and the paths, as named,
// that can have changed; none: any. What happens to a watched directory itself, to a
// link or to a directory can change everything.
func (w *watcher) concerns(ev fsnotify.Event) (paths []string, matters bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	dir, name := filepath.Split(ev.Name)
	at := w.watched[filepath.Clean(dir)]
	switch {
	case at == nil, w.watched[ev.Name] != nil, at.names[name]:
		return nil, true
	case !at.tree:
		return nil, false
	case w.vague, !plain(ev):
		return nil, true
	}
	for _, named := range at.named {
		paths = append(paths, filepath.Join(named, name))
	}
	return paths, true
}

// plain says that an event is about a file and about it alone. Of what is not there any
// more it was: directories and links that are, are known.
func plain(ev fsnotify.Event) bool {
	if ev.Op == fsnotify.Write {
		return true
	}
	info, err := os.Lstat(ev.Name)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return info.Mode()&(fs.ModeDir|fs.ModeSymlink) == 0
}

func (w *watcher) close() error { return w.fs.Close() }
