//go:build !unix

package wasmtools

const openNonblock = 0
