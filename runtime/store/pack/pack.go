// Package pack deflates the texts of the history of generations, where that is worth it.
package pack

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"
)

const (
	// Size is the size, in bytes, from which a text is deflated: below it the time
	// costs more than the space is worth.
	Size = 4 << 10
	// unSize is more than any text that is stored can be, in bytes; what unpacks to
	// more is damaged.
	unSize = 1 << 30
)

// Packer deflates texts, and keeps its buffers for the next. It is not for concurrent use.
type Packer struct {
	w *flate.Writer // nil: none was needed yet
}

// Pack gives a text as it is stored, and whether that is deflated.
func (p *Packer) Pack(text []byte) (stored []byte, packed bool) {
	if len(text) < Size {
		return text, false
	}
	var out bytes.Buffer
	if err := p.deflate(&out, text); err != nil || out.Len() >= len(text) {
		return text, false
	}
	return out.Bytes(), true
}

func (p *Packer) deflate(out io.Writer, text []byte) (err error) {
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

// Unpack is the reverse of Pack. The text is not nil.
func Unpack(stored []byte, packed bool) ([]byte, error) {
	if !packed {
		return append([]byte{}, stored...), nil
	}
	text, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(stored)), unSize))
	if err != nil {
		return nil, fmt.Errorf("inflating: %w", err)
	}
	return text, nil
}
