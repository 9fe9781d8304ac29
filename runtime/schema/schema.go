// Package schema is JSON Schema for tools: canonical bytes, compilation, and the way
// from a model's argument text to validated arguments.
package schema

import "encoding/json"

// Schema is a compiled schema. It is immutable and safe for concurrent use.
type Schema struct {
	raw json.RawMessage
}

// JSON is the canonical schema: sorted keys, no insignificant space. Do not modify.
func (s *Schema) JSON() json.RawMessage { return s.raw }
