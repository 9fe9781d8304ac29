package result

import (
	"context"
	"errors"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// chunk is how much of a source is in memory at once.
const chunk = 64 << 10

// maxName is how much of a member's name is kept; a path has none that is longer.
const maxName = 4 << 10

// scanner walks over JSON that lies in memory or in a source. What is not JSON it walks
// over too, to its end.
type scanner struct {
	ctx  context.Context
	src  io.ReadSeeker // nil: buf is all there is
	buf  []byte
	i, n int   // buf[i:n] is still to come
	base int64 // the offset of buf[0]
	err  error // of the source, or of ctx
}

func inMemory(text []byte) *scanner { return &scanner{buf: text, n: len(text)} }

func scan(ctx context.Context, src io.ReadSeeker) *scanner {
	s := &scanner{ctx: ctx, src: src, buf: make([]byte, chunk), base: -1}
	s.seek(0)
	return s
}

// offset of the next byte.
func (s *scanner) offset() int64 { return s.base + int64(s.i) }

// seek goes on at an offset.
func (s *scanner) seek(to int64) {
	if s.base >= 0 && to >= s.base && to <= s.base+int64(s.n) {
		s.i = int(to - s.base)
		return
	}
	if _, err := s.src.Seek(to, io.SeekStart); err != nil && s.err == nil {
		s.err = err
	}
	s.base, s.i, s.n = to, 0, 0
}

// more says whether there is a next byte, which is then buf[i].
func (s *scanner) more() bool { return s.i < s.n || s.fill() }

func (s *scanner) fill() bool {
	if s.src == nil || s.err != nil {
		return false
	}
	if s.err = context.Cause(s.ctx); s.err != nil {
		return false
	}
	s.base += int64(s.n)
	s.i, s.n = 0, 0
	n, err := io.ReadAtLeast(s.src, s.buf, 1)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
		return false
	}
	s.n = n
	return n > 0
}

// peek is the next byte that is not white space; 0 at the end.
func (s *scanner) peek() byte {
	for s.more() {
		if c := s.buf[s.i]; c > ' ' {
			return c
		}
		s.i++
	}
	return 0
}

// typ is the type of the value that begins here.
func (s *scanner) typ() string {
	switch s.peek() {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}

// skip steps over one value, however deep.
func (s *scanner) skip() {
	depth := 0
	for s.peek() != 0 {
		switch s.buf[s.i] {
		case '"':
			s.skipString()
		case '{', '[':
			depth++
			s.i++
			continue
		case '}', ']':
			depth--
			s.i++
		case ',', ':':
			s.i++
			continue
		default:
			s.skipLiteral()
		}
		if depth <= 0 {
			return
		}
	}
}

func (s *scanner) skipString() {
	s.i++
	for s.more() {
		c := s.buf[s.i]
		s.i++
		if c == '"' {
			return
		}
		if c == '\\' && s.more() {
			s.i++
		}
	}
}

func (s *scanner) skipLiteral() {
	for s.more() {
		switch s.buf[s.i] {
		case ',', ':', '}', ']', '"', '{', '[', ' ', '\t', '\n', '\r':
			return
		}
		s.i++
	}
}

// decode gives the text of the string that begins here, piece by piece. Halves of
// surrogate pairs become U+FFFD.
func (s *scanner) decode(emit func([]byte)) {
	s.i++
	for s.more() {
		start := s.i
		for s.i < s.n && s.buf[s.i] != '"' && s.buf[s.i] != '\\' {
			s.i++
		}
		if s.i > start {
			emit(s.buf[start:s.i])
		}
		switch {
		case s.i == s.n:
		case s.buf[s.i] == '"':
			s.i++
			return
		default:
			s.escapes(emit)
		}
	}
}

// escapes decodes one character that is written with a backslash, or two that belong
// together.
func (s *scanner) escapes(emit func([]byte)) {
	high, out := rune(0), make([]byte, 0, 2*utf8.UTFMax)
	for s.more() && s.buf[s.i] == '\\' {
		s.i++
		r := s.escaped()
		if pair := utf16.DecodeRune(high, r); pair != utf8.RuneError {
			emit(utf8.AppendRune(out, pair))
			return
		}
		if high != 0 {
			out = utf8.AppendRune(out, utf8.RuneError)
		}
		if utf16.IsSurrogate(r) && r < 0xdc00 {
			high = r
			continue
		}
		emit(utf8.AppendRune(out, r))
		return
	}
	if high != 0 {
		out = utf8.AppendRune(out, utf8.RuneError)
	}
	emit(out)
}

// escaped is what follows a backslash.
func (s *scanner) escaped() rune {
	if !s.more() {
		return utf8.RuneError
	}
	c := s.buf[s.i]
	s.i++
	switch c {
	case 'n':
		return '\n'
	case 't':
		return '\t'
	case 'r':
		return '\r'
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'u':
		return s.hex()
	}
	return rune(c)
}

func (s *scanner) hex() (r rune) {
	for range 4 {
		if !s.more() {
			return utf8.RuneError
		}
		c := rune(s.buf[s.i])
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return utf8.RuneError
		}
		r = r<<4 | c
		s.i++
	}
	return r
}

// name reads the name of a member and the colon after it; the value is next.
func (s *scanner) name(into []byte) []byte {
	into = into[:0]
	s.decode(func(b []byte) { into = append(into, b[:min(len(b), maxName-len(into))]...) })
	if s.peek() == ':' {
		s.i++
	}
	return into
}

// next steps to the next item or member, over the comma before it, and says whether there
// is one; else it steps over the bracket.
func (s *scanner) next() bool {
	if s.peek() == ',' {
		s.i++
		s.peek()
	}
	if !s.more() {
		return false
	}
	if c := s.buf[s.i]; c == ']' || c == '}' {
		s.i++
		return false
	}
	return true
}

// count steps over an array, and says how many items it has.
func (s *scanner) count() (n int) {
	for s.i++; s.next(); n++ {
		s.skip()
	}
	return n
}
