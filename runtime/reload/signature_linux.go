package reload

import (
	"io/fs"
	"syscall"
	"time"
)

// signature tells a file's states apart without reading it: any write changes the
// change time, also one that sets the modification time back; a replaced file is
// another inode.
type signature struct {
	size           int64
	modified       time.Duration // since the epoch
	changed        time.Duration // since the epoch; no program can set it
	device, number uint64
	links          uint64
}

func signatureOf(info fs.FileInfo) signature {
	s := signature{size: info.Size(), modified: time.Duration(info.ModTime().UnixNano())}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.changed = time.Duration(st.Ctim.Nano())
		s.links = uint64(st.Nlink)                  //nolint:unconvert // the width differs by platform
		s.device, s.number = uint64(st.Dev), st.Ino //nolint:unconvert // the width differs by platform
	}
	return s
}

// latest is the time of the last change. The modification time says less: archives and
// copies set it to that of their source.
func (s signature) latest() time.Time { return time.Unix(0, int64(s.changed)) }

// proves says that the times tell of every write.
func (s signature) proves() bool { return true }

// shared says that the file has another name, through which it may change unseen.
func (s signature) shared() bool { return s.links > 1 }
