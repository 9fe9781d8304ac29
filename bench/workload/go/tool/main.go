// Command tool is the work as a hermes tool in Go: a command, or a reactor when it is
// built with -buildmode=c-shared.
package main

import (
	"context"

	"github.com/hermes-runtime/hermes/bench/workload/go/count"
	guest "github.com/hermes-runtime/hermes/wasmtools/sdk/go"
)

const schema = `{"type":"object","required":["text"],"properties":{"text":{"type":"string"}}}`

var _ = guest.Serve(guest.Module{Name: "count", Tools: []guest.Definition{
	guest.Tool("count", "Counts the words of a text and hashes it.", schema,
		func(_ context.Context, a count.Args) (count.Result, error) { return count.Text(a.Text), nil }),
}})

func main() { guest.Main() }
