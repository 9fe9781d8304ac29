package reload

import (
	"context"
	"slices"
	"sync"
	"time"
)

// maxSyncs bounds how often directories that were not watched before lead to another
// look at once; the poll sees what comes after.
const maxSyncs = 5

// Run reloads when files change, until ctx ends; then it returns nil. When watching is
// off it only notes which changes are not loaded. Start must have succeeded.
func (r *Reloader) Run(ctx context.Context) error {
	w := r.open()
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	raw, quiet := make(chan struct{}, 1), make(chan struct{}, 1)
	if w != nil {
		defer func() {
			if err := w.close(); err != nil {
				r.o.Log.Warn("closing watcher", "err", err)
			}
		}()
		wg.Go(func() { w.pump(ctx, raw) })
		wg.Go(func() { debounce(ctx, raw, quiet, r.o.Quiet, r.o.MaxWait) })
	}
	poll := time.NewTicker(r.o.Poll)
	defer poll.Stop()
	r.follow(ctx, w, TriggerPoll) // what changed since Start
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-quiet:
			r.follow(ctx, w, TriggerFile)
		case <-poll.C:
			r.follow(ctx, w, TriggerPoll)
		}
	}
}

// open makes a watcher; nil if the system has none to give.
func (r *Reloader) open() *watcher {
	w, err := r.o.watch(r.o.Load.Paths.State)
	if err != nil {
		r.o.Log.Warn("file events are not available, polling instead", "err", err, "poll", r.o.Poll)
		r.watchingBy("poll")
		return nil
	}
	return w
}

func (r *Reloader) watchingBy(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watcher = what
}

// follow looks at the disk and acts on what changed. Directories are watched before
// they are looked at; one that only the new generation has is watched after, and then
// looked at again.
func (r *Reloader) follow(ctx context.Context, w *watcher, trigger string) {
	r.sync(w)
	for range maxSyncs {
		r.act(ctx, trigger)
		if !r.sync(w) || ctx.Err() != nil {
			return
		}
	}
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
	r.mu.Lock()
	was := r.watcher
	r.watcher = by
	r.mu.Unlock()
	if err != nil && was != by {
		r.o.Log.Warn("some directories cannot be watched, polling them instead", "err", err, "poll", r.o.Poll)
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
		r.note()
		return
	}
	if _, err := r.Reload(ctx, trigger); err != nil && ctx.Err() == nil {
		r.o.Log.Error("reloading", "trigger", trigger, "err", err)
	}
}

// note finds the changes on disk that no reload has looked at.
func (r *Reloader) note() {
	r.mu.Lock()
	l, tried := r.live, r.tried
	r.mu.Unlock()
	v := r.disk.view(r.o.Load.Paths.ConfigDir)
	now := versions(v, l.changes(v, nil))
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
