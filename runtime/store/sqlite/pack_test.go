package sqlite

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

func TestPack(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 2*packedSize)
	if _, err := rand.NewChaCha8([32]byte{}).Read(noise); err != nil {
		t.Fatal(err)
	}
	var p packer
	for name, c := range map[string]struct {
		text   []byte
		packed bool
	}{
		"empty":   {[]byte{}, false},
		"short":   {bytes.Repeat([]byte("x"), packedSize-1), false},
		"long":    {bytes.Repeat([]byte("x"), packedSize), true},
		"further": {bytes.Repeat([]byte("further "), packedSize), true},
		"noise":   {noise, false},
	} {
		stored, packed := p.pack(c.text)
		if packed != c.packed || packed && len(stored) > len(c.text)/10 {
			t.Errorf("%s: packed %v to %d bytes of %d", name, packed, len(stored), len(c.text))
		}
		if text, err := unpack(stored, packed); err != nil || text == nil || !bytes.Equal(text, c.text) {
			t.Errorf("%s: unpacked to %d bytes, %v; want %d", name, len(text), err, len(c.text))
		}
	}
}
