package reload

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

// tempDir is a directory whose path has no links in it.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	return dir
}

// Every link on the way to a path decides what it means, so the directory of each is
// watched for that name; of a path that is not there, the deepest directory that is.
func TestPlacesOfAPath(t *testing.T) {
	root := tempDir(t)
	at := func(p string) string { return filepath.Join(root, p) }
	write(t, at("releases/1/tools.d/a.hcl"), "")
	write(t, at("mount/..one/b.hcl"), "")
	for link, target := range map[string]string{
		"current": "releases/1", "tools.d": at("current/tools.d"),
		"mount/..data": "..one", "mount/b.hcl": "..data/b.hcl",
		"loop": "loop", "gone": "nowhere/x",
	} {
		must(t, os.Symlink(target, at(link)))
	}
	for _, tt := range []struct {
		path string
		want map[string][]string
	}{
		{"releases/1/tools.d/a.hcl", map[string][]string{"releases/1/tools.d": {"a.hcl"}}},
		{"tools.d/a.hcl", map[string][]string{"": {"current", "tools.d"}, "releases/1/tools.d": {"a.hcl"}}},
		{"mount/b.hcl", map[string][]string{"mount": {"..data", "b.hcl"}, "mount/..one": {"b.hcl"}}},
		{"none/at/all", map[string][]string{"": {"none"}}},
		{"gone", map[string][]string{"": {"gone", "nowhere"}}},
		{"loop", map[string][]string{"": {"loop"}}},
	} {
		t.Run(tt.path, func(t *testing.T) {
			p := places{}
			p.path(at(tt.path))
			got := map[string][]string{}
			for dir, n := range p {
				rel, err := filepath.Rel(root, dir)
				must(t, err)
				if rel == "." {
					rel = ""
				}
				got[rel] = slices.Sorted(maps.Keys(n.names))
			}
			diff(t, got, tt.want)
		})
	}
}

// seen does something and says whether an event that matters came of it. The system
// keeps events in order: those before that of a barrier file are all there are.
func seen(t *testing.T, w *watcher, barrier string, do func() error) bool {
	t.Helper()
	must(t, do())
	must(t, os.WriteFile(barrier, nil, 0o644))
	must(t, os.Remove(barrier))
	timeout := time.After(10 * time.Second)
	for matters := false; ; {
		select {
		case ev := <-w.fs.Events:
			if ev.Name == barrier && ev.Has(fsnotify.Remove) {
				return matters
			}
			_, ok := w.concerns(ev)
			matters = matters || filepath.Dir(ev.Name) != filepath.Dir(barrier) && ok
		case <-timeout:
			t.Fatal("the barrier gave no event")
		}
	}
}

// Each way to change what is declared gives an event, also where a directory or link
// was replaced by another, and in directories that appeared meanwhile.
func TestWatcherSeesEveryKindOfChange(t *testing.T) {
	root := tempDir(t)
	at := func(p string) string { return filepath.Join(root, p) }
	write(t, at("tools.d/a.hcl"), "")
	write(t, at("v1/b.hcl"), "")
	write(t, at("v2/b.hcl"), "")
	write(t, at("shared/prompt.md"), "")
	must(t, os.Symlink("v1", at("linked")))
	must(t, os.Mkdir(at("barrier"), 0o755))
	dirs, files := []string{at("tools.d"), at("linked"), at("later")}, []string{at("shared/prompt.md"), at("barrier/x")}
	w, err := newWatcher("")
	must(t, err)
	defer func() { must(t, w.close()) }()
	_, err = w.sync(dirs, files)
	must(t, err)
	for _, tt := range []struct {
		name  string
		do    func() error
		grown bool // a directory is watched that was not
	}{
		{"write", func() error { return os.WriteFile(at("tools.d/a.hcl"), []byte("x"), 0o644) }, false},
		{"rename over", func() error {
			if err := os.WriteFile(at("a.tmp"), nil, 0o644); err != nil {
				return err
			}
			return os.Rename(at("a.tmp"), at("tools.d/a.hcl"))
		}, false},
		{"write after a rename", func() error { return os.WriteFile(at("tools.d/a.hcl"), []byte("y"), 0o644) }, false},
		{"times only", func() error { return os.Chtimes(at("tools.d/a.hcl"), time.Now(), time.Unix(1, 0)) }, false},
		{"new directory", func() error { return os.MkdirAll(at("tools.d/sub/deep"), 0o755) }, true},
		{"write below it", func() error { return os.WriteFile(at("tools.d/sub/deep/c.hcl"), nil, 0o644) }, false},
		{"a directory renamed", func() error { return os.Rename(at("tools.d/sub"), at("tools.d/other")) }, true},
		{"write below it under its new name", func() error { return os.WriteFile(at("tools.d/other/deep/c.hcl"), []byte("x"), 0o644) }, false},
		{"link to another directory", func() error {
			if err := os.Symlink("v2", at("linked.tmp")); err != nil {
				return err
			}
			return os.Rename(at("linked.tmp"), at("linked"))
		}, true},
		{"write there", func() error { return os.WriteFile(at("v2/b.hcl"), []byte("x"), 0o644) }, false},
		{"a directory that was not there", func() error { return os.Mkdir(at("later"), 0o755) }, true},
		{"write in it", func() error { return os.WriteFile(at("later/d.hcl"), nil, 0o644) }, false},
		{"an input elsewhere", func() error { return os.WriteFile(at("shared/prompt.md"), []byte("x"), 0o644) }, false},
		{"directory deleted", func() error { return os.RemoveAll(at("tools.d")) }, false},
		{"and created", func() error { return os.Mkdir(at("tools.d"), 0o755) }, false},
		{"write in the new one", func() error { return os.WriteFile(at("tools.d/a.hcl"), nil, 0o644) }, false},
		{"delete", func() error { return os.Remove(at("tools.d/a.hcl")) }, false},
	} {
		if !seen(t, w, at("barrier/x"), tt.do) {
			t.Errorf("%s: no event", tt.name)
		}
		grown, err := w.sync(dirs, files)
		must(t, err)
		if tt.grown && !grown {
			t.Errorf("%s: no new directory is watched", tt.name)
		}
		if t.Failed() {
			t.Fatalf("at %s", tt.name)
		}
	}
}

// The project directory holds the state and whatever else; only the entries that lead
// to declarations matter there.
func TestWatcherIgnoresWhatDeclaresNothing(t *testing.T) {
	root := tempDir(t)
	at := func(p string) string { return filepath.Join(root, p) }
	write(t, at("agents/main.hcl"), "")
	write(t, at("agents/state/hermes.db"), "")
	w, err := newWatcher(at("agents/state"))
	must(t, err)
	defer func() { must(t, w.close()) }()
	_, err = w.sync([]string{at("agents")}, nil)
	must(t, err)
	for name, want := range map[string]bool{
		"agents": true, "agents/main.hcl": true, "agents/..data": true, "notes.txt": false, "state": false,
	} {
		_, got := w.concerns(fsnotify.Event{Name: at(name)})
		diff(t, map[string]bool{name: got}, map[string]bool{name: want})
	}
	if slices.Contains(w.fs.WatchList(), at("agents/state")) {
		t.Error("the state directory is watched")
	}
}

// Lost events are a reason to look at everything.
func TestWatcherTakesAnOverflowForAnEvent(t *testing.T) {
	w, err := newWatcher("")
	must(t, err)
	defer func() { must(t, w.close()) }()
	ctx, cancel := context.WithCancel(t.Context())
	out, ended := make(chan struct{}, 1), make(chan struct{})
	var n news
	go func() {
		defer close(ended)
		w.pump(ctx, &n, out)
	}()
	w.fs.Errors <- fsnotify.ErrEventOverflow
	<-out
	diff(t, n.take().all, true)
	cancel()
	<-ended
}
