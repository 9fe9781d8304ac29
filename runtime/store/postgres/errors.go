package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// What PostgreSQL calls its errors, and what we do about them. A class is the first two
// characters of a code.
const (
	codeUniqueViolation  = "23505"
	codeSerialization    = "40001"
	codeDeadlock         = "40P01"
	codeBadEncoding      = "22021"
	codeUntranslatable   = "22P05"
	codeReadOnly         = "25006"
	codeNoPrivilege      = "42501"
	codeNoDatabase       = "3D000"
	codeDiskFull         = "53100"
	codeTooManyClients   = "53300"
	codeLockTimeout      = "55P03"
	codeQueryCanceled    = "57014"
	codeIdleTransaction  = "25P03"
	classConnection      = "08"
	classAuthorization   = "28"
	classLimits          = "54"
	classResources       = "53"
	classIntervention    = "57"
	classSystem          = "58"
	classDamage          = "XX"
	codeInternal         = "XX000" // of that class, and no damage
	codeCannotConnectNow = "57P03"
)

func errClosed() error {
	return fault.New(fault.Unavailable, "the state database is closed: the server is shutting down")
}

func errSlow() error {
	return fault.New(fault.Unavailable, "the state database took too long; nothing may have been stored. Check its load and try again")
}

// notBegun is the error of a transaction that did not begin: nothing of it has happened.
type notBegun struct{ error }

// Unwrap gives the cause.
func (e notBegun) Unwrap() error { return e.error }

// repeatable says that a transaction failed because of others, or before it began.
// Of two that add the same row one finds it when it is done again, and says so.
func repeatable(err error) bool {
	if _, ok := errors.AsType[notBegun](err); ok {
		return lost(err)
	}
	switch code(err) {
	case codeSerialization, codeDeadlock, codeUniqueViolation:
		return true
	}
	return false
}

// code is what PostgreSQL calls the error in err's chain; empty for others.
func code(err error) string {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return ""
	}
	return e.Code
}

// lost says that the connection broke, or could not be made.
func lost(err error) bool {
	var network net.Error
	var connecting *pgconn.ConnectError
	switch c := code(err); {
	case c != "":
		return strings.HasPrefix(c, classConnection) || strings.HasPrefix(c, classIntervention) && c != codeQueryCanceled || c == codeIdleTransaction
	case errors.As(err, &connecting), errors.As(err, &network), pgconn.SafeToRetry(err):
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// problem is what an error means to whoever has to act on it. The messages name neither
// server nor user, since they may reach clients and models.
func problem(err error) (fault.Kind, string) {
	c := code(err)
	switch c {
	case codeDiskFull:
		return fault.Unavailable, "the disk that holds the state is full; nothing was stored. Free space on it and try again"
	case codeReadOnly:
		return fault.Unavailable, "the state database cannot be written; check that its server is no standby, and that the user may write"
	case codeNoPrivilege:
		return fault.Unavailable, "the state database does not let its user do this; let it create the schema hermes, or make it the owner of that schema"
	case codeNoDatabase:
		return fault.Unavailable, "the state database does not exist; create it (CREATE DATABASE …), or check the name in its address"
	case codeTooManyClients:
		return fault.Unavailable, "the server of the state database has no free connection; raise its max_connections, or lower pool_max_conns of each hermes"
	case codeLockTimeout:
		return fault.Unavailable, "the state database is locked by another process; stop that process or wait for it"
	case codeQueryCanceled:
		return fault.Unavailable, "the state database took too long; nothing was stored. Check its load and try again"
	case codeSerialization, codeDeadlock:
		return fault.Unavailable, "other writers got in the way again and again; nothing was stored. Try again"
	case codeUniqueViolation:
		return fault.Exists, "the state database has this row already"
	case codeBadEncoding, codeUntranslatable:
		return fault.Invalid, "the state database cannot hold this text"
	case codeCannotConnectNow:
		return fault.Unavailable, "the server of the state database is starting or stopping; try again"
	case codeInternal:
		return fault.Internal, "the state database answered with an error"
	}
	switch {
	case lost(err):
		return fault.Unavailable, "the connection to the state database was lost or cannot be made; check that its server runs and can be reached"
	case strings.HasPrefix(c, classAuthorization):
		return fault.Unavailable, "the server of the state database refuses the user or its password"
	case strings.HasPrefix(c, classResources), strings.HasPrefix(c, classSystem):
		return fault.Unavailable, "the server of the state database is short of memory or disk, or cannot read its files; check its log"
	case strings.HasPrefix(c, classLimits):
		return fault.TooLarge, "a value is too large for the state database"
	case strings.HasPrefix(c, classDamage):
		return fault.Internal, "the state database is damaged; stop the servers, keep a copy, and restore a backup"
	}
	return fault.Internal, "the state database answered with an error"
}

// explain gives an error of the driver its kind and a message. Errors that have a kind
// already, and those of contexts, pass.
func explain(err error) error {
	var f *fault.Error
	switch {
	case err == nil, errors.As(err, &f):
		return err
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.Is(err, context.DeadlineExceeded) && !connecting(err):
		return context.DeadlineExceeded
	}
	kind, message := problem(err)
	return fault.Wrap(kind, cause(err), "%s", message)
}

// connecting says that no connection could be made. That has a time limit of its own,
// whose end is not that of the caller's context.
func connecting(err error) bool {
	_, ok := errors.AsType[*pgconn.ConnectError](err)
	return ok
}

// cause is err for logs. Errors of connections name the server, and those of making one
// the user too, which are parts of the address: what is left is the reason.
func cause(err error) error {
	if network, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Errorf("%s: %w", network.Op, cause(network.Err))
	}
	if name, ok := errors.AsType[*net.DNSError](err); ok {
		return errors.New("finding the server by its name: " + name.Err)
	}
	if !connecting(err) {
		return err
	}
	if said, ok := errors.AsType[*pgconn.PgError](err); ok {
		return said
	}
	return errors.New("no connection")
}

// explainOpen is explain for Open, whose errors go to the operator.
func explainOpen(err error) error {
	if errors.Is(err, context.Canceled) {
		return context.Canceled
	}
	err = explain(err)
	return fault.Wrap(fault.KindOf(err), errors.Unwrap(err), "opening state database: %s", fault.Message(err))
}
