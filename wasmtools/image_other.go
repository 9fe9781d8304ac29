//go:build !linux

package wasmtools

import "errors"

// canShare says whether the system has memory that can be mapped copy-on-write.
const canShare = false

// sharedImage does not exist here.
type sharedImage struct{}

func newSharedImage([]byte) (*sharedImage, error) { return nil, errors.ErrUnsupported }

func (*sharedImage) mapInto([]byte) error { return errors.ErrUnsupported }

func (*sharedImage) close() {}

func (*sharedImage) contents() []byte { return nil }

func discardPages([]byte) error { return errors.ErrUnsupported }

func touched([]byte) []span { return nil }
