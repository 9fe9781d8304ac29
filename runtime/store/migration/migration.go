// Package migration is what the drivers of store have in common about the steps of a
// schema: numbered files, and the words that refuse a database.
package migration

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// Step is one numbered step of the schema.
type Step struct {
	Version  int
	Name     string // file name
	Text     string
	Checksum string // hex sha256 of Text
}

// List gives the steps in order: files "0001_name.sql", numbered from 1 without
// gaps.
func List(schema fs.FS) ([]Step, error) {
	entries, err := fs.ReadDir(schema, ".")
	if err != nil {
		return nil, fmt.Errorf("listing migrations: %w", err)
	}
	var list []Step
	for i, e := range entries {
		number, _, _ := strings.Cut(e.Name(), "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != i+1 {
			return nil, fmt.Errorf("migration %q: want number %04d", e.Name(), i+1)
		}
		text, err := fs.ReadFile(schema, e.Name())
		if err != nil {
			return nil, fmt.Errorf("reading migration: %w", err)
		}
		sum := sha256.Sum256(text)
		list = append(list, Step{version, e.Name(), string(text), hex.EncodeToString(sum[:])})
	}
	return list, nil
}

// Newer refuses a database whose schema is newer than the known steps.
func Newer(version int64, known int) error {
	return fault.New(fault.Invalid, "it was written by a newer hermes (schema %d, this binary knows %d); "+
		"start the newer binary, or restore a backup from before the upgrade. Nothing was changed", version, known)
}

// Differs refuses a database that another text of the step made.
func Differs(s Step) error {
	return fault.New(fault.Invalid, "migration %s differs from the one that made this database; "+
		"use the binary that made it", s.Name)
}
