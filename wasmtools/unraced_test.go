//go:build !race

package wasmtools

const raced = false
