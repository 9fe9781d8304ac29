//go:build !linux

package reload

import (
	"io/fs"
	"time"
)

// signature tells a file's states apart without reading it, as well as size and
// modification time can.
type signature struct {
	size     int64
	modified time.Duration // since the epoch
}

func signatureOf(info fs.FileInfo) signature {
	return signature{size: info.Size(), modified: time.Duration(info.ModTime().UnixNano())}
}

// latest is the time of the last change as far as it is known.
func (s signature) latest() time.Time { return time.Unix(0, int64(s.modified)) }

// proves says that the times tell of every write. They do not: a modification time can
// be set, so that every file is read again.
func (s signature) proves() bool { return false }

// shared says that the file may have another name, through which it may change unseen.
func (s signature) shared() bool { return true }
