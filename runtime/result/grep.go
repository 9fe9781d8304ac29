package result

import (
	"bytes"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

const (
	maxPattern = 1000     // bytes
	maxLine    = 64 << 10 // bytes that are matched at once; longer lines are cut in pieces
	overlap    = 1 << 10  // of such pieces
	maxShown   = 300      // characters of a line around its match
)

// compile reads a pattern.
func compile(pattern string) (*regexp.Regexp, error) {
	if len(pattern) > maxPattern {
		return nil, fault.New(fault.Invalid, "the pattern has %d bytes, and may have %d", len(pattern), maxPattern)
	}
	re, err := regexp.Compile(pattern)
	if err == nil {
		return re, nil
	}
	what := err.Error()
	if s, ok := err.(*syntax.Error); ok { //nolint:errorlint // regexp returns it as it is
		what = s.Code.String() + " at " + s.Expr
	}
	return nil, fault.New(fault.Invalid, "grep %q is not a regular expression (RE2): %s", fault.Cut(pattern, 200), fault.Cut(what, 200))
}

// Match is one line or value that a pattern matches.
type Match struct {
	// Path leads to the value in JSON.
	Path string `json:"path,omitempty"`
	// Line is the number of the line, from 1, in a text or in a string of several lines.
	Line int `json:"line,omitempty"`
	// Offset is where the match begins in the bytes of the result; in JSON, where its value
	// does.
	Offset int64 `json:"offset"`
	// Text is the line or value, cut to what is around the match.
	Text string `json:"text"`
}

// lines cuts a text into lines and matches each. Write it piece by piece, then end it.
type lines struct {
	re    *regexp.Regexp
	found func(line int, at int64, text string) bool
	done  bool

	held    []byte // of the line under way
	line    int    // its number
	at      int64  // the offset of held
	matched bool   // an earlier piece of the line did
}

func (l *lines) reset(at int64) {
	l.held, l.line, l.at, l.matched = l.held[:0], 1, at, false
}

func (l *lines) write(p []byte) {
	for len(p) > 0 && !l.done {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			l.hold(p)
			return
		}
		if l.hold(p[:end]); l.done {
			return
		}
		l.match()
		l.at += int64(len(l.held)) + 1
		l.held, l.matched = l.held[:0], false
		l.line++
		p = p[end+1:]
	}
}

// hold adds to the line. One that becomes too long is matched piece by piece.
func (l *lines) hold(p []byte) {
	for len(l.held)+len(p) > maxLine && !l.done {
		n := max(0, maxLine-len(l.held))
		l.held = append(l.held, p[:n]...)
		p = p[n:]
		l.match()
		cut := len(l.held) - overlap
		l.held = l.held[:copy(l.held, l.held[cut:])]
		l.at += int64(cut)
	}
	l.held = append(l.held, p...)
}

// end matches the last line. A text that ends with a line break has none after it.
func (l *lines) end() {
	if len(l.held) > 0 || l.line == 1 {
		l.match()
	}
}

func (l *lines) match() {
	if l.done || l.matched {
		return
	}
	text := bytes.TrimSuffix(l.held, []byte("\r"))
	if at := l.re.FindIndex(text); at != nil {
		l.matched = true
		l.done = !l.found(l.line, l.at+int64(at[0]), around(text, at))
	}
}

// around is the part of a line that a match is in, in valid UTF-8.
func around(text []byte, at []int) string {
	if len(text) <= maxShown {
		return strings.ToValidUTF8(string(text), "\uFFFD")
	}
	from := max(0, min(at[0]-maxShown/3, len(text)-maxShown))
	to := min(len(text), from+maxShown)
	for from > 0 && from < to && !utf8.RuneStart(text[from]) {
		from++
	}
	for to < len(text) && to > from && !utf8.RuneStart(text[to]) {
		to--
	}
	out := strings.ToValidUTF8(string(text[from:to]), "\uFFFD")
	if from > 0 {
		out = "…" + out
	}
	if to < len(text) {
		out += "…"
	}
	return out
}

// frame is an object or array that a search is in.
type frame struct {
	named bool
	n     int
	name  []byte
}

// search matches every value of a JSON text, and every name of a member.
type search struct {
	*scanner
	re     *regexp.Regexp
	found  func(m Match) bool
	prefix trail
	stack  []frame
	lines  lines
	write  func([]byte) // that of lines
	at     int64        // the offset of the string under way
	name   []byte
	value  []byte
	done   bool
}

// run searches the value that is next. It does not recurse over the text.
func (s *search) run() error {
	s.lines = lines{re: s.re, found: func(line int, _ int64, text string) bool {
		return s.found(Match{Path: s.place(), Line: line, Offset: s.at, Text: text})
	}}
	s.write = s.lines.write
	s.visit()
	for len(s.stack) > 0 && !s.done && s.err == nil {
		top := &s.stack[len(s.stack)-1]
		if !s.next() {
			s.stack = s.stack[:len(s.stack)-1]
			continue
		}
		if top.n++; top.named {
			at := s.offset()
			s.name = s.scanner.name(s.name)
			top.name = append(top.name[:0], s.name...)
			if loc := s.re.FindIndex(s.name); loc != nil && !s.nameMatches(at) {
				return s.err
			}
		}
		s.visit()
	}
	return s.err
}

// nameMatches reports a member by its name, and steps over it: its value is in the answer
// only if it is no object or array.
func (s *search) nameMatches(at int64) bool {
	s.done = !s.found(Match{Path: s.place(), Offset: at, Text: fault.Cut(strings.ToValidUTF8(string(s.name), "\uFFFD"), maxShown) + ": " + s.brief()})
	return !s.done
}

// brief says what the value that is next is, and does not step over it.
func (s *search) brief() string {
	switch typ := s.typ(); typ {
	case "object", "array", "string":
		return typ
	}
	start := s.offset()
	s.literal()
	s.seek(start)
	return string(s.value)
}

// visit matches the value that is next, or steps into it.
func (s *search) visit() {
	switch s.typ() {
	case "object", "array":
		s.push(s.buf[s.i] == '{')
		s.i++
	case "string":
		s.text()
	default:
		at := s.offset()
		s.literal()
		if s.re.Match(s.value) {
			s.done = !s.found(Match{Path: s.place(), Offset: at, Text: string(s.value)})
		}
	}
}

// push steps into an object or array. What an earlier one at its depth kept is used again.
func (s *search) push(named bool) {
	f := frame{named: named, n: -1}
	if n := len(s.stack); n < cap(s.stack) {
		f.name = s.stack[:n+1][n].name
	}
	s.stack = append(s.stack, f)
}

// text matches the lines of a string.
func (s *search) text() {
	s.at = s.offset()
	s.lines.reset(0)
	s.decode(s.write)
	s.lines.end()
	s.done = s.lines.done
}

// literal reads a number, true, false or null.
func (s *search) literal() {
	s.value = s.value[:0]
	for s.more() {
		c := s.buf[s.i]
		if c <= ' ' || c == ',' || c == '}' || c == ']' || len(s.value) == maxShown {
			return
		}
		s.value = append(s.value, c)
		s.i++
	}
}

// place is where the search is.
func (s *search) place() string {
	at := append(trail{}, s.prefix...)
	for _, f := range s.stack[:min(len(s.stack), maxTrail)] {
		if f.named {
			at = append(at, string(f.name))
		} else {
			at = append(at, f.n)
		}
	}
	return at.String()
}
