package wire

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// Lenient is a string that may be absent, null or a number; anything else is empty.
type Lenient string

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (l *Lenient) UnmarshalJSON(raw []byte) error {
	switch text := ""; {
	case json.Unmarshal(raw, &text) == nil:
		*l = Lenient(text)
	case len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9'):
		*l = Lenient(raw)
	}
	return nil
}

// Tokens is a count: any number, rounded down and not negative; anything else is 0.
type Tokens int

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (n *Tokens) UnmarshalJSON(raw []byte) error {
	f, err := strconv.ParseFloat(string(bytes.Trim(raw, `"`)), 64)
	if err == nil && f > 0 && f < 1<<53 {
		*n = Tokens(f)
	}
	return nil
}

// Position is the value of an index field, if it has one.
func Position(raw json.RawMessage) (int, bool) {
	n, err := strconv.Atoi(string(bytes.Trim(raw, `"`)))
	return n, err == nil && n >= 0
}
