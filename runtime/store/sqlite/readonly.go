package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	lib "modernc.org/sqlite/lib"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// historyVersion is the first schema that has the history of generations.
const historyVersion = 3

// ReadOnly reads the history of a state database that may be another process's.
type ReadOnly struct {
	*reads

	closeOnce sync.Once
	closeErr  error
}

var _ store.Generations = (*ReadOnly)(nil)

// OpenReadOnly opens the history in the database file for reading, beside a server or
// without one. It takes no lock of the state and changes nothing that is stored; SQLite
// may leave its -wal and -shm files beside the database. A file that is not there, or
// that an older hermes left without a history, is fault.NotFound. Close it when done.
func OpenReadOnly(ctx context.Context, path string) (*ReadOnly, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("finding state database: %w", err)
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil, fault.New(fault.NotFound, "there is no state database %s: nothing was served from this state yet; check --state, or run hermes serve once", path)
	}
	if err := readable(path); err != nil {
		return nil, err
	}
	r, err := openReadOnly(ctx, path, "")
	if code, _ := resultCode(err); (code == lib.SQLITE_CANTOPEN || code == lib.SQLITE_READONLY) && !exists(path+"-wal") {
		// We may not make files here, and no server has: then all is in the one file, and
		// SQLite needs no other.
		r, err = openReadOnly(ctx, path, "&immutable=1")
	}
	if err != nil {
		return nil, explainOpen(path, err)
	}
	return r, nil
}

// readable says so when permissions keep this user out: a state is for its owner alone.
func readable(path string) error {
	f, err := os.Open(path) //nolint:gosec // the operator's own path
	if errors.Is(err, fs.ErrPermission) {
		return fault.Wrap(fault.Unavailable, err, "this user may not read the state database %s: read it as the user that hermes serve runs as", path)
	}
	if err != nil {
		return explainOpen(path, err)
	}
	return f.Close()
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func openReadOnly(ctx context.Context, path, params string) (*ReadOnly, error) {
	o := Options{}.filled()
	reads, err := openReads(path, o, "mode=ro&_query_only=on"+params)
	if err != nil {
		return nil, err
	}
	r := &ReadOnly{reads: reads}
	version, err := recognise(ctx, reads.reader, o)
	if err == nil && version < historyVersion {
		err = fault.New(fault.NotFound, "it has no history of generations: an older hermes wrote it (schema %d); start hermes serve once to upgrade it", version)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Close closes the database. Further calls return the same result.
func (r *ReadOnly) Close() error {
	r.closeOnce.Do(func() {
		close(r.closed)
		r.closeErr = explain(r.reader.Close())
	})
	return r.closeErr
}
