//go:build unix

package reload

import (
	"bytes"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// odd is something at the path of a declaration that is no file which can be read.
type odd struct {
	name string
	// make makes it at path, to be moved to final.
	make func(t *testing.T, path, final string)
	// gone says that it counts for no file at all.
	gone bool
}

func oddities() []odd {
	return []odd{
		{"a pipe", func(t *testing.T, path, final string) { must(t, syscall.Mkfifo(path, 0o644)) }, false},
		{"a link to a pipe", func(t *testing.T, path, final string) {
			must(t, syscall.Mkfifo(final+".pipe", 0o644))
			must(t, os.Symlink(final+".pipe", path))
		}, false},
		{"a socket", func(t *testing.T, path, final string) {
			l, err := net.Listen("unix", path)
			must(t, err)
			l.(*net.UnixListener).SetUnlinkOnClose(false)
			must(t, l.Close())
		}, false},
		{"a device without end", func(t *testing.T, path, final string) { must(t, os.Symlink("/dev/zero", path)) }, false},
		{"an empty device", func(t *testing.T, path, final string) { must(t, os.Symlink("/dev/null", path)) }, false},
		{"a link to itself", func(t *testing.T, path, final string) { must(t, os.Symlink(filepath.Base(final), path)) }, false},
		{"two links to each other", func(t *testing.T, path, final string) {
			must(t, os.Symlink(final+".other", path))
			must(t, os.Symlink(final, final+".other"))
		}, false},
		{"a link to nothing", func(t *testing.T, path, final string) { must(t, os.Symlink("nowhere", path)) }, true},
		{"a link through a file", func(t *testing.T, path, final string) { must(t, os.Symlink("b.hcl/x", path)) }, true},
		{"a huge file", func(t *testing.T, path, final string) {
			write(t, path, native("a", "Huge."))
			must(t, os.Truncate(path, 1<<40))
		}, false},
		{"a file over the limit of declarations", func(t *testing.T, path, final string) {
			write(t, path, native("a", "Large.")+strings.Repeat("# much to say\n", 1<<19))
		}, false},
		{"junk", func(t *testing.T, path, final string) { write(t, path, "\x7fELF\x02\x01\xff\xfe\x00\x80tool \"a\" {}") }, false},
		{"zeros", func(t *testing.T, path, final string) { write(t, path, strings.Repeat("\x00", 100)) }, false},
		{"a zero in a description", func(t *testing.T, path, final string) { write(t, path, native("a", "T\x00wo.")) }, false},
		{"bytes that are no text", func(t *testing.T, path, final string) { write(t, path, native("a", "T\xffwo.")) }, false},
		{"text in 16 bits", func(t *testing.T, path, final string) {
			write(t, path, "\xff\xfe"+strings.Join(strings.Split(native("a", "Two."), ""), "\x00")+"\x00")
		}, false},
		{"a directory that contains itself", func(t *testing.T, path, final string) { must(t, os.Symlink(".", path)) }, false},
	}
}

// What is no file, or none that can be read, is withheld alone, whatever it is. Nothing
// waits for it, what it took the place of stays in force, and others go on changing.
func TestWhatIsNoReadableFileIsWithheldAlone(t *testing.T) {
	for how, option := range map[string]func(*Options){"events": func(*Options) {}, "polls": polling} {
		for _, tt := range oddities() {
			t.Run(tt.name+", "+how, func(t *testing.T) {
				t.Parallel()
				p := running(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One."), "tools.d/b.hcl": native("b", "One.")}, option)
				tt.make(t, p.at("tools.d/.odd"), p.at("tools.d/a.hcl"))
				rename(t, p.at("tools.d/.odd"), p.at("tools.d/a.hcl"))
				p.write("tools.d/b.hcl", native("b", "Two."))
				want := tools{"a": "One.", "b": "Two."}
				if tt.gone {
					delete(want, "a")
				}
				p.goesLive("the change beside it", want)
				stale := func() bool {
					st := p.r.Status().Stale
					return slices.ContainsFunc(st, func(s Stale) bool { return s.Path == "tools.d/a.hcl" && len(s.Report) > 0 })
				}
				if !tt.gone {
					until(t, "a word about it", stale)
				}
				must(t, os.RemoveAll(p.at("tools.d/a.hcl")))
				p.write("tools.d/a.hcl", native("a", "Three."))
				p.goesLive("a file again", tools{"a": "Three.", "b": "Two."})
				until(t, "an empty stale list", func() bool { return len(p.r.Status().Stale) == 0 })
			})
		}
	}
}

// Unusual text is text.
func TestUnusualTextIsLoaded(t *testing.T) {
	for name, content := range map[string]string{
		"a byte order mark":                  "\ufeff" + native("a", "Two."),
		"lines that end as on other systems": strings.ReplaceAll(native("a", "Two."), "\n", "\r\n"),
		"no line end at the end":             strings.TrimSpace(native("a", "Two.")),
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")})
			p.write("tools.d/a.hcl", content)
			out := p.reload()
			// A byte order mark may be refused; it is then said, and nothing else happens.
			if refused := len(out.Stale) == 1 && name == "a byte order mark"; refused {
				diff(t, p.offered(), tools{"a": "One."})
				return
			}
			diff(t, staleOf(out.Stale), nil)
			diff(t, p.offered(), tools{"a": "Two."})
		})
	}
}

// A pipe that takes the place of a file between two looks at it does not hold up the
// reload: it is opened without waiting for who writes to it.
func TestOpeningDoesNotWaitForAPipe(t *testing.T) {
	path := filepath.Join(tempDir(t), "a.hcl")
	must(t, syscall.Mkfifo(path, 0o644))
	f := readFile(path)
	if f.err == nil || !strings.Contains(f.err.Error(), "not a regular file") {
		t.Errorf("got %v", f.err)
	}
}

// What may not be read is withheld alone, a file as well as a directory, and what it
// held stays in force; when it may be read again it is. The system lets root read all,
// so the test runs again as somebody else.
func TestWhatMayNotBeReadIsWithheldAlone(t *testing.T) {
	if os.Getuid() == 0 {
		runAs(t, 65534)
		return
	}
	for how, option := range map[string]func(*Options){"events": func(*Options) {}, "polls": polling} {
		t.Run(how, func(t *testing.T) {
			p := running(t, files{
				"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One."), "tools.d/sub/b.hcl": native("b", "One."), "tools.d/c.hcl": native("c", "One."),
			}, option)
			lock := func(path string) { must(t, os.Chmod(p.at(path), 0)) }
			p.write("tools.d/a.hcl", native("a", "Two."))
			lock("tools.d/a.hcl")
			lock("tools.d/sub")
			t.Cleanup(func() { must(t, os.Chmod(p.at("tools.d/sub"), 0o755)) })
			p.write("tools.d/c.hcl", native("c", "Two."))
			p.goesLive("the change beside them", tools{"a": "One.", "b": "One.", "c": "Two."})
			until(t, "what cannot be read", func() bool {
				return slices.Equal(sortedKeys(staleOf(p.r.Status().Stale)), []string{"tools.d/a.hcl", "tools.d/sub", "tools.d/sub/b.hcl"})
			})
			must(t, os.Chmod(p.at("tools.d/sub"), 0o755))
			must(t, os.Chmod(p.at("tools.d/a.hcl"), 0o644))
			p.goesLive("all of it", tools{"a": "Two.", "b": "One.", "c": "Two."})
			until(t, "an empty stale list", func() bool { return len(p.r.Status().Stale) == 0 })
			p.write("tools.d/sub/b.hcl", native("b", "Two."))
			p.goesLive("a change in the directory", tools{"a": "Two.", "b": "Two.", "c": "Two."})
		})
	}
}

// runAs runs the test again under another user, from a copy that this one may run.
func runAs(t *testing.T, user uint32) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	dir := t.TempDir()
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	copied, tmp := filepath.Join(dir, "test"), filepath.Join(dir, "tmp")
	copyProgram(t, self, copied)
	must(t, os.Mkdir(tmp, 0o755))
	must(t, os.Chown(tmp, int(user), int(user)))
	c := exec.CommandContext(t.Context(), copied, "-test.run=^"+t.Name()+"$", "-test.count=1")
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	out, err := c.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("PASS")) {
		t.Errorf("as another user: %v\n%s", err, out)
	}
}

func copyProgram(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	must(t, err)
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	must(t, err)
	_, err = io.Copy(out, in)
	must(t, err)
	must(t, out.Close())
}
