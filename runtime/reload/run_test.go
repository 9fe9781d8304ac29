package reload

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"
)

// until waits until a condition that another goroutine makes true.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	timeout := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("%s did not happen", what)
		}
	}
}

// running starts a project with Run, after which only events make generations.
func running(t *testing.T, fs files, options ...func(*Options)) *project {
	t.Helper()
	p := start(t, fs, options...)
	p.run()
	until(t, "watching", func() bool { return p.r.Status().Watching != "off" })
	return p
}

// Each edit is in the next generation, which comes by itself.
func TestEditsGoLiveByThemselves(t *testing.T) {
	p := running(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")})
	diff(t, p.r.Status().Watching, "fsnotify")
	for _, tt := range []struct {
		name string
		edit func()
		want map[string]string
	}{
		{"a description", func() { p.write("tools.d/a.hcl", native("a", "Two.")) }, map[string]string{"a": "Two."}},
		{"a new tool file", func() { p.write("tools.d/b.hcl", native("b", "New.")) }, map[string]string{"a": "Two.", "b": "New."}},
		{"a module and its declaration", func() {
			p.write("tools.d/noop.wasm", module("1"))
			p.write("tools.d/noop.hcl", wasm("noop", "noop.wasm"))
		}, map[string]string{"a": "Two.", "b": "New.", "noop": "Runs noop.wasm."}},
		{"both deleted", func() {
			p.remove("tools.d/noop.wasm")
			p.remove("tools.d/noop.hcl")
		}, map[string]string{"a": "Two.", "b": "New."}},
		{"a save by rename", func() {
			p.write("tools.d/a.hcl~tmp", native("a", "Three."))
			must(t, os.Rename(p.at("tools.d/a.hcl~tmp"), p.at("tools.d/a.hcl")))
		}, map[string]string{"a": "Three.", "b": "New."}},
		{"a save by delete and create, with an older time", func() {
			p.remove("tools.d/a.hcl")
			p.write("tools.d/a.hcl", native("a", "Four."))
			must(t, os.Chtimes(p.at("tools.d/a.hcl"), time.Unix(1, 0), time.Unix(1, 0)))
		}, map[string]string{"a": "Four.", "b": "New."}},
		{"a new directory", func() { p.write("tools.d/more/deep/c.hcl", native("c", "Deep.")) }, map[string]string{"a": "Four.", "b": "New.", "c": "Deep."}},
		{"a file in it", func() { p.write("tools.d/more/deep/c.hcl", native("c", "Deeper.")) }, map[string]string{"a": "Four.", "b": "New.", "c": "Deeper."}},
		{"the directory deleted", func() { p.remove("tools.d/more") }, map[string]string{"a": "Four.", "b": "New."}},
		{"all tools replaced", func() {
			p.write("next/z.hcl", native("z", "Only."))
			must(t, os.Rename(p.at("tools.d"), p.at("before")))
			must(t, os.Rename(p.at("next"), p.at("tools.d")))
		}, map[string]string{"z": "Only."}},
		{"a file in the new directory", func() { p.write("tools.d/z.hcl", native("z", "Still watched.")) }, map[string]string{"z": "Still watched."}},
	} {
		tt.edit()
		// A burst may be seen in two parts.
		until(t, tt.name, func() bool { return maps.Equal(p.offered(), tt.want) })
	}
	until(t, "an empty stale list", func() bool { return len(p.r.Status().Stale) == 0 })
}

// Inputs of all kinds are watched where they are.
func TestEditsOfInputsElsewhereGoLiveByThemselves(t *testing.T) {
	p := running(t, files{
		"agents/main.hcl": strings.Replace(mainHCL, `"Help."`, `file("../prompts/help.md")`, 1), "prompts/help.md": "One.",
	})
	instructions := func(want string) {
		t.Helper()
		until(t, want, func() bool { return p.live().Agents["assistant"].Instructions == want })
	}
	p.write("prompts/help.md", "Two.")
	instructions("Two.")
	p.write("prompts/tmp", "Three.")
	must(t, os.Rename(p.at("prompts/tmp"), p.at("prompts/help.md")))
	instructions("Three.")
	p.write("elsewhere/help.md", "Four.") // now a link out of the watched directories
	p.remove("prompts/help.md")
	must(t, os.Symlink("../elsewhere/help.md", p.at("prompts/help.md")))
	instructions("Four.")
	p.write("elsewhere/help.md", "Five.")
	instructions("Five.")
	p.write("elsewhere/a.hcl", native("a", "One."))
	must(t, os.Symlink("../elsewhere/a.hcl", p.at("tools.d/a.hcl")))
	until(t, "a linked declaration", func() bool { return maps.Equal(p.offered(), map[string]string{"a": "One."}) })
	p.write("elsewhere/a.hcl", native("a", "Two."))
	until(t, "an edit behind the link", func() bool { return maps.Equal(p.offered(), map[string]string{"a": "Two."}) })
}

// A mounted volume changes by swapping the link that all of its files go through.
func TestAMountedVolumeChangesByItsDataLink(t *testing.T) {
	mount := func(dir, version, description string) files {
		return files{dir + "/.." + version + "/a.hcl": native("a", description)}
	}
	p := newProject(t, files{"agents/main.hcl": mainHCL})
	for path, content := range mount("tools.d", "1", "One.") {
		p.write(path, content)
	}
	must(t, os.Symlink("..1", p.at("tools.d/..data")))
	must(t, os.Symlink("..data/a.hcl", p.at("tools.d/a.hcl")))
	_, err := p.r.Start(t.Context(), false)
	must(t, err)
	<-p.swaps
	p.run()
	for _, v := range []string{"2", "3"} {
		for path, content := range mount("tools.d", v, "Version "+v) {
			p.write(path, content)
		}
		must(t, os.Symlink(".."+v, p.at("tools.d/..tmp")))
		must(t, os.Rename(p.at("tools.d/..tmp"), p.at("tools.d/..data")))
		diff(t, offered(t, p.next()), map[string]string{"a": "Version " + v})
	}
	// The same bytes behind another link are no change.
	for path, content := range mount("tools.d", "4", "Version 3") {
		p.write(path, content)
	}
	must(t, os.Symlink("..4", p.at("tools.d/..tmp")))
	must(t, os.Rename(p.at("tools.d/..tmp"), p.at("tools.d/..data")))
	diff(t, p.reload().Changed, false)
}

// A release is put in place by a link to a whole directory.
func TestAToolsDirectoryMayBeALinkToAReleases(t *testing.T) {
	p := newProject(t, files{"agents/main.hcl": mainHCL, "releases/1/a.hcl": native("a", "One."), "releases/2/a.hcl": native("a", "Two.")})
	p.remove("tools.d")
	must(t, os.Symlink("releases/1", p.at("tools.d")))
	_, err := p.r.Start(t.Context(), false)
	must(t, err)
	<-p.swaps
	p.run()
	must(t, os.Symlink("releases/2", p.at("tmp")))
	must(t, os.Rename(p.at("tmp"), p.at("tools.d")))
	diff(t, offered(t, p.next()), map[string]string{"a": "Two."})
	p.write("releases/2/a.hcl", native("a", "Three."))
	diff(t, offered(t, p.next()), map[string]string{"a": "Three."})
}

// What editors leave behind is no configuration.
func TestEditorLeftoversAreNotLoaded(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")})
	for _, name := range []string{"a.hcl~", ".a.hcl.swp", "#a.hcl#", "4913", ".#a.hcl", "_off.hcl", "a.test.hcl", "a.hcl.bak"} {
		p.write(filepath.Join("tools.d", name), "tool \"x\" {")
	}
	out := p.reload()
	diff(t, []any{out.Changed, len(out.Stale)}, []any{false, 0})
}

// The poll is enough where the system gives no events.
func TestThePollIsAFallback(t *testing.T) {
	p := running(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")}, func(o *Options) {
		o.Poll = 5 * time.Millisecond
		o.watch = func(string) (*watcher, error) { return nil, errors.New("no watches left") }
	})
	diff(t, p.r.Status().Watching, "poll")
	p.write("tools.d/a.hcl", native("a", "Two."))
	s := p.next()
	diff(t, []any{s.Trigger, offered(t, s)}, []any{TriggerPoll, map[string]string{"a": "Two."}})
}

func TestWithWatchFalseOnlyExplicitTriggersReload(t *testing.T) {
	off := "runtime {\n  watch = false\n}\n"
	for name, tt := range map[string]struct {
		runtime string
		watch   bool
	}{"flag": {"", false}, "runtime block": {off, true}} {
		t.Run(name, func(t *testing.T) {
			p := start(t, files{"agents/main.hcl": mainHCL + tt.runtime, "tools.d/a.hcl": native("a", "One."), "tools.d/b.hcl": native("b", "One.")},
				func(o *Options) { o.Watch = tt.watch })
			p.run()
			p.write("tools.d/a.hcl", native("a", "Two."))
			p.write("tools.d/c.hcl", native("c", "One."))
			p.remove("tools.d/b.hcl")
			// Status says "changes on disk, not loaded".
			want := []string{"tools.d/a.hcl", "tools.d/b.hcl", "tools.d/c.hcl"}
			until(t, "pending changes", func() bool { return slices.Equal(p.r.Status().Pending, want) })
			diff(t, p.r.Status().Watching, "off")
			diff(t, p.live().Number, int64(1))
			diff(t, p.reload().Changed, true)
			diff(t, p.offered(), map[string]string{"a": "Two.", "c": "One."})
			diff(t, p.r.Status().Pending, nil)
		})
	}
}

// The runtime block decides about watching with every generation.
func TestWatchingIsTurnedOnByAReload(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "agents/runtime.hcl": "runtime {\n  watch = false\n}\n"})
	p.run()
	p.write("agents/runtime.hcl", "runtime {\n  watch = true\n}\n")
	diff(t, p.reload().Changed, true)
	<-p.swaps
	until(t, "watching", func() bool { return p.r.Status().Watching == "fsnotify" })
	p.write("tools.d/a.hcl", native("a", "One."))
	diff(t, offered(t, p.next()), map[string]string{"a": "One."})
}

// What changes between Start and Run is seen.
func TestChangesBeforeRunAreSeen(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL})
	p.write("tools.d/a.hcl", native("a", "One."))
	p.run()
	diff(t, offered(t, p.next()), map[string]string{"a": "One."})
}

// A tools directory that was not there at start is one when it appears.
func TestAToolsDirectoryMayAppear(t *testing.T) {
	p := newProject(t, files{"agents/main.hcl": mainHCL})
	p.remove("tools.d")
	_, err := p.r.Start(t.Context(), false)
	must(t, err)
	<-p.swaps
	p.run()
	until(t, "watching", func() bool { return p.r.Status().Watching == "fsnotify" })
	p.write("tools.d/a.hcl", native("a", "One."))
	diff(t, offered(t, p.next()), map[string]string{"a": "One."})
}

// The agents, keys and policies going away all at once is no wish to have none.
func TestALostConfigDirectoryIsRefused(t *testing.T) {
	for name, tt := range map[string]struct{ lose, back func(p *project) }{
		"directory": {
			func(p *project) { must(t, os.Rename(p.at("agents"), p.at("moved"))) },
			func(p *project) { must(t, os.Rename(p.at("moved"), p.at("agents"))) },
		},
		"files": {func(p *project) { p.remove("agents/main.hcl") }, func(p *project) { p.write("agents/main.hcl", mainHCL) }},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")})
			tt.lose(p)
			out := p.reload()
			diff(t, []any{out.Changed, p.stale(out)["agents/main.hcl"]}, []any{false, "deleted: " + map[string]string{"directory": "Missing", "files": "Invalid"}[name] + " directory (refused)"})
			diff(t, p.names(), []string{"a"})
			tt.back(p)
			diff(t, p.stale(p.reload()), nil)
		})
	}
}

// A tools directory that the configuration names is one at once, and watched.
func TestANewToolsDirectoryIsLoadedAndWatched(t *testing.T) {
	p := running(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One."), "more.d/b.hcl": native("b", "One.")})
	p.write("agents/runtime.hcl", "runtime {\n  tools_dirs = [\"../tools.d\", \"../more.d\"]\n}\n")
	diff(t, offered(t, p.next()), map[string]string{"a": "One.", "b": "One."})
	p.write("more.d/b.hcl", native("b", "Two."))
	diff(t, offered(t, p.next()), map[string]string{"a": "One.", "b": "Two."})
	p.write("more.d/b.hcl", "tool \"b\" {") // below a tools directory: withheld alone
	p.write("tools.d/a.hcl", native("a", "Two."))
	until(t, "the other change", func() bool { return maps.Equal(p.offered(), map[string]string{"a": "Two.", "b": "Two."}) })
}

// The block that names a tools directory is to blame if there is none.
func TestATypoInToolsDirsIsBlamedOnItsFile(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One."), "tools.d/b.hcl": native("b", "One.")})
	p.write("agents/runtime.hcl", "runtime {\n  tools_dirs = [\"../tools.d\", \"../tolls.d\"]\n}\n")
	p.remove("tools.d/b.hcl")
	out := p.reload()
	diff(t, p.stale(out), map[string]string{"agents/runtime.hcl": "added: Missing directory"})
	diff(t, p.names(), []string{"a"})
}

// Tools directories that are gone have no files, whether they are named or not.
func TestADeletedToolsDirectoryTakesItsToolsAway(t *testing.T) {
	named := "runtime {\n  tools_dirs = [\"../tools.d\"]\n}\n"
	p := start(t, files{"agents/main.hcl": mainHCL + named, "tools.d/a.hcl": native("a", "One.")})
	p.remove("tools.d")
	out := p.reload()
	diff(t, []any{out.Changed, len(out.Stale)}, []any{true, 0})
	diff(t, p.names(), nil)
	p.write("tools.d/a.hcl", native("a", "Back."))
	diff(t, p.reload().Changed, true)
	diff(t, p.names(), []string{"a"})
}

// What was said of a change is not said again while nothing new is known.
func TestTheLogSaysOnceWhatIsWithheld(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL})
	p.write("tools.d/a.hcl", "tool \"a\" {")
	for range 3 {
		p.reload()
	}
	diff(t, strings.Count(p.log.String(), "change withheld"), 1)
	p.remove("tools.d/a.hcl")
	p.reload()
	diff(t, strings.Count(p.log.String(), "change no longer withheld"), 1)
	p.write("agents/model.hcl", typo)
	p.write("tools.d/b.hcl", native("b", "One."))
	p.write("tools.d/c.hcl", native("c", "One."))
	for range 2 {
		p.reload()
	}
	diff(t, strings.Count(p.log.String(), `msg="changes withheld" generation=1 with=agents/model.hcl changes=2`), 1)
	p.r.o.load = failing(p.r.o.load)
	for range 2 {
		p.reload()
	}
	diff(t, strings.Count(p.log.String(), `msg="candidate refused" generation=1 changes=3 summary="Invalid weather"`), 1)
}

// A file that cannot be read is withheld alone, like one that does not load.
func TestAnUnreadableFileIsWithheldAlone(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One."), "tools.d/noop.hcl": wasm("noop", "noop.wasm"), "tools.d/noop.wasm": module("1")})
	must(t, os.Truncate(p.at("tools.d/a.hcl"), maxInput+1))
	must(t, os.Truncate(p.at("tools.d/noop.wasm"), maxInput+1))
	p.write("tools.d/b.hcl", native("b", "One."))
	out := p.reload()
	diff(t, slices.Sorted(maps.Keys(p.stale(out))), []string{"tools.d/a.hcl", "tools.d/noop.wasm"})
	diff(t, p.names(), []string{"a", "b", "noop"})
}

func TestAModelWithATypoAndANewToolTogether(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One."), "tools.d/b.hcl": native("b", "One.")})
	p.write("agents/model.hcl", typo)
	p.write("tools.d/new.hcl", native("new", "New."))
	diff(t, p.reload().Changed, false)
	diff(t, p.names(), []string{"a", "b"}) // neither is live
	p.remove("tools.d/b.hcl")
	diff(t, p.reload().Changed, true)
	diff(t, p.names(), []string{"a"}) // and deleting another tool works
	p.write("agents/model.hcl", strings.Replace(typo, "offlin\"", "offline\"", 1))
	out := p.reload()
	diff(t, p.stale(out), nil)
	diff(t, p.names(), []string{"a", "new"})
}

func TestASharedModuleReplacedByABrokenOne(t *testing.T) {
	p := start(t, files{
		"agents/main.hcl": mainHCL, "tools.d/one.hcl": wasm("one", "shared.wasm"), "tools.d/two.hcl": wasm("two", "shared.wasm"),
		"tools.d/shared.wasm": module("1"),
	})
	before := []string{p.call("one"), p.call("two")}
	p.write("tools.d/shared.wasm", module("2")[:20])
	out := p.reload()
	diff(t, []string{p.call("one"), p.call("two")}, before) // both keep the old module
	diff(t, slices.Collect(maps.Keys(p.stale(out))), []string{"tools.d/shared.wasm"})
	var named []string
	for _, d := range p.r.Status().Stale[0].Report {
		named = append(named, d.Path)
	}
	diff(t, named, []string{"tools.d/one.hcl", "tools.d/two.hcl"}) // and both are named
	p.write("tools.d/shared.wasm", module("2"))
	out = p.reload()
	diff(t, []any{out.Changed, len(out.Stale)}, []any{true, 0})
}

func TestALocalMovedBetweenFilesInTwoWrites(t *testing.T) {
	local := "locals {\n  text = \"Shared.\"\n}\n"
	other := "locals {\n  other = 1\n}\n"
	user := strings.Replace(native("a", "X"), `"X"`, "local.text", 1)
	for name, writes := range map[string][2][2]string{
		"removed first": {{"tools.d/from.hcl", other}, {"tools.d/to.hcl", local}},
		"added first":   {{"tools.d/to.hcl", local}, {"tools.d/from.hcl", other}},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/from.hcl": local, "tools.d/a.hcl": user})
			p.write(writes[0][0], writes[0][1])
			out := p.reload()
			diff(t, slices.Collect(maps.Keys(p.stale(out))), []string{writes[0][0]})
			diff(t, p.offered(), map[string]string{"a": "Shared."})
			p.write(writes[1][0], writes[1][1])
			out = p.reload()
			diff(t, []any{out.Changed, p.stale(out)}, []any{true, map[string]string{}})
			diff(t, p.offered(), map[string]string{"a": "Shared."})
		})
	}
}

// A tool that moves between files does not need two saves at once.
func TestAToolMovedBetweenFilesInTwoWrites(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/from.hcl": native("a", "One.")})
	p.write("tools.d/to.hcl", native("a", "One."))
	out := p.reload()
	diff(t, slices.Collect(maps.Keys(p.stale(out))), []string{"tools.d/to.hcl"})
	if s := summaries(out.Diagnostics, hcl.DiagError); len(s) == 0 || !strings.HasPrefix(s[0], "Duplicate") {
		t.Errorf("got %v", s)
	}
	p.remove("tools.d/from.hcl")
	diff(t, p.stale(p.reload()), nil)
	diff(t, p.names(), []string{"a"})
}

// A link that leads to the same bytes elsewhere is no change, and no reason to refuse
// others: not even where a new declaration could not lead.
func TestALinkToTheSameBytesElsewhereIsNoChange(t *testing.T) {
	p := start(t, files{"agents/main.hcl": strings.Replace(mainHCL, `"Help."`, `file("help.md")`, 1), "agents/help.md": "Help."})
	outside := filepath.Join(tempDir(t), "help.md")
	write(t, outside, "Help.")
	p.remove("agents/help.md")
	must(t, os.Symlink(outside, p.at("agents/help.md")))
	diff(t, p.reload().Changed, false)
	p.write("tools.d/a.hcl", native("a", "One."))
	out := p.reload()
	diff(t, []any{out.Changed, len(out.Stale)}, []any{true, 0})
	write(t, outside, "Other bytes.") // now it is one, and leads outside
	out = p.reload()
	if s := p.stale(out)["agents/help.md"]; !strings.HasPrefix(s, "changed: Invalid path") {
		t.Errorf("got %q", s)
	}
	diff(t, p.live().Agents["assistant"].Instructions, "Help.")
}

// A file that is emptied and then written is never taken for an empty one, whenever
// the disk is looked at.
func TestTruncateThenWriteIsNoRemoval(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One."), "tools.d/b.hcl": native("b", "One.")})
	must(t, os.Truncate(p.at("tools.d/a.hcl"), 0))
	written := make(chan error, 1)
	go func() {
		time.Sleep(2 * p.r.o.Quiet) // a writer that is held up between the two
		written <- os.WriteFile(p.at("tools.d/a.hcl"), []byte(native("a", "Two.")), 0o600)
	}()
	out, err := p.r.Reload(t.Context(), TriggerPoll) // a poll in the middle of the write
	must(t, err)
	must(t, <-written)
	diff(t, p.offered(), map[string]string{"a": "Two.", "b": "One."})
	diff(t, out.Generation, int64(2))
}

// Where something else is changed all the time, the wait for a file that was emptied a
// moment ago ends: the rest goes live, and the file is as it was until it is written.
func TestAFileEmptiedWhileOthersChangeIsPostponed(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One."), "tools.d/b.hcl": native("b", "One.")})
	p.write("tools.d/b.hcl", native("b", "Two."))
	must(t, os.Truncate(p.at("tools.d/a.hcl"), 0))
	write(t, p.at("tools.d/new.hcl"), "")
	p.r.news.add(p.at("tools.d/a.hcl"), p.at("tools.d/b.hcl"), p.at("tools.d/new.hcl"))
	p.r.news.told.first, p.r.news.ended = time.Now().Add(-time.Hour), time.Time{} // events came all the time
	out, err := p.r.Reload(t.Context(), TriggerFile)
	must(t, err)
	diff(t, p.offered(), map[string]string{"a": "One.", "b": "Two."})
	diff(t, len(out.Stale), 0)
	p.write("tools.d/a.hcl", native("a", "Two."))
	p.write("tools.d/new.hcl", native("new", "One."))
	_, err = p.r.Reload(t.Context(), TriggerFile)
	must(t, err)
	diff(t, p.offered(), map[string]string{"a": "Two.", "b": "Two.", "new": "One."})
}

// A file system may show a file as empty with the times that it had before.
func TestAFileEmptiedWithItsOldTimesIsNotTakenForAnEmptyOne(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")})
	d, looks := newDisk(p.r.disk.source), 0
	p.r.disk.instead = func(path string) *file {
		f := *d.look(path)
		if looks++; looks < 5 && path == p.at("tools.d/a.hcl") {
			f.content, f.digest, f.written = nil, "of nothing", time.Now().Add(-time.Hour)
		}
		return &f
	}
	p.write("tools.d/a.hcl", native("a", "Two."))
	p.r.news.add(p.at("tools.d/a.hcl"))
	_, err := p.r.Reload(t.Context(), TriggerFile)
	must(t, err)
	diff(t, p.offered(), map[string]string{"a": "Two."})
}
