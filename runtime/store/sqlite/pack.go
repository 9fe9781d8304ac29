package sqlite

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"
)

const (
	// packedSize is the size, in bytes, from which a text is deflated: below it the time
	// costs more than the space is worth.
	packedSize = 4 << 10
	// unpackedSize is more than any text that is stored can be, in bytes; what unpacks to
	// more is damaged.
	unpackedSize = 1 << 30
)

// packer deflates texts of the history. It belongs to the writer and keeps its buffers.
type packer struct {
	w *flate.Writer // nil: none was needed yet
}

// pack gives a text as it is stored, and whether that is deflated.
func (p *packer) pack(text []byte) (stored []byte, packed bool) {
	if len(text) < packedSize {
		return text, false
	}
	var out bytes.Buffer
	if err := p.deflate(&out, text); err != nil || out.Len() >= len(text) {
		return text, false
	}
	return out.Bytes(), true
}

func (p *packer) deflate(out io.Writer, text []byte) (err error) {
	if p.w == nil {
		if p.w, err = flate.NewWriter(out, flate.BestSpeed); err != nil {
			return err
		}
	}
	p.w.Reset(out)
	if _, err := p.w.Write(text); err != nil {
		return err
	}
	return p.w.Close()
}

// unpack is the reverse of pack. The text is not nil.
func unpack(stored []byte, packed bool) ([]byte, error) {
	if !packed {
		return append([]byte{}, stored...), nil
	}
	text, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(stored)), unpackedSize))
	if err != nil {
		return nil, fmt.Errorf("inflating: %w", err)
	}
	return text, nil
}
