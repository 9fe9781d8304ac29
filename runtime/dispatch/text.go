package dispatch

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// errNotJSON says of an answer that it is no JSON, or deeper than any that is.
var errNotJSON = errors.New("not JSON")

// jsonText makes of a handler's answer what may be stored and sent: valid JSON in
// valid UTF-8. Nothing at all means null. Bytes that are not UTF-8 and halves of
// surrogate pairs become U+FFFD, since one of them would spoil every later request.
func jsonText(raw []byte) ([]byte, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return []byte("null"), nil
	}
	if !json.Valid(raw) {
		return nil, errNotJSON
	}
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	}
	return wholeRunes(raw), nil
}

// wholeRunes replaces unpaired surrogate escapes in valid JSON. The text is copied only
// if there is one.
func wholeRunes(raw []byte) []byte {
	var out []byte
	kept := 0
	for i := 0; i < len(raw); {
		next := bytes.IndexByte(raw[i:], '\\')
		if next < 0 {
			break
		}
		i += next
		high, ok := escapedUnit(raw[i:])
		if !ok || !utf16.IsSurrogate(high) {
			i += 2
			continue
		}
		if low, ok := escapedUnit(raw[i+6:]); ok && utf16.DecodeRune(high, low) != utf8.RuneError {
			i += 12
			continue
		}
		out = append(append(out, raw[kept:i]...), `\ufffd`...)
		i += 6
		kept = i
	}
	if kept == 0 {
		return raw
	}
	return append(out, raw[kept:]...)
}

// escapedUnit reads \uXXXX at the start of b.
func escapedUnit(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	return rune(n), err == nil
}
