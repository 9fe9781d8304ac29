//go:build unix

package wasmtools

import "syscall"

const openNonblock = syscall.O_NONBLOCK
