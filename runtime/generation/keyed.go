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
	len []byte
	sum []byte
}

func newKeyed(key []byte) *keyed { return &keyed{mac: hmac.New(sha256.New, key)} }

// write feeds a part with its length, so that no two lists of parts are alike.
func (k *keyed) write(part []byte) {
	k.len = append(strconv.AppendInt(k.len[:0], int64(len(part)), 10), ':')
	k.mac.Write(k.len)
	k.mac.Write(part)
}

// end gives the digest of what was written since the last one.
func (k *keyed) end() string {
	k.sum = k.mac.Sum(k.sum[:0])
	k.mac.Reset()
	return hex.EncodeToString(k.sum[:digestBytes])
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
	k.write([]byte(o.ID))
	for i := range s.attrs {
		a := &s.attrs[i]
		k.write([]byte(a.Name))
		k.write([]byte{form(a.Attr)})
		k.write(a.whole)
	}
	k.write([]byte(o.Definition))
	for _, c := range o.Capabilities {
		k.write([]byte(c))
	}
	return k.end()
}

// form tells a text from the secret and from the expression that read the same.
func form(a Attr) byte {
	switch {
	case a.Sensitive:
		return 's'
	case a.Late:
		return 'l'
	}
	return 'v'
}
