package reload

import (
	"bytes"
	"context"
	"io/fs"
	"time"
)

// look sees the disk as it is. When nobody asked for it right now, a file that was
// written a moment ago may be in the middle of that: it is looked at again, until it is
// left alone or MaxWait has passed since the first event. One that looks cut off gets as
// much again: it is worth more than to be in time. If it still may be in the middle of
// being written then, because something else keeps being changed, the rest goes ahead
// without it.
//
// After events only what they named is looked at, and what cannot be trusted to be as
// it was without one.
func (r *Reloader) look(ctx context.Context, trigger string) (*view, error) {
	begin, news := time.Now(), r.take(trigger)
	if trigger == TriggerFile && !news.first.IsZero() {
		begin = news.first
	}
	for {
		v := r.disk.view(r.o.Load.Paths.ConfigDir, news)
		if explicit(trigger) {
			return v, nil
		}
		busy, cut := r.moving(v, trigger)
		waited := time.Since(begin)
		if (!busy || waited >= r.o.MaxWait) && (len(cut) == 0 || waited >= 2*r.o.MaxWait) {
			r.postpone(v, cut)
			return v, nil
		}
		select {
		case <-time.After(r.o.Quiet):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		news = news.with(r.news.take())
	}
}

// take gives what events said; for every other reason to look, that is anything.
func (r *Reloader) take(trigger string) told {
	t := r.news.take()
	t.all = t.all || trigger != TriggerFile || len(t.paths) == 0
	return t
}

// postpone leaves changes to the next look: in this one the files are as they are live.
func (r *Reloader) postpone(v *view, paths []string) {
	l := r.current()
	for _, path := range paths {
		v.take(path, l.file(path))
		r.news.add(path)
	}
}

// file is an input as it is live.
func (l *live) file(path string) *file {
	in, ok := l.content(path)
	if !ok {
		return &file{err: fs.ErrNotExist}
	}
	return &file{content: in.Content, digest: in.Digest}
}

// moving says that some change is younger than the quiet time, so that more may follow;
// cut are those that are younger than MaxWait and look like the beginning of a file: most
// programs empty a file and then write it.
func (r *Reloader) moving(v *view, trigger string) (busy bool, cut []string) {
	r.mu.Lock()
	l, tracked, tried := r.live, r.tracked, r.tried
	r.mu.Unlock()
	if l.config == nil {
		return false, nil
	}
	for path := range l.changes(v, tracked) {
		f := v.look(path)
		if was, ok := tried[path]; ok && was == f.version() {
			continue
		}
		age := f.age(trigger)
		busy = busy || age < r.o.Quiet
		// Some file systems show a file as empty before they give it the time of that, and
		// a full disk queue makes the moment long: what counts is when we saw it first.
		if min(age, time.Since(f.arrived)) < r.o.MaxWait && l.cut(path, f) {
			cut = append(cut, path)
		}
	}
	return busy, cut
}

// cut says that the file holds the beginning of what is live and no more, or ends in
// the middle of a line where the live one did not.
func (l *live) cut(path string, f *file) bool {
	if f.err != nil {
		return false
	}
	in, ok := l.content(path)
	if !ok {
		return len(f.content) == 0
	}
	newline := []byte("\n")
	return bytes.HasPrefix(in.Content, f.content) || bytes.HasSuffix(in.Content, newline) && !bytes.HasSuffix(f.content, newline)
}
