// Package schema is JSON Schema for tools: canonical bytes, compilation, and the way
// from a model's argument text to validated arguments.
//
// It does not read HCL (config makes schemas from param blocks) and does not lower a
// schema for a provider (the model adapters do).
//
//	argument text -> decode -> coerce -> defaults -> validate -> canonical bytes
//
// # Invariants
//
// Numbers are never converted: a literal reaches the handler digit by digit, except
// that an integer written as 3.0 or 3e0 becomes 3. A value that is valid as it stands
// is never coerced. No file and no host is ever read on behalf of a schema.
//
// # Concurrency
//
// A Schema is immutable after [Compile] and safe for concurrent use.
//
// # Errors
//
// Every error is a *fault.Error of kind fault.Invalid or fault.TooLarge. Those of
// Parse and Validate are written for a model: path, rule, what was expected and what
// came, at most fault.MaxToolMessage bytes.
package schema

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Limits of schemas and arguments. They hold before anything is built from the text.
const (
	MaxSchemaBytes   = 256 << 10 // bytes of a schema
	MaxSchemaNodes   = 5000      // JSON values in a schema
	MaxDepth         = 64        // nesting of a schema or of arguments
	MaxArgumentBytes = 8 << 20   // bytes of an argument text: as many as a model's answer may have
	maxArgumentNodes = 100_000   // JSON values in an argument text
)

// Schema is a compiled schema. It is immutable and safe for concurrent use.
type Schema struct {
	raw      json.RawMessage
	digest   string
	tree     map[string]any // what raw decodes to; read only
	compiled *jsonschema.Schema
	plan     *node
	unfit    []string
	costly   bool // validating may visit very many subschemas, see cost.go
}

// JSON is the canonical schema: sorted keys, no insignificant space. Do not modify.
func (s *Schema) JSON() json.RawMessage { return s.raw }

// Digest is the hex sha256 of the canonical schema.
func (s *Schema) Digest() string { return s.digest }

// UnfitDefaults are the properties whose default does not fit the property itself, and
// is therefore never filled in: each as the place of the schema ("its root" or a JSON
// pointer), a space, and the name. Sorted; do not modify.
func (s *Schema) UnfitDefaults() []string { return s.unfit }

// Decode reads arguments as [Schema.Parse] gives them into plain values: nil, bool, string,
// json.Number, []any and map[string]any.
func Decode(arguments json.RawMessage) (any, error) {
	v, err := decode(string(arguments), argumentBounds)
	if err != nil {
		return nil, err.fault("the arguments")
	}
	return v, nil
}

// Validate checks one JSON value as it stands: nothing is coerced or filled in.
func (s *Schema) Validate(value json.RawMessage) error {
	v, err := decode(string(value), argumentBounds)
	if err != nil {
		return err.fault("the value")
	}
	return s.check(v)
}

// check validates a decoded value and explains what is wrong with it.
func (s *Schema) check(v any) error {
	if err := s.affordable(v); err != nil {
		return err
	}
	if s.plan.sure(v, 0) {
		return nil
	}
	if err := s.compiled.Validate(v); err != nil {
		return s.explain(v, err)
	}
	return nil
}

func digestOf(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}
