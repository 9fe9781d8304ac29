// Package count is the work that every variant of the benchmark does, in Go: it counts
// the words of a text and hashes it. The sources in C, Rust and AssemblyScript beside it
// do the same and answer the same bytes.
package count

import "encoding/json"

// Args are the arguments of the tool.
type Args struct {
	Text string `json:"text"`
}

// Result is its result; the order of the fields is part of the work.
type Result struct {
	Words int    `json:"words"`
	FNV1a string `json:"fnv1a"` // 64 bits, 16 hexadecimal digits
}

// Text counts and hashes one text. A word is a run of bytes other than space, tab, line
// feed and carriage return.
func Text(s string) Result {
	const offset, prime = 14695981039346656037, 1099511628211
	hash, words, inside := uint64(offset), 0, false
	for i := range len(s) {
		hash = (hash ^ uint64(s[i])) * prime
		space := s[i] == ' ' || s[i] == '\t' || s[i] == '\n' || s[i] == '\r'
		if !space && !inside {
			words++
		}
		inside = !space
	}
	return Result{Words: words, FNV1a: hex(hash)}
}

func hex(v uint64) string {
	const digits = "0123456789abcdef"
	var out [16]byte
	for i := range out {
		out[15-i] = digits[v&15]
		v >>= 4
	}
	return string(out[:])
}

// JSON is the whole tool: arguments to result.
func JSON(arguments []byte) ([]byte, error) {
	var a Args
	if err := json.Unmarshal(arguments, &a); err != nil {
		return nil, err
	}
	return json.Marshal(Text(a.Text))
}
