package file

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
)

// maxWalked bounds how many entries one call looks at.
const maxWalked = 100_000

// errWalked ends a walk at its bound.
var errWalked = errors.New("too many entries")

// visit is called for every entry below the start, in order of path, each folder before
// what is in it. It says whether to go into a folder.
type visit func(p string, info fs.FileInfo) (enter bool, err error)

// walk goes through the folder p without following links. Folders and entries that
// cannot be read are counted and passed over. Names are described through the root one
// by one, since what a directory handle says of its entries is looked up by path.
type walk struct {
	t          tree
	max        int // entries; 0: maxWalked
	seen       int
	unreadable int
}

func (w *walk) run(ctx context.Context, p string, v visit) error {
	names, err := w.t.names(p, or(w.max, maxWalked))
	if err != nil {
		w.unreadable++
		return nil
	}
	for _, name := range names {
		if err := stopped(ctx); err != nil {
			return err
		}
		if w.seen++; w.seen > or(w.max, maxWalked) {
			return errWalked
		}
		at := path.Join(p, name)
		info, _, err := w.t.lstat(at)
		if err != nil {
			w.unreadable++
			continue
		}
		enter, err := v(at, info)
		if err != nil {
			return err
		}
		if enter && info.IsDir() {
			if err := w.run(ctx, at, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// names lists a folder, sorted; of more than most names it gives some.
func (t tree) names(p string, most int) ([]string, error) {
	f, err := t.Open(p)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	names, err := f.Readdirnames(most + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}

// start checks that p is a folder that can be walked.
func (t tree) start(p string) (fs.FileInfo, error) {
	info, err := t.Stat(p)
	if err != nil {
		return nil, t.explain(err, p)
	}
	return info, nil
}
