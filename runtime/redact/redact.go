// Package redact takes secrets out of texts: the sensitive values that are in force, in the
// forms in which texts carry them, and keys of the formats that providers give out.
//
// It does not know where secrets come from (config collects them) nor where texts go.
//
//	Hold(values) ─► matcher of all that is held ─► JSON, Text ─► a copy with [redacted], if anything was found
//
// # Invariants
//
// Of two that overlap the one that begins first is taken out, and of those the longest. A
// text in which nothing is found is given back as it is. JSON stays JSON. A value of fewer
// than [Least] bytes is no secret that could be found: it stands in texts by chance.
//
// A value is found as it is, as a JSON string has it, as a URL has it, and in base64; the
// token of "Bearer token" also alone. One that is split, encrypted or compressed is not.
//
// # Concurrency
//
// A Set is safe for concurrent use. Whoever holds values changes what all find.
package redact

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hermes-runtime/hermes/runtime/secret"
)

// Least is how many bytes a value has at least to be looked for.
const Least = 8

// Blot stands where a secret was.
const Blot = "[redacted]"

// Set is the values in force. The zero Set holds none and finds keys by their format.
type Set struct {
	mu   sync.Mutex // guards held
	held map[string]int
	find atomic.Pointer[matcher]
}

// Hold adds values until release is called, which may be more than once.
func (s *Set) Hold(values []secret.Value) (release func()) {
	texts := make([]string, 0, len(values))
	for _, v := range values {
		if text := v.Open(); len(text) >= Least && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	s.change(texts, 1)
	var once sync.Once
	return func() { once.Do(func() { s.change(texts, -1) }) }
}

func (s *Set) change(texts []string, by int) {
	if len(texts) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil {
		s.held = map[string]int{}
	}
	same := true
	for _, t := range texts {
		before := s.held[t]
		if s.held[t] += by; s.held[t] <= 0 {
			delete(s.held, t)
		}
		same = same && before > 0 && s.held[t] > 0
	}
	if same {
		return
	}
	values := make([]string, 0, len(s.held))
	for t := range s.held {
		values = append(values, t)
	}
	s.find.Store(newMatcher(values))
}

// JSON gives a JSON text without secrets, and how many there were.
func (s *Set) JSON(text []byte) ([]byte, int) {
	out, n := s.replace(text, true)
	if n == 0 || json.Valid(out) || !json.Valid(text) {
		return out, n
	}
	// One stood across what makes the text JSON, in a number for example.
	return s.rebuilt(text)
}

// Text gives any text without secrets, and how many there were.
func (s *Set) Text(text string) (string, int) {
	out, n := s.replace([]byte(text), false)
	if n == 0 {
		return text, 0
	}
	return string(out), n
}

// String is Text without the count.
func (s *Set) String(text string) string {
	out, _ := s.Text(text)
	return out
}

// replace copies the text only if there is something to take out.
func (s *Set) replace(text []byte, inJSON bool) ([]byte, int) {
	m := s.find.Load()
	var out []byte
	kept, found := 0, 0
	for i := 0; i+Least <= len(text); {
		n := m.at(text, i, inJSON)
		if n == 0 {
			n = keyAt(text, i)
		}
		if n == 0 {
			i++
			continue
		}
		out = append(append(out, text[kept:i]...), Blot...)
		i += n
		kept = i
		found++
	}
	if found == 0 {
		return text, 0
	}
	return append(out, text[kept:]...), found
}

// rebuilt takes secrets out of the strings of a JSON text, and makes one of each number
// that has one.
func (s *Set) rebuilt(text []byte) ([]byte, int) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return []byte(`"` + Blot + `"`), 1
	}
	n := 0
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s.walk(v, &n)); err != nil {
		return []byte(`"` + Blot + `"`), 1
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), n
}

func (s *Set) walk(v any, n *int) any {
	switch v := v.(type) {
	case string:
		out, found := s.Text(v)
		*n += found
		return out
	case json.Number:
		if out, found := s.Text(v.String()); found > 0 {
			*n += found
			return out
		}
	case []any:
		for i := range v {
			v[i] = s.walk(v[i], n)
		}
	case map[string]any:
		for k, e := range v {
			delete(v, k)
			name, found := s.Text(k)
			*n += found
			v[name] = s.walk(e, n)
		}
	}
	return v
}

// scheme takes "Bearer " and its like off a credential.
func withoutScheme(value string) (string, bool) {
	scheme, token, ok := strings.Cut(value, " ")
	return token, ok && scheme != "" && !strings.Contains(token, " ") && len(token) >= Least
}
