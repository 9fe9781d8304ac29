//go:build unix

package file

import "syscall"

// nonblock makes opening a pipe return at once, so that its kind can be seen.
const nonblock = syscall.O_NONBLOCK
