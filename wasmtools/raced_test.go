//go:build race

package wasmtools

// raced: the race detector keeps memory of its own, so figures say nothing.
const raced = true
