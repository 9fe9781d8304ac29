// Command text_stats is a tool that measures text: how long it is, how long it takes to
// read, and which words it uses most.
package main

import (
	"context"
	"errors"

	guest "github.com/hermes-runtime/hermes/wasmtools/sdk/go"
)

const schema = `{
  "type": "object",
  "additionalProperties": false,
  "required": ["text"],
  "properties": {
    "text": {"type": "string", "description": "The text to measure."},
    "top": {"type": "integer", "minimum": 0, "maximum": 100, "default": 10,
            "description": "How many of the most frequent words to list."},
    "words_per_minute": {"type": "integer", "minimum": 1, "maximum": 2000, "default": 238,
            "description": "Reading speed for the reading time."}
  }
}`

type arguments struct {
	Text           *string `json:"text"`
	Top            *int    `json:"top"`
	WordsPerMinute *int    `json:"words_per_minute"`
}

//nolint:gochecknoglobals // a reactor begins with its package variables
var module = guest.Serve(guest.Module{Name: "text_stats", Version: "1.0.0", Tools: []guest.Definition{
	guest.Tool("text_stats", "Measures a text: characters, words, sentences, lines, paragraphs, reading time, most frequent words, sha256.", schema, run),
}})

func main() { guest.Main() }

func run(_ context.Context, a arguments) (any, error) {
	if a.Text == nil {
		return nil, errors.New("text: required")
	}
	top, speed := or(a.Top, 10), or(a.WordsPerMinute, 238)
	if top < 0 || speed < 1 {
		return nil, errors.New("top must be at least 0 and words_per_minute at least 1")
	}
	return Measure(*a.Text, top, speed), nil
}

func or(v *int, def int) int {
	if v == nil {
		return def
	}
	return *v
}
