//go:build !unix

package wasmtools

func mapMemory(size int) ([]byte, error) { return make([]byte, size), nil }

func unmapMemory([]byte) error { return nil }
