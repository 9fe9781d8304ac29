// Command csv_query is a tool that asks questions of a table in CSV: which rows, which
// columns, in which order, and what they add up to.
package main

import (
	"context"

	guest "github.com/hermes-runtime/hermes/wasmtools/sdk/go"
)

const schema = `{
  "type": "object",
  "additionalProperties": false,
  "required": ["csv"],
  "properties": {
    "csv": {"type": "string", "description": "The table as CSV text."},
    "delimiter": {"type": "string", "description": "One character; by default comma, semicolon, tab or pipe, whichever the first line has most of."},
    "header": {"type": "boolean", "default": true, "description": "Whether the first row names the columns; else they are named c1, c2, …"},
    "where": {"type": "array", "maxItems": 50, "description": "Conditions that all must hold.", "items": {
      "type": "object", "additionalProperties": false, "required": ["column", "op"],
      "properties": {
        "column": {"type": "string"},
        "op": {"type": "string", "enum": ["=", "!=", "<", "<=", ">", ">=", "contains", "starts_with", "ends_with", "matches", "in", "empty", "not_empty"]},
        "value": {"description": "Numbers compare as numbers when the cell is one; a list for in; a regular expression for matches."}
      }}},
    "group_by": {"type": "array", "maxItems": 20, "items": {"type": "string"}, "description": "Columns to group by."},
    "aggregate": {"type": "array", "maxItems": 50, "description": "What to compute per group, or over all rows.", "items": {
      "type": "object", "additionalProperties": false, "required": ["fn"],
      "properties": {
        "fn": {"type": "string", "enum": ["count", "count_distinct", "sum", "avg", "min", "max"]},
        "column": {"type": "string", "description": "Not needed for count."},
        "as": {"type": "string", "description": "Name of the resulting column."}
      }}},
    "select": {"type": "array", "maxItems": 2000, "items": {"type": "string"}, "description": "Columns of the answer, in this order; default all."},
    "sort": {"type": "array", "maxItems": 20, "items": {
      "type": "object", "additionalProperties": false, "required": ["column"],
      "properties": {"column": {"type": "string"}, "descending": {"type": "boolean", "default": false}}}},
    "offset": {"type": "integer", "minimum": 0, "default": 0},
    "limit": {"type": "integer", "minimum": 0, "maximum": 100000, "default": 100, "description": "Return at most this many rows, and no more than 2 MiB of them; more says whether there are others behind."}
  }
}`

//nolint:gochecknoglobals // a reactor begins with its package variables
var module = guest.Serve(guest.Module{Name: "csv_query", Version: "1.0.0", Tools: []guest.Definition{
	guest.Tool("csv_query", "Filters, groups, aggregates, sorts and selects rows of a CSV table.", schema,
		func(_ context.Context, q Query) (any, error) { return q.Run() }),
}})

func main() { guest.Main() }
