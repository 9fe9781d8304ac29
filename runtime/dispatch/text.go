package dispatch

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/registry"
)

// jsonText makes of a handler's answer what may be stored and sent: valid JSON in
// valid UTF-8. Nothing at all means null. Bytes that are not UTF-8 and halves of
// surrogate pairs become U+FFFD, since one of them would spoil every later request;
// anything else that is wrong is an error of the tool.
func jsonText(t *registry.Tool, raw []byte) ([]byte, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return []byte("null"), nil
	}
	if !json.Valid(raw) {
		return nil, fault.New(fault.Internal, "the tool %q answered with something that is not JSON%s", t.Name, unknown(t))
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

// head is the beginning of s, at most n characters.
func head(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// tail is the end of s, at most n characters.
func tail(s string, n int) string {
	i := len(s)
	for ; i > 0 && n > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(s[:i])
		i -= size
	}
	return s[i:]
}
