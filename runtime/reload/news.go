package reload

import (
	"maps"
	"sync"
	"time"
)

// maxNews is how many paths are told apart; of more it is quicker to look at all.
const maxNews = 4096

// news gathers what events say until a reload takes it.
type news struct {
	mu    sync.Mutex // guards below
	told  told
	ended time.Time // when the last reload did
	// moved says that directories or links may have, since they were watched last.
	moved bool
}

// told is what some events said. Its zero value is nothing.
type told struct {
	first time.Time // when the first of them came; zero: there was none
	all   bool      // anything may have changed
	paths map[string]bool
}

// add notes that something happened to paths, as named; without paths, to anything.
func (n *news) add(paths ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.told.first.IsZero() {
		n.told.first = time.Now()
	}
	if n.told.paths == nil {
		n.told.paths = map[string]bool{}
	}
	for _, path := range paths {
		n.told.paths[path] = true
	}
	n.moved = n.moved || len(paths) == 0
	n.told.all = n.told.all || len(paths) == 0 || len(n.told.paths) > maxNews
}

// everything makes the next look one at all there is.
func (n *news) everything() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told.all = true
}

// quiet says that a look has seen whatever was told, and directories are watched.
func (n *news) quiet() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.told.first.IsZero() && !n.told.all && !n.moved
}

// unwatched says, once, that directories may have to be watched that are not.
func (n *news) unwatched() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	moved := n.moved
	n.moved = false
	return moved
}

// take gives what was told since the last time, as if none of it came before the last
// reload ended: events that had to wait are not late.
func (n *news) take() told {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.told
	if t.first.Before(n.ended) {
		t.first = n.ended
	}
	n.told = told{}
	return t
}

// end notes that a reload ended; what it took and did not bring to an end, the next one
// finds by looking at everything.
func (n *news) end(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = time.Now()
	n.told.all = n.told.all || err != nil
}

// with adds what came later.
func (t told) with(later told) told {
	t.all = t.all || later.all
	if t.paths == nil {
		t.paths = later.paths
	} else {
		maps.Copy(t.paths, later.paths)
	}
	return t
}
