package reload

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// move is one thing done to a directory tree, and the tools that are offered then.
type move struct {
	name string
	do   func(p *project)
	want tools
}

// tree is a history of a project's directories.
type tree struct {
	name  string
	files files
	setup func(p *project)
	moves []move
}

func toolTrees() []tree {
	return []tree{
		{"a tools directory", files{"tools.d/a.hcl": native("a", "One.")}, nil, []move{
			{"replaced by another", func(p *project) {
				p.write("next/a.hcl", native("a", "Two."))
				rename(p.t, p.at("tools.d"), p.at("old"))
				rename(p.t, p.at("next"), p.at("tools.d"))
			}, tools{"a": "Two."}},
			{"a file in the new one", func(p *project) { p.write("tools.d/a.hcl", native("a", "Three.")) }, tools{"a": "Three."}},
			{"a file in the old one", func(p *project) { p.write("old/a.hcl", native("a", "Old.")) }, tools{"a": "Three."}},
			{"removed", func(p *project) { p.remove("tools.d") }, tools{}},
			{"created again", func(p *project) { p.write("tools.d/a.hcl", native("a", "Four.")) }, tools{"a": "Four."}},
			{"removed and created at once", func(p *project) {
				p.remove("tools.d")
				p.write("tools.d/a.hcl", native("a", "Five."))
			}, tools{"a": "Five."}},
			{"exchanged with the old one", func(p *project) {
				rename(p.t, p.at("tools.d"), p.at("tmp"))
				rename(p.t, p.at("old"), p.at("tools.d"))
				rename(p.t, p.at("tmp"), p.at("old"))
			}, tools{"a": "Old."}},
			{"a file in what is live now", func(p *project) { p.write("tools.d/a.hcl", native("a", "Six.")) }, tools{"a": "Six."}},
		}},
		{"directories below", files{"tools.d/sub/deep/a.hcl": native("a", "One.")}, nil, []move{
			{"renamed", func(p *project) { rename(p.t, p.at("tools.d/sub"), p.at("tools.d/other")) }, tools{"a": "One."}},
			{"a file in it", func(p *project) { p.write("tools.d/other/deep/a.hcl", native("a", "Two.")) }, tools{"a": "Two."}},
			{"hidden", func(p *project) { rename(p.t, p.at("tools.d/other"), p.at("tools.d/.other")) }, tools{}},
			{"shown", func(p *project) { rename(p.t, p.at("tools.d/.other"), p.at("tools.d/sub")) }, tools{"a": "Two."}},
			{"a file where the directory was", func(p *project) {
				rename(p.t, p.at("tools.d/sub"), p.at("away"))
				p.write("tools.d/sub", "no directory")
			}, tools{}},
			{"the directory again", func(p *project) {
				p.remove("tools.d/sub")
				rename(p.t, p.at("away"), p.at("tools.d/sub"))
			}, tools{"a": "Two."}},
			{"a file in the directory that was moved", func(p *project) { p.write("tools.d/sub/deep/a.hcl", native("a", "Three.")) }, tools{"a": "Three."}},
			{"moved in from outside", func(p *project) {
				p.write("outside/more/b.hcl", native("b", "New."))
				rename(p.t, p.at("outside"), p.at("tools.d/more"))
			}, tools{"a": "Three.", "b": "New."}},
			{"created one in the other, and filled", func(p *project) { p.write("tools.d/1/2/3/4/5/c.hcl", native("c", "Deep.")) }, tools{"a": "Three.", "b": "New.", "c": "Deep."}},
		}},
		{"a directory in place of a file", files{"tools.d/a.hcl": native("a", "One."), "tools.d/b.hcl": native("b", "One.")}, nil, []move{
			{"with the name of a declaration", func(p *project) {
				p.remove("tools.d/a.hcl")
				p.write("tools.d/a.hcl/inside.hcl", native("a", "Inside."))
			}, tools{"a": "Inside.", "b": "One."}},
			{"and back", func(p *project) {
				p.remove("tools.d/a.hcl")
				p.write("tools.d/a.hcl", native("a", "Two."))
			}, tools{"a": "Two.", "b": "One."}},
		}},
		{"names that differ in case", files{"tools.d/a.hcl": native("a", "One.")}, nil, []move{
			{"renamed", func(p *project) { rename(p.t, p.at("tools.d/a.hcl"), p.at("tools.d/A.hcl")) }, tools{"a": "One."}},
			{"written", func(p *project) { p.write("tools.d/A.hcl", native("a", "Two.")) }, tools{"a": "Two."}},
			{"by way of another name", func(p *project) {
				rename(p.t, p.at("tools.d/A.hcl"), p.at("tools.d/A.hcl.tmp"))
				rename(p.t, p.at("tools.d/A.hcl.tmp"), p.at("tools.d/a.hcl"))
			}, tools{"a": "Two."}},
			{"the directory", func(p *project) {
				p.write("tools.d/Sub/b.hcl", native("b", "One."))
				rename(p.t, p.at("tools.d/Sub"), p.at("tools.d/sub"))
			}, tools{"a": "Two.", "b": "One."}},
		}},
		{"a whole project", files{"tools.d/a.hcl": native("a", "One.")}, nil, []move{
			{"moved away and back", func(p *project) {
				rename(p.t, p.root, p.root+".away")
				rename(p.t, p.root+".away", p.root)
				p.write("tools.d/a.hcl", native("a", "Two."))
			}, tools{"a": "Two."}},
			{"replaced by a copy", func(p *project) {
				must(p.t, os.CopyFS(p.root+".copy", os.DirFS(p.root)))
				rename(p.t, p.root, p.root+".before")
				rename(p.t, p.root+".copy", p.root)
				p.write("tools.d/a.hcl", native("a", "Three."))
			}, tools{"a": "Three."}},
			{"a file in the copy", func(p *project) { p.write("tools.d/a.hcl", native("a", "Four.")) }, tools{"a": "Four."}},
		}},
	}
}

// mount writes a version of a volume as an orchestrator does: a directory of its own
// behind one link, which all the files' links lead through.
func mount(p *project, volume, version, description string, names ...string) {
	p.t.Helper()
	for _, name := range names {
		p.write(filepath.Join(volume, ".."+version, name+".hcl"), native(name, description))
	}
	old, err := os.Readlink(p.at(filepath.Join(volume, "..data")))
	relink(p.t, ".."+version, p.at(filepath.Join(volume, "..data")))
	for _, name := range names {
		link := p.at(filepath.Join(volume, name+".hcl"))
		if _, err := os.Lstat(link); err != nil {
			must(p.t, os.Symlink("..data/"+name+".hcl", link))
		}
	}
	links, lerr := filepath.Glob(p.at(filepath.Join(volume, "*.hcl")))
	must(p.t, lerr)
	for _, link := range links {
		if _, err := os.Stat(link); err != nil {
			must(p.t, os.Remove(link)) // of a key that the new version does not have
		}
	}
	if err == nil {
		p.remove(filepath.Join(volume, old))
	}
}

func linkTrees() []tree {
	return []tree{
		{"a mounted volume", files{}, func(p *project) { mount(p, "tools.d", "v1", "One.", "a", "b") }, []move{
			{"updated", func(p *project) { mount(p, "tools.d", "v2", "Two.", "a", "b") }, tools{"a": "Two.", "b": "Two."}},
			{"with another file", func(p *project) { mount(p, "tools.d", "v3", "Three.", "a", "b", "c") }, tools{"a": "Three.", "b": "Three.", "c": "Three."}},
			{"with fewer files", func(p *project) { mount(p, "tools.d", "v4", "Four.", "a") }, tools{"a": "Four."}},
			{"updated twice at once", func(p *project) {
				mount(p, "tools.d", "v5", "Five.", "a")
				mount(p, "tools.d", "v6", "Six.", "a")
			}, tools{"a": "Six."}},
		}},
		{"a volume mounted below", files{}, func(p *project) { mount(p, "tools.d/team", "v1", "One.", "a") }, []move{
			{"updated", func(p *project) { mount(p, "tools.d/team", "v2", "Two.", "a") }, tools{"a": "Two."}},
			{"and another", func(p *project) { mount(p, "tools.d/other", "v1", "One.", "b") }, tools{"a": "Two.", "b": "One."}},
			{"updated too", func(p *project) { mount(p, "tools.d/other", "v2", "Two.", "b") }, tools{"a": "Two.", "b": "Two."}},
		}},
		{"one file of a volume", files{}, func(p *project) {
			mount(p, "volume", "v1", "One.", "a")
			must(p.t, os.Symlink("../volume/a.hcl", p.at("tools.d/a.hcl")))
		}, []move{
			{"updated", func(p *project) { mount(p, "volume", "v2", "Two.", "a") }, tools{"a": "Two."}},
			{"updated again", func(p *project) { mount(p, "volume", "v3", "Three.", "a") }, tools{"a": "Three."}},
		}},
		{"a release behind a link", files{"releases/1/a.hcl": native("a", "One."), "releases/2/a.hcl": native("a", "Two."), "releases/2/b.hcl": native("b", "Two.")}, func(p *project) {
			p.remove("tools.d")
			must(p.t, os.Symlink("releases/1", p.at("tools.d")))
		}, []move{
			{"switched", func(p *project) { relink(p.t, "releases/2", p.at("tools.d")) }, tools{"a": "Two.", "b": "Two."}},
			{"switched back", func(p *project) { relink(p.t, "releases/1", p.at("tools.d")) }, tools{"a": "One."}},
			{"a file of it written", func(p *project) { p.write("releases/1/a.hcl", native("a", "Three.")) }, tools{"a": "Three."}},
			{"to nothing", func(p *project) { relink(p.t, "releases/none", p.at("tools.d")) }, tools{}},
			{"which appears", func(p *project) { p.write("releases/none/a.hcl", native("a", "Late.")) }, tools{"a": "Late."}},
		}},
		{"links in a row", files{"files/a.hcl": native("a", "One."), "files/b.hcl": native("a", "Two.")}, func(p *project) {
			must(p.t, os.Symlink("a.hcl", p.at("files/current.hcl")))
			must(p.t, os.Symlink("../files/current.hcl", p.at("tools.d/a.hcl")))
		}, []move{
			{"the middle one", func(p *project) { relink(p.t, "b.hcl", p.at("files/current.hcl")) }, tools{"a": "Two."}},
			{"the file at the end", func(p *project) { p.write("files/b.hcl", native("a", "Three.")) }, tools{"a": "Three."}},
			{"dangling", func(p *project) { relink(p.t, "none.hcl", p.at("files/current.hcl")) }, tools{}},
			{"no more", func(p *project) { p.write("files/none.hcl", native("a", "Four.")) }, tools{"a": "Four."}},
			{"replaced by a file", func(p *project) {
				p.remove("tools.d/a.hcl")
				p.write("tools.d/a.hcl", native("a", "Five."))
			}, tools{"a": "Five."}},
		}},
		{"a directory under two names", files{"tools.d/sub/a.hcl": "locals {\n  x = 1\n}\n" + native("a", "One.")}, func(p *project) {
			must(p.t, os.Symlink("sub/extra", p.at("tools.d/again")))
			p.write("tools.d/sub/extra/notes.md", "")
		}, []move{
			{"a file in it", func(p *project) { p.write("tools.d/sub/a.hcl", native("a", "Two.")) }, tools{"a": "Two."}},
		}},
	}
}

// What happens to directories and links, with events and without, is followed in every
// step, and what it leaves behind is watched.
func TestDirectoriesAndLinksAreFollowed(t *testing.T) {
	for how, option := range map[string]func(*Options){"events": func(*Options) {}, "polls": polling} {
		for _, tt := range append(toolTrees(), linkTrees()...) {
			t.Run(tt.name+", "+how, func(t *testing.T) {
				t.Parallel()
				fs := maps.Clone(tt.files)
				fs["agents/main.hcl"] = mainHCL
				p := newProject(t, fs, option)
				if tt.setup != nil {
					tt.setup(p)
				}
				_, err := p.r.Start(t.Context(), false)
				must(t, err)
				p.run()
				until(t, "watching", func() bool { return p.r.Status().Watching != "off" })
				last := unfenced(p.offered())
				p.made()
				for _, m := range tt.moves {
					m.do(p)
					p.goesLive(m.name, m.want)
					only(t, p.fence(), last, m.want)
					if t.Failed() {
						t.Fatalf("at %s\n%s", m.name, p.log)
					}
					last = m.want
				}
			})
		}
	}
}

// A config directory is replaced like any other; while there is none, nothing changes.
func TestTheConfigDirectoryIsReplaced(t *testing.T) {
	says := func(text string) string { return strings.Replace(mainHCL, "Help.", text, 1) }
	for how, option := range map[string]func(*Options){"events": func(*Options) {}, "polls": polling} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			p := running(t, files{"agents/main.hcl": says("One."), "tools.d/a.hcl": native("a", "One.")}, option)
			live := func(text string) {
				t.Helper()
				until(t, text, func() bool { return p.live().Agents["assistant"].Instructions == text })
			}
			p.write("next/main.hcl", says("Two."))
			rename(t, p.at("agents"), p.at("old"))
			rename(t, p.at("next"), p.at("agents"))
			live("Two.")
			p.write("agents/main.hcl", says("Three."))
			live("Three.")
			rename(t, p.at("agents"), p.at("gone"))
			until(t, "a refusal", func() bool { return len(p.r.Status().Stale) > 0 })
			live("Three.")
			rename(t, p.at("gone"), p.at("agents"))
			until(t, "an end of the refusal", func() bool { return len(p.r.Status().Stale) == 0 })
			p.write("agents/main.hcl", says("Four."))
			live("Four.")
			for _, s := range p.swapsNow() {
				if s.Agents["assistant"] == nil {
					t.Error("a generation has no agent")
				}
			}
		})
	}
}

// The configuration of a mounted volume changes as a whole.
func TestAConfigVolumeIsSwapped(t *testing.T) {
	p := newProject(t, files{"tools.d/a.hcl": native("a", "One.")})
	volume := func(version, text string) {
		p.write("agents/.."+version+"/main.hcl", strings.Replace(mainHCL, `"Help."`, `file("help.md")`, 1))
		p.write("agents/.."+version+"/help.md", text)
		relink(t, ".."+version, p.at("agents/..data"))
	}
	volume("v1", "One.")
	for _, name := range []string{"main.hcl", "help.md"} {
		must(t, os.Symlink("..data/"+name, p.at("agents/"+name)))
	}
	_, err := p.r.Start(t.Context(), false)
	must(t, err)
	p.run()
	until(t, "watching", func() bool { return p.r.Status().Watching == "fsnotify" })
	for _, text := range []string{"Two.", "Three."} {
		volume("v"+text, text)
		until(t, text, func() bool { return p.live().Agents["assistant"].Instructions == text })
	}
	diff(t, p.r.Status().Stale, nil)
}
