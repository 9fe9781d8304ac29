package generation

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"strconv"
)

// digestBytes is how much of a MAC is kept: enough that no two values meet by chance.
const digestBytes = 16

// keyed makes digests that nobody without the key can make. It belongs to one goroutine.
type keyed struct {
	mac hash.Hash
	buf []byte // reused
}

func newKeyed(key []byte) *keyed { return &keyed{mac: hmac.New(sha256.New, key)} }

// write feeds a part with its length, so that no two lists of parts are alike.
func (k *keyed) write(part []byte) {
	k.buf = append(strconv.AppendInt(k.buf[:0], int64(len(part)), 10), ':')
	k.mac.Write(k.buf)
	k.mac.Write(part)
}

// text feeds a text as write does.
func (k *keyed) text(part string) {
	k.buf = append(strconv.AppendInt(k.buf[:0], int64(len(part)), 10), ':')
	k.buf = append(k.buf, part...)
	k.mac.Write(k.buf)
}

// end gives the digest of what was written since the last one.
func (k *keyed) end() string {
	k.buf = k.mac.Sum(k.buf[:0])
	k.mac.Reset()
	return hex.EncodeToString(k.buf[:digestBytes])
}

// of is the digest of parts.
func (k *keyed) of(parts ...[]byte) string {
	for _, p := range parts {
		k.write(p)
	}
	return k.end()
}

// object is the digest of everything an object has but its place.
func (k *keyed) object(o *Object, s *sheet) string {
	k.text(o.ID)
	for i := range s.attrs {
		a := &s.attrs[i]
		k.text(a.Name)
		k.text(form(a.Attr))
		k.write(a.whole)
	}
	k.text(o.Definition)
	for _, c := range o.Capabilities {
		k.text(c)
	}
	return k.end()
}

// form tells a text from the secret and from the expression that read the same.
func form(a Attr) string {
	switch {
	case a.Sensitive:
		return "s"
	case a.Late:
		return "l"
	}
	return "v"
}
