// Package fault is the vocabulary of errors: a kind, a message for people, and a cause.
//
// It knows how a kind appears to each audience (HTTP status, exit code, JSON for a
// model) and nothing about where errors come from.
//
// # Invariants
//
// A message never carries configuration, secrets or stack traces: it is shown to
// models and clients as it stands.
package fault

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"unicode/utf8"
)

// Kind says what an error means to whoever has to act on it.
type Kind uint8

// The kinds. Internal is the zero value, so that an unclassified error is never
// taken for something milder.
const (
	Internal    Kind = iota // a fault of ours
	Invalid                 // the input breaks a stated rule
	NotFound                // no such thing, or not yours to see
	Exists                  // the name or key is taken
	Unavailable             // not now: down, removed, or still starting
	Denied                  // a policy or permission says no
	Timeout                 // the time allowed ran out
	Canceled                // somebody asked for it to stop
	TooLarge                // over a size limit
	Exhausted               // over a rate, count or budget
)

// MaxToolMessage bounds, in bytes, the message of a tool error shown to a model.
const MaxToolMessage = 2048

type kindRow struct {
	name   string
	status int
	exit   int
}

// kinds is the one table from kind to name, HTTP status and exit code.
//
//nolint:gochecknoglobals // immutable table
var kinds = [...]kindRow{
	Internal:    {"internal", http.StatusInternalServerError, 1},
	Invalid:     {"invalid", http.StatusBadRequest, 2},
	NotFound:    {"not_found", http.StatusNotFound, 1},
	Exists:      {"exists", http.StatusConflict, 1},
	Unavailable: {"unavailable", http.StatusServiceUnavailable, 1},
	Denied:      {"denied", http.StatusForbidden, 3},
	Timeout:     {"timeout", http.StatusGatewayTimeout, 1},
	Canceled:    {"canceled", 499, 130},
	TooLarge:    {"too_large", http.StatusRequestEntityTooLarge, 1},
	Exhausted:   {"exhausted", http.StatusTooManyRequests, 1},
}

// row of the kind; a number that is no kind is an unclassified error.
func (k Kind) row() kindRow {
	if int(k) < len(kinds) {
		return kinds[k]
	}
	return kinds[Internal]
}

// String is the kind's wire name, for example "not_found".
func (k Kind) String() string { return k.row().name }

// HTTPStatus is the status code a response with this kind carries.
func (k Kind) HTTPStatus() int { return k.row().status }

// ExitCode is the process exit code of a command that ends with this kind.
func (k Kind) ExitCode() int { return k.row().exit }

// ParseKind is the inverse of [Kind.String]; unknown names are Internal and false.
func ParseKind(name string) (Kind, bool) {
	for k, row := range kinds {
		if row.name == name {
			return Kind(k), true
		}
	}
	return Internal, false
}

// Error is an error with a kind. Message is complete by itself and safe to show;
// Err, if set, is the cause for logs and errors.Is, and is not part of Message.
type Error struct {
	Kind    Kind
	Message string
	// Detail is optional structured data for API clients; it must encode as JSON.
	Detail any
	Err    error
}

// New returns an error of kind k. Arguments are formatted as by fmt.Sprintf.
func New(k Kind, format string, args ...any) *Error {
	return &Error{Kind: k, Message: fmt.Sprintf(format, args...)}
}

// Wrap returns an error of kind k whose cause is err. The cause is not shown to
// clients or models; put into the message what they need to know.
func Wrap(k Kind, err error, format string, args ...any) *Error {
	return &Error{Kind: k, Message: fmt.Sprintf(format, args...), Err: err}
}

// Error renders message and cause, for logs.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return e.Message + ": " + e.Err.Error()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf classifies any error: the outermost *Error in its chain, else the context
// errors, else Internal.
func KindOf(err error) Kind {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Kind
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	case errors.Is(err, context.Canceled):
		return Canceled
	}
	return Internal
}

// Message is what may be shown of err: the message of the outermost *Error, a fixed
// sentence for context errors, and "internal error" for anything else, since the
// text of a foreign error may carry configuration.
func Message(err error) string {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Message
	case errors.Is(err, context.DeadlineExceeded):
		return "the time allowed ran out"
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	return "internal error"
}

// Body is the JSON form of an error: {"kind","message"} and an optional "detail".
type Body struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Detail  any    `json:"detail,omitempty"`
}

// ToolJSON is err as a tool result: {"error":{"kind","message"}}, the message cut at
// MaxToolMessage bytes on a rune border, and never empty.
func ToolJSON(err error) json.RawMessage {
	kind := KindOf(err).String()
	body := struct {
		Error Body `json:"error"`
	}{Body{Kind: kind, Message: cmp.Or(Cut(Message(err), MaxToolMessage), kind)}}
	out, merr := json.Marshal(body)
	if merr != nil {
		return json.RawMessage(`{"error":{"kind":"internal","message":"internal error"}}`)
	}
	return out
}

// Cut shortens s to at most n bytes without splitting a rune; invalid UTF-8 is
// replaced first, so the result is always valid. With n under 1 nothing is left.
func Cut(s string, n int) string {
	n = max(n, 0)
	if !utf8.ValidString(s) {
		s = string([]rune(s))
	}
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
