// Command json_query is a tool that picks values out of JSON with a JSONPath query.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	guest "github.com/hermes-runtime/hermes/wasmtools/sdk/go"
)

const schema = `{
  "type": "object",
  "additionalProperties": false,
  "required": ["query"],
  "properties": {
    "query": {"type": "string", "maxLength": 4096, "description": "JSONPath (RFC 9535), for example $.items[?@.price < 10].name, $..id, $.rows[-3:], $.a['b c'][*]. Functions in filters: length(), count(), match(), search(), value()."},
    "data": {"description": "The JSON value to query. Give either data or text."},
    "text": {"type": "string", "description": "The JSON value as text, for example the content of a file or of a response."},
    "paths": {"type": "boolean", "default": false, "description": "Also give the path of every value."},
    "limit": {"type": "integer", "minimum": 1, "maximum": 10000, "default": 1000, "description": "Return at most this many values; the count is of all."}
  }
}`

type arguments struct {
	Query string          `json:"query"`
	Data  json.RawMessage `json:"data"`
	Text  *string         `json:"text"`
	Paths bool            `json:"paths"`
	Limit *int            `json:"limit"`
}

type answer struct {
	Count  int               `json:"count"` // of all matches
	Values []json.RawMessage `json:"values"`
	Paths  []string          `json:"paths,omitempty"` // normalized, one per value
}

//nolint:gochecknoglobals // a reactor begins with its package variables
var module = guest.Serve(guest.Module{Name: "json_query", Version: "1.0.0", Tools: []guest.Definition{
	guest.Tool("json_query", "Picks values out of JSON with a JSONPath query: paths, wildcards, slices, filters.", schema, run),
}})

func main() { guest.Main() }

func run(_ context.Context, a arguments) (any, error) {
	limit := 1000
	if a.Limit != nil {
		limit = *a.Limit
	}
	if limit < 1 {
		return nil, errors.New("limit must be at least 1")
	}
	root, err := input(a)
	if err != nil {
		return nil, err
	}
	q, err := Parse(a.Query)
	if err != nil {
		return nil, fmt.Errorf("query: %w", err)
	}
	nodes, err := q.Select(root)
	if err != nil {
		return nil, err
	}
	return answered(nodes[:min(limit, len(nodes))], len(nodes), a.Paths)
}

// input decodes the value to query, with numbers as they are written.
func input(a arguments) (any, error) {
	raw := []byte(a.Data)
	switch {
	case a.Data != nil && a.Text != nil:
		return nil, errors.New("give either data or text, not both")
	case a.Data == nil && a.Text == nil:
		return nil, errors.New("give the JSON to query as data or as text")
	case a.Text != nil:
		raw = []byte(*a.Text)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("the text is not JSON: %w (at byte %d)", err, d.InputOffset())
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the text has more than one JSON value (the first ends at byte %d)", d.InputOffset())
	}
	return v, nil
}
