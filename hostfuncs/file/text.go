package file

import (
	"bytes"
	"fmt"
	"net/http"
	"unicode/utf8"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// sniffed is how much of a file is looked at to tell text from binary.
const sniffed = 8 << 10

// isBinary judges by content, since names lie: a NUL, the magic of a container format,
// or more than a tenth that is neither UTF-8 nor printable.
func isBinary(head []byte) bool {
	for _, magic := range []string{"%PDF-", "PK\x03\x04", "\x1f\x8b", "\x89PNG"} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return true
		}
	}
	odd := 0
	for rest := head; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		cutOff := r == utf8.RuneError && len(rest) < utf8.UTFMax && !utf8.FullRune(rest)
		switch {
		case r == 0:
			return true
		case r == utf8.RuneError && size == 1 && !cutOff, r < ' ' && !bytes.ContainsRune([]byte("\t\n\r\f\v\b\x1b"), r):
			odd++
		}
		rest = rest[size:]
	}
	return odd*10 > len(head)
}

func binaryError(p string, head []byte, size int64) error {
	return fault.New(fault.Invalid, "%q is not text (%s, %s); this tool reads text only", p, http.DetectContentType(head), humanSize(size))
}

func humanSize(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}

// clamp cuts a line to n characters and says how many are left out. Invalid UTF-8 is
// replaced.
func clamp(line []byte, n int) (text string, cut int) {
	line = bytes.ToValidUTF8(line, []byte("\uFFFD"))
	end, runes := len(line), 0
	for i := range string(line) {
		if runes == n {
			end = i
			break
		}
		runes++
	}
	return string(line[:end]), utf8.RuneCount(line[end:])
}
