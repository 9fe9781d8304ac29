package redact

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// matcher finds any of many values at a place: two bytes rule out most places, and four
// lead to the few values that begin so.
type matcher struct {
	pairs [1 << 16 / 64]uint64
	by    map[[4]byte][]form // longest first
}

// form is one way in which a text has a value.
type form struct {
	text string
	// plain says that it must not be looked for in JSON, where it would stand across quotes
	// or escapes.
	plain bool
}

func newMatcher(values []string) *matcher {
	if len(values) == 0 {
		return nil
	}
	m := &matcher{by: map[[4]byte][]form{}}
	seen := map[string]bool{}
	for _, v := range values {
		for _, f := range formsOf(v) {
			if len(f.text) < Least || seen[f.text] {
				continue
			}
			seen[f.text] = true
			pair := uint16(f.text[0])<<8 | uint16(f.text[1])
			m.pairs[pair>>6] |= 1 << (pair & 63)
			key := [4]byte([]byte(f.text[:4]))
			m.by[key] = append(m.by[key], f)
		}
	}
	for _, forms := range m.by {
		slices.SortFunc(forms, func(a, b form) int { return len(b.text) - len(a.text) })
	}
	return m
}

// at is how many bytes of a value stand at a place; 0: none does.
func (m *matcher) at(text []byte, i int, inJSON bool) int {
	if m == nil {
		return 0
	}
	pair := uint16(text[i])<<8 | uint16(text[i+1])
	if m.pairs[pair>>6]&(1<<(pair&63)) == 0 {
		return 0
	}
	for _, f := range m.by[[4]byte(text[i:i+4])] {
		if len(text)-i >= len(f.text) && string(text[i:i+len(f.text)]) == f.text && (!inJSON || !f.plain) {
			return len(f.text)
		}
	}
	return 0
}

// formsOf are the ways in which texts have a value.
func formsOf(value string) []form {
	out := encodings(value)
	if token, ok := withoutScheme(value); ok {
		out = append(out, encodings(token)...)
	}
	return out
}

func encodings(value string) []form {
	out := []form{{value, strings.ContainsAny(value, "\"\\") || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' })}}
	for _, escapeHTML := range []bool{true, false} {
		var b strings.Builder
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(escapeHTML)
		if enc.Encode(value) == nil { // a string always encodes
			quoted := strings.TrimSuffix(b.String(), "\n")
			out = append(out, form{quoted[1 : len(quoted)-1], false})
		}
	}
	out = append(out, form{url.QueryEscape(value), false}, form{url.PathEscape(value), false}, form{strings.ReplaceAll(url.QueryEscape(value), "+", "%20"), false})
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for shift := range 3 {
			out = append(out, form{inBase64(enc, value, shift), false})
		}
	}
	return out
}

// inBase64 is the part of a base64 text that depends on the value alone, if shift bytes
// stand before it.
func inBase64(enc *base64.Encoding, value string, shift int) string {
	text := enc.EncodeToString([]byte(strings.Repeat("\x00", shift) + value))
	from := (shift*8 + 5) / 6
	to := len(text)
	if rest := (shift + len(value)) * 8 % 6; rest != 0 {
		to-- // its last character has bits of what follows
	}
	return text[min(from, to):to]
}
