package wasmtools

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// sealName is the file that makes an entry whole: the checksums of the others.
const sealName = "seal"

// diskCache keeps compiled code, a directory per module:
//
//	DIR/<digest>-<form>/wazero-…/<key>    machine code, written by wazero
//	DIR/<digest>-<form>/derived           the rewritten module
//	DIR/<digest>-<form>/seal              their sha256, written last
//
// wazero checks only part of such a file, and runs what it reads. So an entry is used
// only after its seal was checked, and anything else is thrown away.
type diskCache struct {
	dir  string
	max  int64  // bytes
	form string // see formOf

	tableMax int // elements that the rewriter lets a table grow to
}

func openCache(dir string, size int64, tableMax int) (*diskCache, error) {
	if dir == "" {
		return &diskCache{tableMax: tableMax}, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making compile cache: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a directory
		return nil, fmt.Errorf("making compile cache private: %w", err)
	}
	return &diskCache{dir: dir, max: size, form: formOf(tableMax), tableMax: tableMax}, nil
}

func (c *diskCache) path(digest string) string {
	return filepath.Join(c.dir, digest+"-"+c.form)
}

// has says whether there is a sealed entry, without checking it.
func (c *diskCache) has(digest string) bool {
	if c.dir == "" {
		return false
	}
	_, err := os.Stat(filepath.Join(c.path(digest), sealName))
	return err == nil
}

// prune removes the entries that were not used for longest until the rest fits. Removing
// one that is in use costs a compilation at the next start, no more.
func (c *diskCache) prune() error {
	if c.dir == "" {
		return nil
	}
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return fmt.Errorf("listing compile cache: %w", err)
	}
	type used struct {
		path string
		at   time.Time
		size int64
	}
	var all []used
	var total int64
	for _, d := range entries {
		u := used{path: filepath.Join(c.dir, d.Name())}
		if st, err := os.Stat(filepath.Join(u.path, sealName)); err == nil {
			u.at = st.ModTime()
		} else if age := ageOf(d); age < time.Hour {
			continue // being written
		}
		u.size = sizeOf(u.path)
		total += u.size
		all = append(all, u)
	}
	slices.SortFunc(all, func(a, b used) int { return a.at.Compare(b.at) })
	for _, u := range all {
		if total <= c.max {
			break
		}
		if err := os.RemoveAll(u.path); err != nil {
			return fmt.Errorf("pruning compile cache: %w", err)
		}
		total -= u.size
	}
	return nil
}

func ageOf(d fs.DirEntry) time.Duration {
	fi, err := d.Info()
	if err != nil {
		return 0
	}
	return time.Since(fi.ModTime())
}

func sizeOf(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // it is gone, and has no size
		}
		if fi, err := d.Info(); err == nil && fi.Mode().IsRegular() {
			n += fi.Size()
		}
		return nil
	})
	return n
}

// cacheEntry is the place for one module's code. Without a dir there is none.
type cacheEntry struct {
	dir    string
	sealed bool
	files  []string // when it was sealed, sorted
}

// entry gives the place for a module's code: whole, or empty.
func (c *diskCache) entry(digest string) *cacheEntry {
	if c.dir == "" {
		return &cacheEntry{}
	}
	e := &cacheEntry{dir: c.path(digest)}
	seal := filepath.Join(e.dir, sealName)
	want, err := os.ReadFile(seal) //nolint:gosec // below the cache directory
	if err == nil {
		now := time.Now()
		_ = os.Chtimes(seal, now, now) // when it was used last, for prune; losing it costs nothing
		got, sumErr := e.sums()
		e.sealed = sumErr == nil && got == string(want)
		e.files, _ = e.list()
	}
	if !e.sealed {
		e.discard()
	}
	return e
}

// discard empties the place. What cannot be removed is not used either, since compiling
// then fails on it or the seal does not fit.
func (e *cacheEntry) discard() {
	if e.dir != "" {
		_ = os.RemoveAll(e.dir)
	}
	e.sealed = false
}

// seal marks the entry as whole. The seal appears in one step, after the code. An entry
// that was sealed is sealed again if wazero replaced its file, as another version does.
func (e *cacheEntry) seal() error {
	if e.dir == "" || e.sealed && e.unchanged() {
		return nil
	}
	sums, err := e.sums()
	if err != nil || sums == "" {
		return err
	}
	f, err := os.CreateTemp(e.dir, sealName+".*.tmp")
	if err != nil {
		return fmt.Errorf("sealing cache entry: %w", err)
	}
	_, err = f.WriteString(sums)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(e.dir, sealName))
	}
	if err != nil {
		return fmt.Errorf("sealing cache entry: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// unchanged says whether the entry has the files that it had when it was checked.
func (e *cacheEntry) unchanged() bool {
	now, err := e.list()
	return err == nil && slices.Equal(now, e.files)
}

// list names the files of the entry apart from seals, sorted, relative to it.
func (e *cacheEntry) list() ([]string, error) {
	var names []string
	err := filepath.WalkDir(e.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), sealName) {
			return err
		}
		rel, err := filepath.Rel(e.dir, path)
		names = append(names, rel)
		return err
	})
	slices.Sort(names)
	return names, err
}

// sums lists the files of the entry with their checksums.
func (e *cacheEntry) sums() (string, error) {
	names, err := e.list()
	if err != nil {
		return "", fmt.Errorf("listing cache entry: %w", err)
	}
	var b strings.Builder
	for _, name := range names {
		sum, err := fileSum(filepath.Join(e.dir, name))
		if err != nil {
			return "", fmt.Errorf("summing cache entry: %w", err)
		}
		b.WriteString(sum + "  " + name + "\n")
	}
	return b.String(), nil
}

func fileSum(path string) (string, error) {
	f, err := os.Open(path) //nolint:gosec // below the cache directory
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
