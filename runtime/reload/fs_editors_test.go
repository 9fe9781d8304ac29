package reload

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// saver is a way in which programs replace the content of a file.
type saver struct {
	name string
	save func(t *testing.T, path, content string)
}

func savers() []saver {
	return append(append(plainSavers(), editorSavers()...), programSavers()...)
}

func plainSavers() []saver {
	return []saver{
		{"in place", func(t *testing.T, path, content string) { write(t, path, content) }},
		{"emptied, then written slowly", func(t *testing.T, path, content string) {
			f, err := os.Create(path)
			must(t, err)
			slowly(t, f, content, 6, 20*time.Millisecond)
		}},
		{"written over from the start, then cut", func(t *testing.T, path, content string) {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			must(t, err)
			_, err = f.WriteString(content)
			must(t, err)
			must(t, f.Truncate(int64(len(content))))
			must(t, f.Close())
		}},
		{"allocated, then filled", func(t *testing.T, path, content string) {
			f, err := os.Create(path)
			must(t, err)
			must(t, f.Truncate(int64(len(content))))
			slowly(t, f, content, 4, 20*time.Millisecond)
		}},
		{"deleted and created at once", func(t *testing.T, path, content string) {
			must(t, os.Remove(path))
			write(t, path, content)
		}},
		{"renamed over, older than before", func(t *testing.T, path, content string) {
			write(t, path+".new", content)
			old := time.Now().Add(-24 * 365 * time.Hour)
			must(t, os.Chtimes(path+".new", old, old))
			rename(t, path+".new", path)
		}},
		{"written, dated in the future", func(t *testing.T, path, content string) {
			write(t, path, content)
			far := time.Now().Add(24 * 365 * time.Hour)
			must(t, os.Chtimes(path, far, far))
		}},
		{"written, its time set back", func(t *testing.T, path, content string) {
			info, err := os.Stat(path)
			must(t, err)
			write(t, path, content)
			must(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
		}},
		{"a link to a new file", func(t *testing.T, path, content string) {
			target := filepath.Join(filepath.Dir(filepath.Dir(path)), "versions", time.Now().Format("150405.000000000"))
			write(t, target, content)
			must(t, os.Remove(path))
			must(t, os.Symlink(target, path))
		}},
	}
}

func editorSavers() []saver {
	return []saver{
		{"vim, backupcopy=no", func(t *testing.T, path, content string) {
			dir := filepath.Dir(path)
			write(t, filepath.Join(dir, ".a.hcl.swp"), "swap")
			write(t, filepath.Join(dir, "4913"), "")
			must(t, os.Remove(filepath.Join(dir, "4913")))
			rename(t, path, path+"~")
			write(t, path, content)
			must(t, os.Remove(path+"~"))
			must(t, os.Remove(filepath.Join(dir, ".a.hcl.swp")))
		}},
		{"vim, backupcopy=yes", func(t *testing.T, path, content string) {
			old, err := os.ReadFile(path)
			must(t, err)
			write(t, path+"~", string(old))
			write(t, path, content)
			must(t, os.Remove(path+"~"))
		}},
		{"a safe write by temporary and old file", func(t *testing.T, path, content string) {
			write(t, path+"___jb_tmp___", content)
			rename(t, path, path+"___jb_old___")
			rename(t, path+"___jb_tmp___", path)
			must(t, os.Remove(path+"___jb_old___"))
		}},
		{"emacs: lock link, auto-save, backup", func(t *testing.T, path, content string) {
			dir := filepath.Dir(path)
			lock := filepath.Join(dir, ".#a.hcl")
			must(t, os.Symlink("user@host.1:2", lock))
			write(t, filepath.Join(dir, "#a.hcl#"), content[:10])
			_ = os.Remove(path + "~")
			rename(t, path, path+"~")
			write(t, path, content)
			must(t, os.Remove(filepath.Join(dir, "#a.hcl#")))
			must(t, os.Remove(lock))
		}},
		{"a copy tool's hidden temporary file", func(t *testing.T, path, content string) {
			tmp := filepath.Join(filepath.Dir(path), ".a.hcl.Xy12Zw")
			f, err := os.Create(tmp)
			must(t, err)
			slowly(t, f, content, 3, 20*time.Millisecond)
			old := time.Now().Add(-time.Hour)
			must(t, os.Chtimes(tmp, old, old))
			rename(t, tmp, path)
		}},
		{"a copy tool in place", func(t *testing.T, path, content string) {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			must(t, err)
			_, err = f.WriteString(content)
			must(t, err)
			must(t, f.Truncate(int64(len(content))))
			must(t, f.Close())
			old := time.Now().Add(-time.Hour)
			must(t, os.Chtimes(path, old, old))
		}},
	}
}

// outside writes content to a file of the same name outside the project.
func outside(t *testing.T, path, content string) string {
	t.Helper()
	other := filepath.Join(tempDir(t), filepath.Base(path))
	write(t, other, content)
	return other
}

func programSavers() []saver {
	return []saver{
		{"vim", func(t *testing.T, path, content string) {
			program(t, filepath.Dir(path), "vim", "-n", "-es", "-u", "NONE", "-c", "set writebackup backupcopy=no",
				"-c", "%d", "-c", "0r "+outside(t, path, content), "-c", "wq", path)
		}},
		{"sed -i", func(t *testing.T, path, content string) {
			program(t, filepath.Dir(path), "sed", "-i", "s/description = .*/"+described(content)+"/", path)
		}},
		{"perl -i", func(t *testing.T, path, content string) {
			program(t, filepath.Dir(path), "perl", "-pi", "-e", "s/description = .*/"+described(content)+"/", path)
		}},
		{"ed", func(t *testing.T, path, content string) {
			program(t, filepath.Dir(path), "sh", "-c", "command -v ed >/dev/null || exit 0; printf '%s\n' '%s/description = .*/"+described(content)+"/' w q | ed -s "+filepath.Base(path))
		}},
		{"shell redirection", func(t *testing.T, path, content string) {
			program(t, filepath.Dir(path), "sh", "-c", "cat "+outside(t, path, content)+" > "+filepath.Base(path))
		}},
		{"cp -p of an old file", func(t *testing.T, path, content string) {
			from := outside(t, path, content)
			must(t, os.Chtimes(from, time.Unix(1, 0), time.Unix(1, 0)))
			program(t, filepath.Dir(path), "cp", "-p", from, path)
		}},
		{"install", func(t *testing.T, path, content string) {
			program(t, filepath.Dir(path), "install", "-m", "644", outside(t, path, content), path)
		}},
		{"mv from another directory", func(t *testing.T, path, content string) {
			program(t, filepath.Dir(path), "mv", outside(t, path, content), path)
		}},
		{"dd over it, not cut", func(t *testing.T, path, content string) {
			program(t, filepath.Dir(path), "dd", "if="+outside(t, path, content), "of="+path, "conv=notrunc", "bs=16", "status=none")
		}},
		{"tar with old times", func(t *testing.T, path, content string) {
			from := outside(t, path, content)
			must(t, os.Chtimes(from, time.Unix(1, 0), time.Unix(1, 0)))
			archive := filepath.Join(tempDir(t), "a.tar")
			program(t, filepath.Dir(from), "tar", "cf", archive, filepath.Base(from))
			program(t, filepath.Dir(path), "tar", "xf", archive)
		}},
		{"unzip with old times", func(t *testing.T, path, content string) {
			archive := filepath.Join(tempDir(t), "a.zip")
			write(t, archive, zipped(t, filepath.Base(path), content))
			program(t, filepath.Dir(path), "unzip", "-oq", archive)
		}},
	}
}

// described is the line of a description, as a replacement.
func described(content string) string {
	for line := range strings.Lines(content) {
		if strings.Contains(line, "description =") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

func zipped(t *testing.T, name, content string) string {
	t.Helper()
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	f, err := z.CreateHeader(&zip.FileHeader{Name: name, Modified: time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)})
	must(t, err)
	_, err = f.Write([]byte(content))
	must(t, err)
	must(t, z.Close())
	return buf.String()
}

// However a file is saved, its new content goes live by itself, and again the next time;
// no generation has anything that nobody wrote, and nothing stays behind as stale.
func TestEveryWayToSaveGoesLive(t *testing.T) {
	for _, s := range savers() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			p := running(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One."), "tools.d/b.hcl": native("b", "Other.")})
			p.fence()
			last := tools{"a": "One.", "b": "Other."}
			for _, text := range []string{"Two.", "Three.", "Four."} {
				now := tools{"a": text, "b": "Other."}
				s.save(t, p.at("tools.d/a.hcl"), native("a", text))
				p.goesLive(text, now)
				only(t, p.fence(), last, now)
				last = now
			}
			until(t, "an empty stale list", func() bool { return len(p.r.Status().Stale) == 0 })
		})
	}
}

// The same, with nothing but polls.
func TestThePollFindsEveryWayToSave(t *testing.T) {
	for _, s := range savers() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			p := running(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One."), "tools.d/b.hcl": native("b", "Other.")}, polling)
			last := tools{"a": "One.", "b": "Other."}
			for _, text := range []string{"Two.", "Three."} {
				now := tools{"a": text, "b": "Other."}
				s.save(t, p.at("tools.d/a.hcl"), native("a", text))
				p.goesLive(text, now)
				only(t, p.made(), last, now)
				last = now
			}
			until(t, "an empty stale list", func() bool { return len(p.r.Status().Stale) == 0 })
		})
	}
}

// polling is a system that gives no events.
func polling(o *Options) {
	o.Poll = 5 * time.Millisecond
	o.watch = func(string) (*watcher, error) { return nil, os.ErrInvalid }
}
