//go:build !unix

package lock

import (
	"errors"
	"os"
)

var errHeld = errors.New("lock is held")

// tryLock refuses: without flock nothing would keep two owners apart.
func tryLock(*os.File, bool) error { return errors.ErrUnsupported }
