package pack_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/store/pack"
)

func TestPack(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 2*pack.Size)
	if _, err := rand.NewChaCha8([32]byte{}).Read(noise); err != nil {
		t.Fatal(err)
	}
	var p pack.Packer
	for name, c := range map[string]struct {
		text   []byte
		packed bool
	}{
		"empty":   {[]byte{}, false},
		"short":   {bytes.Repeat([]byte("x"), pack.Size-1), false},
		"long":    {bytes.Repeat([]byte("x"), pack.Size), true},
		"further": {bytes.Repeat([]byte("further "), pack.Size), true},
		"noise":   {noise, false},
	} {
		stored, packed := p.Pack(c.text)
		if packed != c.packed || packed && len(stored) > len(c.text)/10 {
			t.Errorf("%s: packed %v to %d bytes of %d", name, packed, len(stored), len(c.text))
		}
		if text, err := pack.Unpack(stored, packed); err != nil || text == nil || !bytes.Equal(text, c.text) {
			t.Errorf("%s: unpacked to %d bytes, %v; want %d", name, len(text), err, len(c.text))
		}
	}
}
