// Package guesttest reads the tables of expected behaviour of the shipped guests. The
// same table is run natively, beside the guest, and through the sandbox.
package guesttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// Case is one call and what is expected of it: a result or an error.
type Case struct {
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
	// Result is the expected value; the string "*" in it stands for any value.
	Result json.RawMessage `json:"result"`
	// Error is a part of the expected error text.
	Error string `json:"error"`
}

// Load reads a table.
func Load(path string) ([]Case, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var cases []Case
	return cases, json.Unmarshal(b, &cases)
}

// Check holds an outcome against the case and says what differs; empty: nothing.
func (c Case) Check(got []byte, err error) string {
	if c.Error != "" {
		if err == nil || !strings.Contains(err.Error(), c.Error) {
			return fmt.Sprintf("got %s, %v; want an error with %q", got, err, c.Error)
		}
		return ""
	}
	if err != nil {
		return fmt.Sprintf("got error %v; want %s", err, c.Result)
	}
	a, errA := decode(got)
	b, errB := decode(c.Result)
	if errA != nil || errB != nil || !equal(a, b) {
		return fmt.Sprintf("got  %s\nwant %s", got, compact(c.Result))
	}
	return ""
}

func decode(b []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	return v, d.Decode(&v)
}

func compact(b []byte) string {
	var out bytes.Buffer
	if json.Compact(&out, b) != nil {
		return string(b)
	}
	return out.String()
}

// equal compares values; numbers by their text.
func equal(got, want any) bool {
	switch w := want.(type) {
	case string:
		return w == "*" || got == want
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for i := range w {
			if !equal(g[i], w[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for k := range w {
			if gv, ok := g[k]; !ok || !equal(gv, w[k]) {
				return false
			}
		}
		return true
	}
	return got == want
}
