// Package secret holds values that do not print.
//
// A Value is opened only where it goes on the wire. Every formatting verb, JSON
// encoding and slog prints [Redacted] instead.
package secret

import (
	"fmt"
	"log/slog"
)

// Redacted is what stands for a secret wherever it would be printed.
const Redacted = "(sensitive)"

// Value is a string that does not print. The zero Value is an empty secret.
// It is safe for concurrent use and comparable only through [Value.Equal].
type Value struct {
	_ [0]func() // not comparable: == would leak through maps and switch
	s *string
}

// New makes a secret of s.
func New(s string) Value { return Value{s: &s} }

// Open gives the secret itself. Call it only where the value goes on the wire.
func (v Value) Open() string {
	if v.s == nil {
		return ""
	}
	return *v.s
}

// Empty says whether the secret has no content.
func (v Value) Empty() bool { return v.Open() == "" }

// Equal compares two secrets. It is not constant-time; see crypto/subtle for keys.
func (v Value) Equal(o Value) bool { return v.Open() == o.Open() }

// String prints [Redacted].
func (v Value) String() string { return Redacted }

// GoString prints [Redacted].
func (v Value) GoString() string { return Redacted }

// Format prints [Redacted] for every verb.
func (v Value) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(Redacted)) }

// MarshalJSON encodes [Redacted].
func (v Value) MarshalJSON() ([]byte, error) { return []byte(`"` + Redacted + `"`), nil }

// MarshalText encodes [Redacted].
func (v Value) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// LogValue logs [Redacted].
func (v Value) LogValue() slog.Value { return slog.StringValue(Redacted) }
