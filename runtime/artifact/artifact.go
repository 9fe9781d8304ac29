// Package artifact keeps files by the sha256 of their content, for example results
// that are too large for a model.
//
// It knows nothing of owners (the rows of runtime/store do), and what is still needed is
// for callers to say: see [Store.Keep].
//
//	<dir>/ab/cd/abcd…   the content, 0600
//	<dir>/tmp/…         being written
//
// # Invariants
//
// A file under its digest is complete and on disk: content is written aside, synced
// and renamed. What is read is what was written: the content is verified against the
// digest before the first byte is handed out. Nothing outside the folder is touched,
// whatever links are in it.
//
// # Concurrency
//
// A Store is safe for concurrent use; a Keep removes nothing that a Put beside it gives.
// The folder belongs to one process at a time.
//
// # Errors
//
// A digest that is not kept is fault.NotFound; a full disk is fault.Unavailable;
// content that changed on disk is fault.Internal.
package artifact

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
	"syscall"

	"github.com/spf13/afero"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/rooted"
)

const (
	dirMode  = 0o700
	fileMode = 0o600
	tempDir  = "tmp"
)

// Store is a folder of artifacts.
type Store struct {
	fs    afero.Fs
	close func() error

	keeping sync.Mutex // held by the one Keep

	// mu guards what is below, and every naming and removing of files and folders.
	mu     sync.Mutex
	puts   map[string]int  // digests that calls of Put have named and not yet given, and held ones
	spared map[string]bool // those, and what was named since Keep began; nil: none runs
}

// Open uses dir, which is made if it is missing. No other process may be using it,
// since what a crash left unfinished is removed.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, fmt.Errorf("making artifact folder: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening artifact folder: %w", err)
	}
	s, err := On(rooted.New(root))
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	s.close = root.Close
	return s, nil
}

// On uses a file system as the folder. Leftovers of a crash are removed.
func On(files afero.Fs) (*Store, error) {
	if err := files.RemoveAll(tempDir); err != nil {
		return nil, fmt.Errorf("clearing artifact folder: %w", err)
	}
	if err := files.MkdirAll(tempDir, dirMode); err != nil {
		return nil, fmt.Errorf("making artifact folder: %w", err)
	}
	return &Store{fs: files, close: func() error { return nil }, puts: map[string]int{}}, nil
}

// Close gives up the folder. Artifacts that are open stay readable.
func (s *Store) Close() error { return s.close() }

// Put keeps everything r gives and returns its hex sha256 and size in bytes. Content
// that is already kept is kept once. After an error nothing new is kept.
func (s *Store) Put(ctx context.Context, r io.Reader) (digest string, size int64, err error) {
	temp := path.Join(tempDir, rand.Text())
	defer func() {
		if err != nil {
			err = explain(errors.Join(err, s.discard(temp)))
		}
	}()
	digest, size, err = s.write(ctx, temp, r)
	if err != nil {
		return "", 0, err
	}
	if err = s.publish(temp, digest); err != nil {
		return "", 0, err
	}
	return digest, size, nil
}

// PutBytes keeps b.
func (s *Store) PutBytes(ctx context.Context, b []byte) (digest string, size int64, err error) {
	return s.Put(ctx, bytes.NewReader(b))
}

// write copies r to the file temp and to the disk.
func (s *Store) write(ctx context.Context, temp string, r io.Reader) (digest string, size int64, err error) {
	f, err := s.fs.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return "", 0, fmt.Errorf("creating artifact: %w", err)
	}
	defer func() {
		if cerr := f.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("closing artifact: %w", cerr)
		}
	}()
	sum := sha256.New()
	size, err = io.Copy(io.MultiWriter(f, sum), reader{ctx, r})
	if err != nil {
		return "", 0, fmt.Errorf("writing artifact: %w", err)
	}
	if err = f.Sync(); err != nil {
		return "", 0, fmt.Errorf("syncing artifact: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)), size, nil
}

// publish gives the file temp its name.
func (s *Store) publish(temp, digest string) error {
	defer s.given(digest)
	if err := s.name(temp, digest); err != nil {
		return err
	}
	name := nameOf(digest)
	for _, dir := range [...]string{path.Dir(name), path.Dir(path.Dir(name)), "."} {
		if err := s.syncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// name moves temp to where digest lies. A file that is there already is replaced by its
// equal, which also heals one that was damaged.
func (s *Store) name(temp, digest string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.puts[digest]++
	if s.spared != nil {
		s.spared[digest] = true
	}
	name := nameOf(digest)
	if err := s.fs.MkdirAll(path.Dir(name), dirMode); err != nil {
		return fmt.Errorf("making artifact folder: %w", err)
	}
	if err := s.fs.Rename(temp, name); err != nil {
		return fmt.Errorf("naming artifact: %w", err)
	}
	return nil
}

// Hold is PutBytes of content that nothing names yet: no Keep removes it before release is
// called, once, by when the caller has noted its digest, or given it up.
func (s *Store) Hold(ctx context.Context, b []byte) (digest string, size int64, release func(), err error) {
	sum := sha256.Sum256(b)
	digest = hex.EncodeToString(sum[:])
	s.take(digest)
	if _, size, err = s.PutBytes(ctx, b); err != nil {
		s.given(digest)
		return "", 0, nil, err
	}
	return digest, size, sync.OnceFunc(func() { s.given(digest) }), nil
}

// take says that a digest is about to be given out.
func (s *Store) take(digest string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.puts[digest]++
	if s.spared != nil {
		s.spared[digest] = true
	}
}

// given says that a Put is over with digest.
func (s *Store) given(digest string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.puts[digest]--; s.puts[digest] == 0 {
		delete(s.puts, digest)
	}
}

func (s *Store) syncDir(dir string) error {
	d, err := s.fs.Open(dir)
	if err != nil {
		return fmt.Errorf("opening artifact folder: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("syncing artifact folder: %w", err)
	}
	return nil
}

func (s *Store) discard(temp string) error {
	if err := s.fs.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing unfinished artifact: %w", err)
	}
	return nil
}

// Open gives the content kept under digest, verified. The caller closes it.
func (s *Store) Open(digest string) (io.ReadSeekCloser, error) {
	if !isDigest(digest) {
		return nil, fault.New(fault.NotFound, "no artifact %q", digest)
	}
	f, err := s.fs.Open(nameOf(digest))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Wrap(fault.NotFound, err, "no artifact %q", digest)
	}
	if err != nil {
		return nil, explain(fmt.Errorf("opening artifact: %w", err))
	}
	if err := verify(f, digest); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// verify reads all of f, compares, and goes back to its start.
func verify(f afero.File, digest string) error {
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return explain(fmt.Errorf("reading artifact: %w", err))
	}
	if hex.EncodeToString(sum.Sum(nil)) != digest {
		return fault.New(fault.Internal, "artifact %s is damaged: its content is not what was stored", digest)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return explain(fmt.Errorf("reading artifact: %w", err))
	}
	return nil
}

// nameOf is where the content of a digest lies.
func nameOf(digest string) string { return path.Join(digest[:2], digest[2:4], digest) }

func isDigest(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size && hex.EncodeToString(b) == s
}

// explain gives an error of the file system a kind; what already has one keeps it.
func explain(err error) error {
	var known *fault.Error
	switch {
	case errors.As(err, &known), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fault.Wrap(fault.Unavailable, err, "the disk of the state directory is full: free some space and repeat")
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return fault.Wrap(fault.Unavailable, err, "the state directory cannot be written: check its permissions")
	}
	return fault.Wrap(fault.Internal, err, "the artifact folder could not be used")
}

// reader stops when the context ends.
type reader struct {
	ctx context.Context
	r   io.Reader
}

// Read reads, unless the context ended.
func (r reader) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
