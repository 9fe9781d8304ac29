package reload

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hermes-runtime/hermes/runtime/config"
)

const (
	// maxInput bounds one input in bytes, so that a file which grows without end cannot
	// take the memory of the process.
	maxInput = 256 << 20
	// racyWindow is for how long a file must have had the same timestamps before they
	// prove that it did not change since: clocks of file systems are coarse.
	racyWindow = 2 * time.Second
)

// file is what a path held when it was last looked at. It is immutable.
type file struct {
	sig     signature
	read    time.Time // taken before the file was opened
	since   time.Time // the first read that saw this signature
	written time.Time // when it was changed last, by its file system's clock; zero: not known
	arrived time.Time // the first look that saw this content, or this absence
	content []byte
	digest  string // hex sha256 of content; empty if err is set
	err     error  // fs.ErrNotExist for an absent file, else why it cannot be read
}

func (f *file) absent() bool { return errors.Is(f.err, fs.ErrNotExist) }

// version identifies what was seen, for comparing two looks.
func (f *file) version() string {
	switch {
	case f.absent():
		return ""
	case f.err != nil:
		return "unreadable: " + f.err.Error()
	}
	return f.digest
}

// settled says that an equal signature proves equal content. It compares our own clock
// with itself, and not with that of a file system, which may be another machine's.
func (f *file) settled() bool {
	return f.err == nil && f.sig.proves() && f.read.Sub(f.since) >= racyWindow
}

// age is for how long the file has been as it is. What a poll finds may come from a
// file system whose clock is not ours: it is then as old as our knowledge of it.
func (f *file) age(trigger string) time.Duration {
	known, age := time.Since(f.arrived), time.Since(f.written)
	if f.written.IsZero() || age < -time.Second || trigger == TriggerPoll && known < age {
		return known
	}
	return age
}

// disk remembers what was last read of each path, so that what did not change is not
// read again. It is safe for concurrent use.
type disk struct {
	source config.Source // lists and resolves
	// instead, if set, gives files in the place of the file system.
	instead func(path string) *file
	counts  counts

	mu    sync.Mutex // guards below
	seen  map[string]*file
	lists map[string][]string // of directories that were listed without an error
}

// counts are how often the file system was asked.
type counts struct{ looks, reads, lists atomic.Int64 }

func newDisk(source config.Source) *disk {
	return &disk{source: source, seen: map[string]*file{}, lists: map[string][]string{}}
}

// look gives the present state of path. Content that is equal to what was seen before
// is the same slice.
func (d *disk) look(path string) *file {
	d.mu.Lock()
	before := d.seen[path]
	d.mu.Unlock()
	var now *file
	if d.instead != nil {
		now = d.instead(path)
	} else {
		now = d.examine(path, before)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen[path] = now
	return now
}

// recall gives what was last seen of path if only an event can have changed that.
func (d *disk) recall(path string) (*file, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, ok := d.seen[path]
	return f, ok && (f.absent() || f.settled() && !f.sig.shared())
}

// list gives the declarations below dir.
func (d *disk) list(dir string) ([]string, error) {
	d.counts.lists.Add(1)
	files, err := d.source.Files(dir)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		d.lists[dir] = files
	} else {
		delete(d.lists, dir)
	}
	return files, err
}

// remember remembers what dir lists by now.
func (d *disk) remember(dir string, files []string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lists[dir] = files
	return files
}

// known are the paths that were looked at.
func (d *disk) known() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return sortedKeys(d.seen)
}

// listed gives what dir listed last; false if that was an error.
func (d *disk) listed(dir string) ([]string, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	files, ok := d.lists[dir]
	return files, ok
}

// keep forgets all other paths.
func (d *disk) keep(paths []string) {
	kept := make(map[string]*file, len(paths))
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, path := range paths {
		if f, ok := d.seen[path]; ok {
			kept[path] = f
		}
	}
	d.seen = kept
}

func (d *disk) examine(path string, before *file) *file {
	now := time.Now()
	d.counts.looks.Add(1)
	info, err := os.Stat(path)
	if err == nil && before != nil && before.settled() && before.sig == signatureOf(info) {
		return before
	}
	next := &file{}
	switch {
	case err != nil:
		next.err = absence(err)
	case !info.Mode().IsRegular():
		next.err = notRegular(path)
	default:
		d.counts.reads.Add(1)
		next = readFile(path)
	}
	if next.absent() {
		next.written = removed(path)
	}
	next.read, next.since, next.arrived = now, now, now
	return next.after(before)
}

// after takes over from the look before what is still so.
func (f *file) after(before *file) *file {
	same := before != nil && f.err == nil && before.err == nil && bytes.Equal(before.content, f.content)
	if f.err == nil && same {
		f.content, f.digest = before.content, before.digest
	} else if f.err == nil {
		sum := sha256.Sum256(f.content)
		f.digest = hex.EncodeToString(sum[:])
	}
	if before == nil {
		return f
	}
	if same || f.err != nil && f.version() == before.version() {
		f.arrived = before.arrived
	}
	if same && f.sig == before.sig {
		f.since = before.since
	}
	return f
}

func notRegular(path string) error { return fmt.Errorf("%s is not a regular file", path) }

// removed is when an entry of the directory was changed last, of which one may be the
// removal of path.
func removed(path string) time.Time {
	info, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return time.Time{}
	}
	return signatureOf(info).latest()
}

// absence makes one error of all the ways in which there is no file: the path leads
// below a file, or through a link to nothing.
func absence(err error) error {
	if errors.Is(err, syscall.ENOTDIR) || errors.Is(err, fs.ErrNotExist) {
		return fs.ErrNotExist
	}
	return err
}

// readFile reads path and the signature of what was opened, taken before the bytes,
// so that a write in between shows. Opening does not wait for the other end of a pipe
// that has taken the place of the file meanwhile.
func readFile(path string) *file {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) //nolint:gosec // the language decides which paths are read
	if err != nil {
		return &file{err: absence(err)}
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = notRegular(path)
	}
	if err != nil {
		return &file{err: err}
	}
	content, err := readAll(f, info.Size())
	if err != nil {
		return &file{err: err}
	}
	after, err := f.Stat() // the bytes may be of a write that began after the first look
	if err != nil {
		return &file{err: err}
	}
	return &file{sig: signatureOf(info), written: signatureOf(after).latest(), content: content}
}

// readAll reads a file that says to have size bytes.
func readAll(f *os.File, size int64) ([]byte, error) {
	tooLarge := fmt.Errorf("%s is over %d MiB, the limit for one input", f.Name(), maxInput>>20)
	if size > maxInput {
		return nil, tooLarge
	}
	var buf bytes.Buffer
	buf.Grow(int(size) + bytes.MinRead)
	if _, err := io.Copy(&buf, io.LimitReader(f, maxInput+1)); err != nil {
		return nil, err
	}
	if buf.Len() > maxInput {
		return nil, tooLarge
	}
	return buf.Bytes(), nil
}
