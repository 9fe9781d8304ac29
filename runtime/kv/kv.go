// Package kv is the seam to the keys and values that tools keep between calls.
//
// It is vocabulary and the contract of a store; the databases are in the drivers of
// store, and who may use which namespace is said by the grants of wasmtools.
//
// # Invariants
//
// Every pair has a namespace and an owner. A [Space] is both, and nothing is seen, counted
// or changed outside of the one that is named: two principals have two spaces in one
// namespace, and tools that run for one principal share theirs. What Put returned nil for
// is committed, and the space was within its quota at that moment, however many wrote.
package kv

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

const (
	// MaxKey is the size of the largest key, in bytes.
	MaxKey = 512
	// MaxValue is the size of the largest value, in bytes.
	MaxValue = 8 << 20
	// MaxList is how many pairs one List gives at most.
	MaxList = 1000
	// MaxNamespace is the length of the longest name.
	MaxNamespace = 64
)

// Space is where a key is looked for.
type Space struct {
	Owner     string // a principal
	Namespace string
}

// Entry is a pair without its value.
type Entry struct {
	Key  string
	Size int64 // of the value, in bytes
}

// Page says which part of a list is wanted.
type Page struct {
	Prefix string // of the keys
	After  string // a key; it and all before it are left out
	Limit  int    // 0, or above MaxList: MaxList
}

// Store keeps pairs. It is safe for concurrent use. Errors are of kind Invalid for a
// space, key or value that cannot be, and otherwise those of the database.
type Store interface {
	// Value reads; found is false if there is no such key.
	Value(ctx context.Context, s Space, key string) (value []byte, found bool, err error)
	// PutValue writes. quota bounds the bytes of all keys and values of the space after
	// it, in the same transaction; over it the error is fault.TooLarge and nothing
	// changed. A pair may always become smaller.
	PutValue(ctx context.Context, s Space, key string, value []byte, quota int64) error
	// DeleteValue removes; found is false if there was no such key.
	DeleteValue(ctx context.Context, s Space, key string) (found bool, err error)
	// Values lists in the order of the bytes of the keys; more says that the page did not
	// hold all.
	Values(ctx context.Context, s Space, p Page) (entries []Entry, more bool, err error)
}

// ValidNamespace says whether a namespace may have this name: letters, digits, - and _,
// at most MaxNamespace of them.
func ValidNamespace(name string) bool {
	return name != "" && len(name) <= MaxNamespace &&
		strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// Check is the error of a space that nothing can be in.
func (s Space) Check() error {
	if s.Owner == "" {
		return fault.New(fault.Invalid, "keys and values belong to a principal, and none is named")
	}
	if !ValidNamespace(s.Namespace) {
		return fault.New(fault.Invalid, "%.80q is not the name of a namespace", s.Namespace)
	}
	return nil
}

// CheckKey is the error of a key that cannot be.
func CheckKey(key string) error {
	switch {
	case key == "" || len(key) > MaxKey:
		return fault.New(fault.Invalid, "a key has 1 to %d bytes, and this one has %d", MaxKey, len(key))
	case !utf8.ValidString(key) || strings.ContainsRune(key, 0):
		return fault.New(fault.Invalid, "a key is text without NUL")
	}
	return nil
}

// CheckValue is the error of a value that cannot be.
func CheckValue(value []byte) error {
	if len(value) > MaxValue {
		return fault.New(fault.TooLarge, "a value has at most %d bytes, and this one has %d", MaxValue, len(value))
	}
	return nil
}

// OverQuota is the error of a pair with which a space would hold more than its quota, in
// bytes.
func OverQuota(s Space, quota, would int64) error {
	return fault.New(fault.TooLarge, "the namespace %q may hold %d bytes of keys and values, and would hold %d; delete something first", s.Namespace, quota, would)
}
