package reload

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxLinks bounds the links followed on the way to one path.
const maxLinks = 40

// place is a watched directory.
type place struct {
	// tree says that declarations are looked for in it: every entry matters.
	tree bool
	// names are entries that matter for more than their own content: links that others
	// lead through, and inputs that stand outside the trees.
	names map[string]bool
	// named is what a tree's directory is called where it is read.
	named []string
	// self is the directory that the system watches for us under this path; nil: that is
	// not certain.
	self fs.FileInfo
}

// places are the directories whose entries decide what a configuration is read from,
// by real path, so that a directory reached in two ways is watched once.
type places map[string]*place

func (p places) at(dir string) *place {
	if p[dir] == nil {
		p[dir] = &place{names: map[string]bool{}}
	}
	return p[dir]
}

// entry notes that what happens to one entry of a directory matters.
func (p places) entry(dir, name string) { p.at(dir).names[name] = true }

// declares notes that declarations are looked for in dir, which is read as named.
func (p places) declares(dir, named string) {
	at := p.at(dir)
	at.tree = true
	if !slices.Contains(at.named, named) {
		at.named = append(at.named, named)
	}
}

// beyond says that p has a directory or an entry that before does not, or another
// directory at the same path.
func (p places) beyond(before places) bool {
	for dir, now := range p {
		was := before[dir]
		if was == nil || now.tree && !was.tree || !os.SameFile(was.self, now.self) {
			return true
		}
		for name := range now.names {
			if !was.names[name] {
				return true
			}
		}
	}
	return false
}

// moved gives the directories that are not any more where they were watched.
func (p places) moved() []string {
	var out []string
	for dir, at := range p {
		now, err := os.Stat(dir)
		if err != nil || at.self == nil || !os.SameFile(now, at.self) {
			out = append(out, dir)
		}
	}
	return out
}

// path notes all that decides what path means: for each link on the way the
// directory it stands in, and in the end the directory that holds the file, or, of one
// that is not there, the deepest that exists.
func (p places) path(path string) {
	at, rest := string(filepath.Separator), parts(path)
	for links := 0; len(rest) > 0; {
		next := filepath.Join(at, rest[0])
		info, err := os.Lstat(next)
		if err != nil || len(rest) == 1 {
			p.entry(at, rest[0])
		}
		if err != nil {
			return
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at, rest = next, rest[1:]
			continue
		}
		p.entry(at, rest[0])
		target, err := os.Readlink(next)
		if links++; err != nil || links > maxLinks {
			return
		}
		if filepath.IsAbs(target) {
			at = string(filepath.Separator)
		}
		rest = append(parts(target), rest[1:]...)
	}
}

// parts are the names on the way down a path.
func parts(path string) []string {
	clean := strings.Trim(filepath.Clean(path), string(filepath.Separator))
	if clean == "" {
		return nil
	}
	return strings.Split(clean, string(filepath.Separator))
}
