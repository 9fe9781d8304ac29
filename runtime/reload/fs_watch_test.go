package reload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

// watching makes the watcher of a project known to its test.
func watching(w **watcher) func(*Options) {
	return func(o *Options) {
		o.watch = func(skip string) (*watcher, error) {
			made, err := newWatcher(skip)
			*w = made
			return made, err
		}
	}
}

// A change that gives no event where it is looked for is found when the system says that
// it lost events.
func TestAnOverflowIsAReasonToLookAtEverything(t *testing.T) {
	var w *watcher
	p := running(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")}, watching(&w))
	must(t, os.Link(p.at("tools.d/a.hcl"), p.at("other-name")))
	p.fence()
	p.write("other-name", native("a", "Two."))
	w.fs.Errors <- fsnotify.ErrEventOverflow
	p.goesLive("the change without an event", tools{"a": "Two."})
}

// A hard link changes by a name in a directory that is not watched, which the poll finds,
// and every reload that looks at the file for another reason.
func TestAHardLinkChangesByItsOtherName(t *testing.T) {
	p := running(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One."), "tools.d/b.hcl": native("b", "One.")})
	must(t, os.Link(p.at("tools.d/a.hcl"), p.at("other-name")))
	p.fence()
	p.write("other-name", native("a", "Two."))
	p.write("tools.d/b.hcl", native("b", "Two."))
	p.goesLive("both", tools{"a": "Two.", "b": "Two."})
	polled := running(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")}, func(o *Options) { o.Poll = 5 * time.Millisecond })
	must(t, os.Link(polled.at("tools.d/a.hcl"), polled.at("other-name")))
	polled.write("other-name", native("a", "Two."))
	polled.goesLive("the change by the other name", tools{"a": "Two."})
}

// When more happens than the system keeps, what was lost is found all the same.
func TestEventsThatTheSystemLosesAreMadeUpFor(t *testing.T) {
	limit := 0
	if raw, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events"); err == nil {
		_, err = fmt.Sscan(string(raw), &limit)
		must(t, err)
	}
	if limit == 0 || limit > 1<<16 {
		t.Skipf("the system keeps %d events, or does not say how many", limit)
	}
	var w *watcher
	p := running(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One."), "tools.d/sub/b.hcl": native("b", "One.")}, watching(&w))
	p.fence()
	w.mu.Lock() // nobody takes events
	for i := range limit {
		name := p.at(fmt.Sprintf("tools.d/%d.tmp", i%64))
		must(t, os.WriteFile(name, nil, 0o600))
		must(t, os.Remove(name))
	}
	p.write("tools.d/a.hcl", native("a", "Two."))
	p.write("tools.d/sub/b.hcl", native("b", "Two."))
	p.write("tools.d/new/c.hcl", native("c", "One."))
	w.mu.Unlock()
	want := tools{"a": "Two.", "b": "Two.", "c": "One."}
	p.goesLive("what was lost", want)
	p.write("tools.d/new/c.hcl", native("c", "Two.")) // in a directory of which nobody was told
	want["c"] = "Two."
	p.goesLive("a change after that", want)
}

// A system that has no watches to give is polled, which the status says, and asked again.
func TestEventsComeBack(t *testing.T) {
	var refuse atomic.Bool
	refuse.Store(true)
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")}, func(o *Options) {
		o.Poll = 5 * time.Millisecond
		o.watch = func(skip string) (*watcher, error) {
			if refuse.Load() {
				return nil, syscall.EMFILE
			}
			return newWatcher(skip)
		}
	})
	p.run()
	until(t, "polling", func() bool { return p.r.Status().Watching == "poll" })
	p.write("tools.d/a.hcl", native("a", "Two."))
	p.goesLive("a change found by a poll", tools{"a": "Two."})
	refuse.Store(false)
	until(t, "events", func() bool { return p.r.Status().Watching == "fsnotify" })
	p.write("tools.d/a.hcl", native("a", "Three."))
	p.goesLive("a change after that", tools{"a": "Three."})
	diff(t, strings.Count(p.log.String(), "file events are not available, polling instead"), 1)
	diff(t, strings.Count(p.log.String(), "file events are available again"), 1)
}

// The same for one directory of many: the others are watched, it is polled, and an event
// in one of the others is no reason to believe that nothing happened in it.
func TestADirectoryThatCannotBeWatchedIsPolled(t *testing.T) {
	var full atomic.Bool
	full.Store(true)
	var sub string
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One."), "tools.d/sub/b.hcl": native("b", "One.")}, func(o *Options) {
		o.watch = func(skip string) (*watcher, error) {
			w, err := newWatcher(skip)
			if err == nil {
				watch := w.watch
				w.watch = func(dir string) error {
					if dir == sub && full.Load() {
						return syscall.ENOSPC
					}
					return watch(dir)
				}
			}
			return w, err
		}
	})
	sub = p.at("tools.d/sub")
	settleClocks(p.r.disk)
	p.run()
	until(t, "polling", func() bool { return p.r.Status().Watching == "poll" })
	p.write("tools.d/sub/b.hcl", native("b", "Two.")) // no event
	p.write("tools.d/a.hcl", native("a", "Two."))
	p.goesLive("both", tools{"a": "Two.", "b": "Two."})
	if log := p.log.String(); !strings.Contains(log, `"some directories cannot be watched, polling them instead" err="watching `+sub+`: `) {
		t.Errorf("the log does not say which:\n%s", log)
	}
	full.Store(false)
	p.write("tools.d/a.hcl", native("a", "Three.")) // leads to a generation, and then to another try
	until(t, "events", func() bool { return p.r.Status().Watching == "fsnotify" })
	p.write("tools.d/sub/b.hcl", native("b", "Three."))
	p.goesLive("a change in it", tools{"a": "Three.", "b": "Three."})
}

// A project that comes back while the directory in which it is missed is about to be
// watched gives no event: it is watched all the same.
func TestWhatAppearsBeforeItIsWatchedForIsWatched(t *testing.T) {
	var p *project
	var once sync.Once
	back := make(chan int64, 1)
	p = start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")}, func(o *Options) {
		o.watch = func(skip string) (*watcher, error) {
			w, err := newWatcher(skip)
			if err == nil {
				watch := w.watch
				w.watch = func(dir string) error {
					if dir == filepath.Dir(p.root) {
						once.Do(func() {
							rename(t, p.root+".copy", p.root)
							back <- p.r.disk.work().lists
						})
					}
					return watch(dir)
				}
			}
			return w, err
		}
	})
	p.run()
	until(t, "watching", func() bool { return p.r.Status().Watching == "fsnotify" })
	p.fence()
	must(t, os.CopyFS(p.root+".copy", os.DirFS(p.root)))
	rename(t, p.root, p.root+".before")
	lists := <-back
	until(t, "a look", func() bool { return p.r.disk.work().lists >= lists+2 && p.r.news.quiet() })
	p.write("tools.d/a.hcl", native("a", "Two."))
	p.goesLive("a change after it came back", tools{"a": "Two."})
}

// A watcher that ends is replaced by another.
func TestAWatcherThatEndsIsReplaced(t *testing.T) {
	var w *watcher
	p := running(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")}, watching(&w), func(o *Options) { o.Poll = 5 * time.Millisecond })
	until(t, "events", func() bool { return p.r.Status().Watching == "fsnotify" })
	must(t, w.fs.Close())
	for _, text := range []string{"Two.", "Three."} {
		p.write("tools.d/a.hcl", native("a", text))
		p.goesLive(text, tools{"a": text})
	}
}

// work is what a reload asked of the file system.
type work struct{ looks, reads, lists int64 }

func (d *disk) work() work {
	return work{d.counts.looks.Load(), d.counts.reads.Load(), d.counts.lists.Load()}
}

func (w work) since(before work) work {
	return work{w.looks - before.looks, w.reads - before.reads, w.lists - before.lists}
}

// What a reload by event asks of the file system grows with the change and not with the
// directory; a poll looks at everything.
func TestALookAfterAnEventIsAtWhatItNames(t *testing.T) {
	const many = 300
	fs := files{"agents/main.hcl": mainHCL}
	for i := range many {
		fs[fmt.Sprintf("tools.d/t%03d.hcl", i)] = native(fmt.Sprintf("t%03d", i), "One.")
	}
	p := start(t, fs)
	settleClocks(p.r.disk)
	p.run()
	until(t, "watching", func() bool { return p.r.Status().Watching == "fsnotify" })
	p.fence() // perhaps found by the look at everything that Run begins with
	p.fence()
	settleClocks(p.r.disk)
	for _, tt := range []struct {
		name        string
		do          func()
		live        func(tools) bool
		looks, list int64
	}{
		{"a file written", func() { p.write("tools.d/t000.hcl", native("t000", "Two.")) }, func(now tools) bool { return now["t000"] == "Two." }, 1, 0},
		{"another", func() { p.write("tools.d/t001.hcl", native("t001", "Two.")) }, func(now tools) bool { return now["t001"] == "Two." }, 2, 0},
		{"one deleted", func() { p.remove("tools.d/t002.hcl") }, func(now tools) bool { return now["t002"] == "" }, 3, 0},
		{"one added", func() { p.write("tools.d/new.hcl", native("new", "One.")) }, func(now tools) bool { return now["new"] == "One." }, 4, 1},
	} {
		until(t, "quiet", func() bool { return p.r.news.quiet() })
		before, parses := p.r.disk.work(), p.cache.Stats().Parses
		tt.do()
		until(t, tt.name, func() bool { return tt.live(p.offered()) })
		did := p.r.disk.work().since(before)
		t.Logf("%s: %+v", tt.name, did)
		// A burst may be seen in two parts; files written a moment ago are looked at again.
		if did.looks > 3*tt.looks || did.lists > 2*tt.list {
			t.Errorf("%s: %d looks and %d listings, for a directory of %d", tt.name, did.looks, did.lists, many)
		}
		if n := p.cache.Stats().Parses - parses; n > 1 {
			t.Errorf("%s: %d files parsed", tt.name, n)
		}
	}
	before := p.r.disk.work()
	_, err := p.r.Reload(t.Context(), TriggerPoll)
	must(t, err)
	if did := p.r.disk.work().since(before); did.looks < many || did.lists != 2 {
		t.Errorf("a poll did %+v", did)
	}
}

// A thousand files that are touched are nothing; a thousand that are changed at once are
// one generation or a few, and each is parsed once.
func TestAThousandFilesAtOnce(t *testing.T) {
	const many = 1000
	name := func(i int) string { return fmt.Sprintf("tools.d/%02d/t%04d.hcl", i%10, i) }
	fs := files{"agents/main.hcl": mainHCL}
	for i := range many {
		fs[name(i)] = native(fmt.Sprintf("t%04d", i), "One.")
	}
	p := running(t, fs)
	p.fence()
	for i := range many {
		must(t, os.Chtimes(p.at(name(i)), time.Now(), time.Now()))
	}
	diff(t, len(p.swapsNow()), 0)
	p.fence()
	parses := p.cache.Stats().Parses
	for i := range many {
		p.write(name(i), native(fmt.Sprintf("t%04d", i), "Two."))
	}
	until(t, "all of them", func() bool {
		offered := p.offered()
		return len(unfenced(offered)) == many && allAre(unfenced(offered), "Two.")
	})
	if n := len(p.swapsNow()); n > 5 {
		t.Errorf("%d generations", n)
	}
	diff(t, p.cache.Stats().Parses-parses, int64(many))
	if n := len(p.r.Status().Stale); n > 0 {
		t.Errorf("%d are stale", n)
	}
}

func allAre(offered tools, text string) bool {
	for _, description := range offered {
		if description != text {
			return false
		}
	}
	return true
}

// A directory with a hundred thousand files that declare nothing costs one change nothing.
func TestAHundredThousandOtherFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes a hundred thousand files")
	}
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")})
	for i := range 100_000 {
		f, err := os.Create(p.at(fmt.Sprintf("tools.d/%06d.json", i)))
		must(t, err)
		must(t, f.Close())
	}
	p.run()
	until(t, "watching", func() bool { return p.r.Status().Watching == "fsnotify" })
	p.fence()
	until(t, "quiet", func() bool { return p.r.news.quiet() })
	before := p.r.disk.work()
	p.write("tools.d/a.hcl", native("a", "Two."))
	p.goesLive("a change", tools{"a": "Two."})
	if did := p.r.disk.work().since(before); did.lists > 0 || did.looks > 20 {
		t.Errorf("it took %+v", did)
	}
	p.write("tools.d/000000.json", "{}") // declares nothing, and is no reason for anything
	diff(t, p.fence(), []tools{{"a": "Two."}})
}

// Any name that the system takes is a name, if the file says of which toolset it is.
func TestUnusualNamesAreLoadedAndWatched(t *testing.T) {
	names := []string{
		"with a space", "with\nline ends", "tab\there", "naïve", "nai\u0308ve", "工具", "🔧", `back\slash`, `quo"te`, "per%cent", "dollar${x}", "star*",
		"\xff\xfe no text", "-rf", strings.Repeat("n", 255-len(".hcl")), "a.b.c", "Ünïcode dir/file", "..two dots/..", "tilde~in", "#one",
	}
	fs := files{"agents/main.hcl": mainHCL}
	p := start(t, fs)
	p.run()
	until(t, "watching", func() bool { return p.r.Status().Watching == "fsnotify" })
	for _, text := range []string{"One.", "Two."} {
		want := tools{}
		for i, name := range names {
			id := fmt.Sprintf("t%02d", i)
			p.write("tools.d/"+name+".hcl", strings.Replace(native(id, text), "  handler", "  toolset = \"t\"\n  handler", 1))
			if !strings.HasPrefix(name, ".") {
				want[id] = text
			}
		}
		p.goesLive(text, want)
	}
	for i, name := range names {
		p.write("tools.d/"+name+".hcl", "tool \"t\" {")
		if i%2 == 0 {
			p.remove("tools.d/" + name + ".hcl")
		}
	}
	until(t, "what is broken", func() bool {
		want := 0
		for i, name := range names {
			if i%2 == 1 && !strings.HasPrefix(name, ".") {
				want++
			}
		}
		return len(p.r.Status().Stale) == want
	})
}

// Directories below each other are read to a depth, and one below that holds up nothing.
func TestDirectoriesAreReadToADepth(t *testing.T) {
	p := running(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")})
	deep := func(n int) string { return "tools.d" + strings.Repeat("/d", n) }
	p.write(deep(31)+"/b.hcl", native("b", "Deep."))
	p.goesLive("the deepest", tools{"a": "One.", "b": "Deep."})
	p.write(deep(32)+"/c.hcl", native("c", "Deeper."))
	p.write("tools.d/a.hcl", native("a", "Two."))
	p.goesLive("others", tools{"a": "Two.", "b": "Deep."})
	until(t, "a word about the deeper one", func() bool {
		return slices.Equal(sortedKeys(staleOf(p.r.Status().Stale)), []string{deep(32)})
	})
	p.write(deep(31)+"/b.hcl", native("b", "Changed."))
	p.goesLive("the deepest again", tools{"a": "Two.", "b": "Changed."})
	p.remove(deep(1))
	p.goesLive("none of them", tools{"a": "Two."})
	until(t, "an empty stale list", func() bool { return len(p.r.Status().Stale) == 0 })
	// Far deeper than anybody meant: neither a stack nor the watches end.
	path := p.at("tools.d")
	must(t, os.MkdirAll(path+strings.Repeat("/x", 500), 0o755))
	p.write("tools.d/a.hcl", native("a", "Three."))
	p.goesLive("a change beside it", tools{"a": "Three."})
}

// While watching is off the status names what is on disk and not loaded, whatever way it
// came there, and nothing else.
func TestPendingChangesAreThoseOnDisk(t *testing.T) {
	p := start(t, files{
		"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One."), "tools.d/b.hcl": native("b", "One."), "tools.d/sub/c.hcl": native("c", "One."),
		"v1/d.hcl": native("d", "One."), "v2/d.hcl": native("d", "Two."),
	}, func(o *Options) { o.Watch = false })
	must(t, os.Symlink("../v1", p.at("tools.d/linked")))
	diff(t, p.reload().Changed, true)
	p.run()
	for _, tt := range []struct {
		name string
		do   func()
		want []string
	}{
		{"an edit", func() { p.write("tools.d/a.hcl", native("a", "Two.")) }, []string{"tools.d/a.hcl"}},
		{"the edit taken back", func() { p.write("tools.d/a.hcl", native("a", "One.")) }, nil},
		{"a save by rename", func() {
			p.write("tools.d/.tmp", native("a", "Two."))
			rename(t, p.at("tools.d/.tmp"), p.at("tools.d/a.hcl"))
		}, []string{"tools.d/a.hcl"}},
		{"half a file", func() { p.write("tools.d/b.hcl", "tool \"b\" {") }, []string{"tools.d/a.hcl", "tools.d/b.hcl"}},
		{"another case", func() { rename(t, p.at("tools.d/b.hcl"), p.at("tools.d/B.hcl")) }, []string{"tools.d/B.hcl", "tools.d/a.hcl", "tools.d/b.hcl"}},
		{"a directory moved", func() { rename(t, p.at("tools.d/sub"), p.at("tools.d/moved")) }, []string{"tools.d/B.hcl", "tools.d/a.hcl", "tools.d/b.hcl", "tools.d/moved/c.hcl", "tools.d/sub/c.hcl"}},
		{"and back", func() { rename(t, p.at("tools.d/moved"), p.at("tools.d/sub")) }, []string{"tools.d/B.hcl", "tools.d/a.hcl", "tools.d/b.hcl"}},
		{"a link", func() { relink(t, "../v2", p.at("tools.d/linked")) }, []string{"tools.d/B.hcl", "tools.d/a.hcl", "tools.d/b.hcl", "tools.d/linked/d.hcl"}},
		{"a file behind a link", func() { p.write("v2/d.hcl", native("d", "One.")) }, []string{"tools.d/B.hcl", "tools.d/a.hcl", "tools.d/b.hcl"}},
		{"times only", func() { must(t, os.Chtimes(p.at("tools.d/sub/c.hcl"), time.Now(), time.Unix(1, 0))) }, []string{"tools.d/B.hcl", "tools.d/a.hcl", "tools.d/b.hcl"}},
		{"the tools directory gone", func() { rename(t, p.at("tools.d"), p.at("away")) }, []string{"tools.d/a.hcl", "tools.d/b.hcl", "tools.d/linked/d.hcl", "tools.d/sub/c.hcl"}},
		{"and back", func() { rename(t, p.at("away"), p.at("tools.d")) }, []string{"tools.d/B.hcl", "tools.d/a.hcl", "tools.d/b.hcl"}},
	} {
		tt.do()
		until(t, tt.name, func() bool { return slices.Equal(p.r.Status().Pending, tt.want) })
		diff(t, p.live().Number, int64(2))
	}
	p.write("tools.d/B.hcl", native("b", "Two."))
	diff(t, p.reload().Changed, true)
	diff(t, p.offered(), tools{"a": "Two.", "b": "Two.", "c": "One.", "d": "One."})
	diff(t, p.r.Status().Pending, nil)
}

// What a withheld declaration misses is pending when it appears.
func TestWhatWasMissingIsPendingWhenItAppears(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL}, func(o *Options) { o.Watch = false })
	p.run()
	p.write("tools.d/noop.hcl", wasm("noop", "noop.wasm"))
	diff(t, len(p.reload().Stale), 1)
	p.write("tools.d/noop.wasm", module("1"))
	until(t, "the module", func() bool { return slices.Equal(p.r.Status().Pending, []string{"tools.d/noop.wasm"}) })
	diff(t, p.reload().Changed, true)
}

// An input stands in a directory in which no declarations are looked for, below one in
// which they are.
func TestAnInputInAHiddenDirectoryIsWatched(t *testing.T) {
	for _, dir := range []string{"agents/_prompts", "agents/.prompts", "prompts"} {
		t.Run(dir, func(t *testing.T) {
			file, err := filepath.Rel("agents", dir+"/help.md")
			must(t, err)
			p := running(t, files{"agents/main.hcl": strings.Replace(mainHCL, `"Help."`, `file("`+file+`")`, 1), dir + "/help.md": "One."})
			for _, text := range []string{"Two.", "Three."} {
				p.write(dir+"/help.md", text)
				until(t, text, func() bool { return p.live().Agents["assistant"].Instructions == text })
			}
			p.write(dir+"/tmp", "Four.")
			rename(t, p.at(dir+"/tmp"), p.at(dir+"/help.md"))
			until(t, "Four.", func() bool { return p.live().Agents["assistant"].Instructions == "Four." })
		})
	}
}

// A reload that was given up has not seen what it was told of: the next one has.
func TestWhatAnEventNamedIsNotLostWithTheReload(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")})
	settleClocks(p.r.disk)
	p.write("tools.d/a.hcl", native("a", "Two."))
	p.r.news.add(p.at("tools.d/a.hcl"))
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	if _, err := p.r.Reload(ctx, TriggerFile); !errors.Is(err, gone) {
		t.Fatalf("got %v", err)
	}
	p.r.news.add(p.at("tools.d/b.hcl"))
	_, err := p.r.Reload(t.Context(), TriggerFile)
	must(t, err)
	diff(t, p.offered(), tools{"a": "Two."})
}
