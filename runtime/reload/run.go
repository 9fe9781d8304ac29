package reload

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxSyncs bounds how often directories that were not watched before lead to another
// round at once; the poll sees what comes after.
const maxSyncs = 5

// Run reloads when files change, until ctx ends; then it returns nil. When watching is
// off it only notes which changes are not loaded. Start must have succeeded.
func (r *Reloader) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	f := &feed{r: r, raw: make(chan struct{}, 1)}
	defer f.end()
	defer cancel()
	quiet := make(chan struct{}, 1)
	f.wg.Go(func() { debounce(ctx, f.raw, quiet, r.o.Quiet, r.o.MaxWait) })
	poll := time.NewTicker(r.o.Poll)
	defer poll.Stop()
	r.follow(ctx, f.open(ctx), TriggerPoll) // what changed since Start
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-quiet:
			r.follow(ctx, f.watcher, TriggerFile)
		case <-poll.C:
			r.follow(ctx, f.open(ctx), TriggerPoll)
		}
	}
}

// feed is where events come from. It is one goroutine's, but for ended.
type feed struct {
	r       *Reloader
	raw     chan struct{}
	wg      sync.WaitGroup
	watcher *watcher // nil: the system has none to give
	ended   atomic.Bool
	refused bool // said so
}

// open makes a watcher unless there is one. What a system has no more of it may have
// again later.
func (f *feed) open(ctx context.Context) *watcher {
	if f.ended.Swap(false) {
		f.close()
	}
	if f.watcher != nil {
		return f.watcher
	}
	w, err := f.r.o.watch(f.r.o.Load.Paths.State)
	if err != nil {
		f.r.watchingBy("poll")
		if !f.refused {
			f.r.o.Log.Warn("file events are not available, polling instead", "err", err, "poll", f.r.o.Poll)
		}
		f.refused = true
		return nil
	}
	f.watcher, f.refused = w, false
	f.wg.Go(func() { f.ended.Store(w.pump(ctx, &f.r.news, f.raw)) })
	return w
}

func (f *feed) close() {
	if f.watcher == nil {
		return
	}
	if err := f.watcher.close(); err != nil {
		f.r.o.Log.Warn("closing watcher", "err", err)
	}
	f.watcher = nil
}

// end closes what is open; the context of its goroutines has ended.
func (f *feed) end() {
	f.close()
	f.wg.Wait()
}

// watchingBy notes where events come from, and gives what was noted before.
func (r *Reloader) watchingBy(what string) (before string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, r.watcher = r.watcher, what
	return before
}

// follow looks at the disk and acts on what changed. Directories are watched before
// they are looked at; one that only the new generation has is watched after, and then
// everything is looked at again.
func (r *Reloader) follow(ctx context.Context, w *watcher, trigger string) {
	if trigger == TriggerFile && r.news.quiet() {
		return // a reload for another reason was faster
	}
	if r.news.unwatched() || trigger != TriggerFile {
		r.watch(w)
		r.news.everything()
	}
	for range maxSyncs {
		before := r.candidates()
		r.act(ctx, trigger)
		if ctx.Err() != nil || r.candidates() == before || !r.watch(w) {
			return
		}
		r.news.everything()
	}
}

// candidates counts what may have changed which files matter.
func (r *Reloader) candidates() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.recorded
}

// watch watches what matters; true if that is more than before. What was not watched may
// have changed while it was found out, also what has to be watched.
func (r *Reloader) watch(w *watcher) (grown bool) {
	for range maxSyncs {
		if !r.sync(w) {
			return grown
		}
		grown = true
	}
	return grown
}

// sync watches what the last candidate looked at; true if that is more than before.
func (r *Reloader) sync(w *watcher) bool {
	if w == nil {
		return false
	}
	dirs, files := r.places()
	grown, err := w.sync(dirs, files)
	by := "fsnotify"
	if err != nil {
		by = "poll"
	}
	was := r.watchingBy(by)
	switch {
	case err != nil && was != by:
		r.o.Log.Warn("some directories cannot be watched, polling them instead", "err", err, "poll", r.o.Poll)
	case err == nil && was == "poll":
		r.o.Log.Info("file events are available again")
	}
	return grown
}

// places are the directories of declarations, and all files that matter.
func (r *Reloader) places() (dirs, files []string) {
	r.mu.Lock()
	l, tracked := r.live, r.tracked
	r.mu.Unlock()
	dirs = append(dirs, r.o.Load.Paths.ConfigDir)
	dirs = append(dirs, sortedKeys(l.lists)...)
	if l.config != nil {
		dirs = append(dirs, l.config.Paths.ToolsDirs...)
		files = sortedKeys(l.config.Inputs)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs), append(files, tracked...)
}

// act reloads, or, when watching is off, notes what a reload would see.
func (r *Reloader) act(ctx context.Context, trigger string) {
	r.mu.Lock()
	watches := r.watches()
	r.mu.Unlock()
	if !watches {
		r.note(trigger)
		r.catchUp(ctx)
		return
	}
	if _, err := r.Reload(ctx, trigger); err != nil && ctx.Err() == nil {
		r.o.Log.Error("reloading", "trigger", trigger, "err", err)
	}
}

// note finds the changes on disk that no reload has looked at.
func (r *Reloader) note(trigger string) {
	r.mu.Lock()
	l, tracked, tried := r.live, r.tracked, r.tried
	r.mu.Unlock()
	v := r.disk.view(r.o.Load.Paths.ConfigDir, r.take(trigger))
	now := versions(v, l.changes(v, tracked))
	var pending []string
	for _, path := range sortedKeys(now) {
		if was, ok := tried[path]; !ok || was != now[path] {
			pending = append(pending, relative(path, r.o.Load.Paths.Project))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.live == l {
		r.pending = pending
	}
}
