package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/store/pack"
)

// NoGeneration is the error of a number that is not in the history.
func NoGeneration(number int64) error {
	return fault.New(fault.NotFound, "no generation %d in the history, which keeps at most the last %d that were live", number, KeptGenerations)
}

// CheckPrepare refuses a generation that does not follow the last recorded one, or whose
// number was used, unless it is the pending one prepared again.
func CheckPrepare(g, pending Generation, last, highest int64) error {
	again := pending.Number == g.Number && pending.Parent == g.Parent && pending.Inputs == g.Inputs
	switch {
	case g.Number <= highest && !again:
		return fault.New(fault.Exists, "generation %d: numbers up to %d are used, and none is used twice", g.Number, highest)
	case g.Parent != last:
		return fault.New(fault.Invalid, "generation %d was made from generation %d, but the last one recorded is %d", g.Number, g.Parent, last)
	}
	return nil
}

// RemovesNothing is the error of a change that removes an input or object which is not
// there.
func RemovesNothing(g Generation, what, name string) error {
	return fault.New(fault.Invalid, "generation %d removes the %s %q, which generation %d does not have", g.Number, what, name, g.Parent)
}

// NoBody is the error of a text that a change neither gives nor finds kept.
func NoBody(digest string) error {
	return fault.New(fault.Invalid, "the text %s is neither given nor kept", digest)
}

// Digest is the hex sha256 of a text; of nil, nothing.
func Digest(b []byte) string {
	if b == nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// VerifiedBody unpacks the text of a history, if it is the one of the digest; damage is
// fault.Internal.
func VerifiedBody(digest string, body []byte, packed bool) ([]byte, error) {
	text, err := pack.Unpack(body, packed)
	if err != nil || Digest(text) != digest {
		return nil, fault.Wrap(fault.Internal, err, "the text %s of the history is damaged: its content is not what was stored", digest)
	}
	return text, nil
}

// Check refuses what cannot be a change, whatever is stored.
func (c GenerationChange) Check() error {
	if c.Number <= 0 || c.Parent < 0 || c.Parent >= c.Number || c.Owner == "" || c.Inputs == "" {
		return fault.New(fault.Invalid, "a generation needs a number above its parent's, an owner and a digest of its inputs")
	}
	if !isJSON(c.Diff) || !isJSON(c.Meta) {
		return fault.New(fault.Invalid, "generation %d: diff and meta must be JSON", c.Number)
	}
	seen := map[string]bool{}
	for _, in := range c.Changed {
		if err := in.check(); err != nil {
			return err
		}
		if seen[in.Path] {
			return fault.New(fault.Invalid, "generation %d: the input %q is there twice", c.Number, in.Path)
		}
		seen[in.Path] = true
	}
	clear(seen)
	for _, o := range c.Objects {
		if o.ID == "" || !o.Removed && (o.Digest == "" || len(o.Body) == 0 || !json.Valid(o.Body)) {
			return fault.New(fault.Invalid, "generation %d: the object %q needs an ID, a digest and a body in JSON", c.Number, o.ID)
		}
		if seen[o.ID] {
			return fault.New(fault.Invalid, "generation %d: the object %q is there twice", c.Number, o.ID)
		}
		seen[o.ID] = true
	}
	return nil
}

func (in GenerationInput) check() error {
	switch {
	case in.Path == "":
		return fault.New(fault.Invalid, "an input of a generation needs a path")
	case in.Removed:
		return nil
	case in.Absent != (in.Digest == ""), in.Absent && (in.Module || in.Size != 0):
		return fault.New(fault.Invalid, "the input %q has either a digest or is absent", in.Path)
	case (in.Module || in.Absent) && in.Body != nil:
		return fault.New(fault.Invalid, "the input %q is no text, so that its content is not kept here", in.Path)
	case !in.Absent && !isDigest(in.Digest):
		return fault.New(fault.Invalid, "the input %q needs the hex sha256 of its content", in.Path)
	case in.Body != nil && (Digest(in.Body) != in.Digest || int64(len(in.Body)) != in.Size):
		return fault.New(fault.Invalid, "the content of the input %q is not that of its digest and size", in.Path)
	}
	return nil
}

func isJSON(b json.RawMessage) bool { return b == nil || json.Valid(b) }

func isDigest(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size && hex.EncodeToString(b) == s
}
