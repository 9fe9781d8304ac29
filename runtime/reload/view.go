package reload

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/hermes-runtime/hermes/runtime/config"
)

// view is the disk at the time of one candidate: every path is looked at once and
// every directory is listed once, so that all loads of the candidate see the same.
type view struct {
	disk      *disk
	configDir string
	told      told // what may differ from what was last seen

	mu     sync.Mutex // guards below
	files  map[string]func() *file
	lists  map[string]func() ([]string, error)
	broken map[string]error // directories that cannot be listed, below those that can
}

func (d *disk) view(configDir string, t told) *view {
	return &view{
		disk: d, configDir: configDir, told: t,
		files: map[string]func() *file{}, lists: map[string]func() ([]string, error){}, broken: map[string]error{},
	}
}

func (v *view) look(path string) *file {
	v.mu.Lock()
	look, ok := v.files[path]
	if !ok {
		look = v.looker(path)
		v.files[path] = look
	}
	v.mu.Unlock()
	return look()
}

// take makes f what a path is found to be.
func (v *view) take(path string, f *file) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.files[path] = func() *file { return f }
}

func (v *view) looker(path string) func() *file {
	if err := v.broken[path]; err != nil {
		return func() *file { return &file{err: err} }
	}
	if !v.told.all && !v.told.paths[path] {
		if f, ok := v.disk.recall(path); ok {
			return func() *file { return f }
		}
	}
	return sync.OnceValue(func() *file { return v.disk.look(path) })
}

// list gives the declarations below dir. One of them may have vanished since: then it
// is absent when it is looked at.
func (v *view) list(dir string) ([]string, error) {
	v.mu.Lock()
	list, ok := v.lists[dir]
	if !ok {
		list = sync.OnceValues(func() ([]string, error) { return v.listing(dir) })
		v.lists[dir] = list
	}
	v.mu.Unlock()
	return list()
}

// listing takes from what was listed before the files that are told to have changed and
// are gone. A new one is a reason to list again, since the language has rules for names.
func (v *view) listing(dir string) ([]string, error) {
	was, ok := v.disk.listed(dir)
	if v.told.all || !ok {
		return v.relist(dir)
	}
	gone := map[string]bool{}
	for path := range v.told.paths {
		if !under(path, dir) {
			continue
		}
		_, known := slices.BinarySearch(was, path)
		absent := v.look(path).absent()
		if !known && !absent && strings.HasSuffix(path, ".hcl") {
			return v.relist(dir)
		}
		if known && absent {
			gone[path] = true
		}
	}
	if len(gone) == 0 {
		return was, nil
	}
	return v.disk.remember(dir, slices.DeleteFunc(slices.Clone(was), func(path string) bool { return gone[path] })), nil
}

// relist lists dir. A directory below it that cannot be listed is a file that cannot be
// read, and takes nothing with it: it holds up itself alone, and what was seen in it
// before is not deleted.
func (v *view) relist(dir string) ([]string, error) {
	files, err := v.disk.list(dir)
	broken, err := brokenDirs(err)
	if len(broken) == 0 || err != nil {
		return files, err
	}
	v.mu.Lock()
	maps.Copy(v.broken, broken)
	v.mu.Unlock()
	for _, path := range v.disk.known() {
		if strings.HasSuffix(path, ".hcl") && underAny(path, sortedKeys(broken)) {
			if f := v.look(path); f.err != nil && !f.absent() {
				files = append(files, path)
			}
		}
	}
	files = slices.AppendSeq(files, maps.Keys(broken))
	slices.Sort(files)
	return slices.Compact(files), nil
}

// brokenDirs takes the errors of single directories out of that of a listing.
func brokenDirs(err error) (broken map[string]error, rest error) {
	broken = map[string]error{}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil, err
	}
	for _, e := range joined.Unwrap() {
		if d, ok := errors.AsType[*config.DirError](e); ok {
			broken[d.Dir] = unlisted(d.Err)
		} else {
			rest = errors.Join(rest, e)
		}
	}
	return broken, rest
}

// unlisted says of an entry that it is a directory, where a file was looked for.
func unlisted(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	}
	return fmt.Errorf("it is a directory that cannot be listed: %s", strings.TrimSuffix(err.Error(), "."))
}

// isDir says that path is a directory that was asked for.
func (v *view) isDir(path string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, ok := v.lists[path]
	return ok
}

// looked are the paths and directories that were asked for so far.
func (v *view) looked() (files, dirs []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for path := range v.files {
		files = append(files, path)
	}
	for dir := range v.lists {
		dirs = append(dirs, dir)
	}
	return files, dirs
}
