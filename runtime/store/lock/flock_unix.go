//go:build unix

package lock

import (
	"errors"
	"os"
	"syscall"
)

var errHeld = errors.New("lock is held")

// tryLock takes the lock without waiting: exclusively, or shared. Closing the file
// gives it back.
func tryLock(f *os.File, exclusive bool) error {
	how := syscall.LOCK_SH
	if exclusive {
		how = syscall.LOCK_EX
	}
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			return errHeld
		}
		return err
	}
}
