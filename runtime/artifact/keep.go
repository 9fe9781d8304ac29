package artifact

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
)

// Keep removes every artifact that is not in digests. One that a Put gave while Keep ran,
// or is about to give, stays. After an error, or a crash, some are removed and some are
// not: those in digests are there in any case, and calling again removes the rest. What
// is no artifact is left alone.
func (s *Store) Keep(ctx context.Context, digests map[string]bool) error {
	return s.KeepOnly(ctx, func(context.Context) (map[string]bool, error) { return digests, nil })
}

// KeepOnly is Keep of what wanted says. It is asked once what is held is known: what it
// does not know of because it was put meanwhile stays.
func (s *Store) KeepOnly(ctx context.Context, wanted func(context.Context) (map[string]bool, error)) error {
	s.keeping.Lock()
	defer s.keeping.Unlock()
	defer s.spare()()
	digests, err := wanted(ctx)
	if err != nil {
		return err
	}
	outer, err := s.folders(".")
	for _, dir := range outer {
		inner, ierr := s.folders(dir)
		err = errors.Join(err, ierr)
		for _, dir := range inner {
			err = errors.Join(err, s.keepIn(ctx, dir, digests))
		}
		err = errors.Join(err, s.dropEmpty(dir))
	}
	if err != nil {
		return explain(fmt.Errorf("removing artifacts: %w", err))
	}
	return nil
}

// spare begins to remember what is published, until done.
func (s *Store) spare() (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spared = map[string]bool{}
	for digest := range s.puts {
		s.spared[digest] = true
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.spared = nil
	}
}

// keepIn removes the artifacts of one folder that are not in digests.
func (s *Store) keepIn(ctx context.Context, dir string, digests map[string]bool) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	entries, err := s.entries(dir)
	for _, e := range entries {
		if name := e.Name(); e.Mode().IsRegular() && isDigest(name) && nameOf(name) == path.Join(dir, name) && !digests[name] {
			err = errors.Join(err, s.drop(name))
		}
	}
	return errors.Join(err, s.dropEmpty(dir))
}

func (s *Store) drop(digest string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spared[digest] {
		return nil
	}
	if err := s.fs.Remove(nameOf(digest)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// dropEmpty removes a folder that has nothing in it. A Put that makes it again and names
// its file there is shut out meanwhile.
func (s *Store) dropEmpty(dir string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.fs.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, rerr := d.Readdirnames(1)
	if err := d.Close(); err != nil {
		return err
	}
	if errors.Is(rerr, io.EOF) {
		return s.fs.Remove(dir)
	}
	return rerr
}

// folders are those below dir that artifacts lie in.
func (s *Store) folders(dir string) (list []string, err error) {
	entries, err := s.entries(dir)
	for _, e := range entries {
		if b, err := hex.DecodeString(e.Name()); e.IsDir() && err == nil && len(b) == 1 {
			list = append(list, path.Join(dir, e.Name()))
		}
	}
	return list, err
}

func (s *Store) entries(dir string) (_ []os.FileInfo, err error) {
	d, err := s.fs.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return d.Readdir(-1)
}
