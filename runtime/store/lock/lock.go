// Package lock is the exclusive lock on a state folder: at most one process owns the
// state, and others can find out which.
//
// The file "lock" in the folder is locked with flock, which the kernel releases when
// the owner ends in whatever way, and holds JSON that names the owner. The lock decides
// who owns the state; the JSON is only believed while somebody holds the lock.
//
// # Concurrency
//
// A Lock is safe for concurrent use. Child processes do not inherit it.
//
// # Errors
//
// A lock held elsewhere is fault.Unavailable; the message names process id and address.
package lock

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

const (
	fileName = "lock"
	maxBytes = 4096
	// Looking at the owner holds the lock for an instant, so taking it is tried for
	// a while before it counts as held.
	attempts = 10
	pause    = 10 * time.Millisecond
)

// Holder is who owns a state folder.
type Holder struct {
	PID int `json:"pid"`
	// Address is the base URL of its server, for example "http://127.0.0.1:8420";
	// empty if it has none (yet).
	Address string    `json:"address"`
	Started time.Time `json:"started"`
}

// String names the holder for people.
func (h Holder) String() string {
	switch {
	case h.PID == 0:
		return "another process"
	case h.Address == "":
		return fmt.Sprintf("process %d", h.PID)
	}
	return fmt.Sprintf("process %d at %s", h.PID, h.Address)
}

// Lock is the ownership of a state folder. It has to be kept: one that is garbage
// gives the folder up.
type Lock struct {
	mu     sync.Mutex // guards what follows
	file   *os.File   // nil after Release
	holder Holder
}

// Acquire takes the lock of stateDir, creating the folder (mode 0700) as needed.
// If another process, or this one, has it, the error is fault.Unavailable and names the
// owner. The owner has no address until SetAddress.
func Acquire(stateDir string) (*Lock, error) {
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "locking state: cannot create the folder %s; check that its parent is writable", stateDir)
	}
	path := filepath.Join(stateDir, fileName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // the operator's own path
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "locking state: cannot open %s for writing; check the permissions of the folder", path)
	}
	l := &Lock{file: f, holder: Holder{PID: os.Getpid(), Started: time.Now().UTC().Truncate(time.Second)}}
	if err := take(f, stateDir); err != nil {
		return nil, closing(f, err)
	}
	if err := l.write(); err != nil {
		return nil, closing(f, err)
	}
	return l, nil
}

func closing(f *os.File, err error) error {
	if cerr := f.Close(); cerr != nil {
		return fmt.Errorf("%w (and closing: %w)", err, cerr)
	}
	return err
}

func take(f *os.File, stateDir string) error {
	var err error
	for range attempts {
		if err = tryLock(f, true); !errors.Is(err, errHeld) {
			break
		}
		time.Sleep(pause)
	}
	switch {
	case errors.Is(err, errHeld):
		return held(stateDir, read(f))
	case err != nil:
		return fault.Wrap(fault.Unavailable, err, "locking state: the file system of %s does not support locks; keep the state on a local disk", stateDir)
	}
	return nil
}

func held(stateDir string, h Holder) error {
	return fault.New(fault.Unavailable, "the state in %s is in use by %s; stop that process, use its address, or choose another state folder", stateDir, h)
}

// write replaces the contents in place: a new file would be one that nobody has locked.
// It needs mu, except before the Lock is shared.
func (l *Lock) write() error {
	body, err := json.Marshal(l.holder)
	if err != nil {
		return fmt.Errorf("encoding lock: %w", err)
	}
	body = append(body, '\n')
	if _, err := l.file.WriteAt(body, 0); err != nil {
		return fault.Wrap(fault.Unavailable, err, "locking state: writing the lock failed; check the free space of the state's disk")
	}
	if err := l.file.Truncate(int64(len(body))); err != nil {
		return fmt.Errorf("writing lock: %w", err)
	}
	return nil
}

// SetAddress tells others where the owner's server is, once it listens.
func (l *Lock) SetAddress(address string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return fault.New(fault.Unavailable, "the state lock has been released")
	}
	l.holder.Address = address
	return l.write()
}

// Release gives the lock up. Further calls do nothing.
func (l *Lock) Release() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	f := l.file
	l.file = nil
	// The file stays: removing it would let two processes lock two files of one name.
	if err := f.Truncate(0); err != nil {
		return closing(f, fmt.Errorf("releasing state lock: %w", err))
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("releasing state lock: %w", err)
	}
	return nil
}

// Owner tells who owns stateDir at this moment; false if nobody does, whatever the file
// says, or if it cannot be read.
func Owner(stateDir string) (Holder, bool) {
	f, err := os.Open(filepath.Join(stateDir, fileName)) //nolint:gosec // the operator's own path
	if err != nil {
		return Holder{}, false
	}
	defer f.Close()
	if !errors.Is(tryLock(f, false), errHeld) {
		return Holder{}, false
	}
	return read(f), true
}

// read gives the zero Holder for contents that are not (or not yet) complete.
func read(f *os.File) Holder {
	body, err := io.ReadAll(io.NewSectionReader(f, 0, maxBytes))
	if err != nil {
		return Holder{}
	}
	var h Holder
	if err := json.Unmarshal(body, &h); err != nil {
		return Holder{}
	}
	return h
}
