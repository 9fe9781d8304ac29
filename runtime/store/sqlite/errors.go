package sqlite

import (
	"context"
	"errors"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

func errClosed() error {
	return fault.New(fault.Unavailable, "the state database is closed: the server is shutting down")
}

func errMoved() error {
	return fault.New(fault.Unavailable,
		"the state database was removed or replaced while the server runs; nothing was stored. Stop the server, put the files back or leave the folder empty, and start it again")
}

func errNoWAL(mode string) error {
	return fault.New(fault.Unavailable,
		"the file system does not support write-ahead logging (SQLite chose %q); keep the state on a local disk", mode)
}

// resultCode is the primary SQLite result code in err's chain.
func resultCode(err error) (int, bool) {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0, false
	}
	return e.Code() & 0xff, true
}

// problem is what a result code means to whoever has to act on it. The messages name
// no path, since they may reach clients and models.
func problem(code int) (fault.Kind, string) {
	switch code {
	case lib.SQLITE_FULL:
		return fault.Unavailable, "the disk that holds the state is full; nothing was stored. Free space on it and try again"
	case lib.SQLITE_READONLY, lib.SQLITE_PERM, lib.SQLITE_AUTH, lib.SQLITE_CANTOPEN:
		return fault.Unavailable, "the state database cannot be written; check that the state folder and the files in it are writable"
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_PROTOCOL:
		return fault.Unavailable, "the state database is locked by another process; stop that process or wait for it"
	case lib.SQLITE_IOERR:
		return fault.Unavailable, "reading or writing the state database failed; check the disk that holds the state and its free space"
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		return fault.Internal, "the state database is damaged; stop the server, keep a copy of the file, and restore a backup or move the file away to start empty"
	case lib.SQLITE_TOOBIG:
		return fault.TooLarge, "a value is too large for the state database"
	}
	return fault.Internal, "the state database answered with an error"
}

// explain gives an error of the driver its kind and a message. Errors that have a kind
// already, and those of contexts, pass.
func explain(err error) error {
	var f *fault.Error
	code, ours := resultCode(err)
	switch {
	case err == nil, errors.As(err, &f):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case !ours:
		return fault.Wrap(fault.Internal, err, "the state database answered with an error")
	case code == lib.SQLITE_INTERRUPT:
		return context.Canceled
	}
	kind, message := problem(code)
	return fault.Wrap(kind, err, "%s", message)
}

// explainOpen is explain for Open, whose errors go to the operator and name the file.
func explainOpen(path string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	err = explain(err)
	return fault.Wrap(fault.KindOf(err), errors.Unwrap(err), "opening state database %s: %s", path, fault.Message(err))
}
