package schema

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// bounds limit a text before and while it is decoded.
type bounds struct {
	bytes, nodes, depth int
}

//nolint:gochecknoglobals // immutable
var (
	schemaBounds   = bounds{MaxSchemaBytes, MaxSchemaNodes, MaxDepth}
	argumentBounds = bounds{MaxArgumentBytes, maxArgumentNodes, MaxDepth}
)

// A number literal beyond these is refused: arithmetic on it would take time and
// space out of all proportion to its length.
const (
	maxNumberBytes = 1000
	maxExponent    = 1000
)

// syntaxError is a fault of the text, with where it is. what completes the sentence
// "… : <what>".
type syntaxError struct {
	what   string
	offset int // bytes
	kind   fault.Kind
	cut    bool // the text ends too early
	extra  bool // something follows a complete value
}

func (e *syntaxError) fault(subject string) *fault.Error {
	if e.kind == fault.TooLarge {
		return fault.New(fault.TooLarge, "%s: %s", subject, e.what)
	}
	return fault.New(fault.Invalid, "%s: not valid JSON at byte %d: %s", subject, e.offset, e.what)
}

// decoder reads one JSON text strictly (RFC 8259, and no key twice, no unpaired
// surrogate, no invalid UTF-8) into nil, bool, string, json.Number, []any and
// map[string]any. Strings and numbers share the memory of the text.
type decoder struct {
	text  string
	pos   int
	nodes int
	depth int
	lim   bounds
}

// decode reads text, which must hold exactly one value.
func decode(text string, lim bounds) (any, *syntaxError) {
	if len(text) > lim.bytes {
		return nil, &syntaxError{kind: fault.TooLarge,
			what: fmt.Sprintf("%d bytes are more than the %d allowed", len(text), lim.bytes)}
	}
	d := decoder{text: text, lim: lim}
	d.space()
	v, err := d.value()
	if err != nil {
		return nil, err
	}
	if d.space(); d.pos < len(d.text) {
		e := d.fail("unexpected %s after the value", d.near())
		e.extra = true
		return nil, e
	}
	return v, nil
}

func (d *decoder) fail(format string, args ...any) *syntaxError {
	return &syntaxError{what: fmt.Sprintf(format, args...), offset: d.pos, kind: fault.Invalid}
}

// end says that the text stopped inside what.
func (d *decoder) end(what string) *syntaxError {
	e := d.fail("the text ends inside %s", what)
	e.offset, e.cut = len(d.text), true
	return e
}

// near quotes the character at the position, for messages.
func (d *decoder) near() string {
	r, _ := utf8.DecodeRuneInString(d.text[d.pos:])
	return strconv.QuoteRune(r)
}

func (d *decoder) space() {
	for d.pos < len(d.text) {
		switch d.text[d.pos] {
		case ' ', '\t', '\n', '\r':
			d.pos++
		default:
			return
		}
	}
}

func (d *decoder) value() (any, *syntaxError) {
	if d.nodes++; d.nodes > d.lim.nodes {
		return nil, &syntaxError{kind: fault.TooLarge,
			what: fmt.Sprintf("more than %d JSON values", d.lim.nodes)}
	}
	if d.pos >= len(d.text) {
		return nil, d.end("a value")
	}
	switch c := d.text[d.pos]; {
	case c == '{':
		return d.nested((*decoder).object)
	case c == '[':
		return d.nested((*decoder).array)
	case c == '"':
		return d.boxedString()
	case c == '-' || c >= '0' && c <= '9':
		return d.number()
	default:
		return d.word()
	}
}

func (d *decoder) nested(read func(*decoder) (any, *syntaxError)) (any, *syntaxError) {
	if d.depth++; d.depth > d.lim.depth {
		return nil, &syntaxError{kind: fault.TooLarge,
			what: fmt.Sprintf("nested more than %d levels deep", d.lim.depth)}
	}
	v, err := read(d)
	d.depth--
	return v, err
}

func (d *decoder) word() (any, *syntaxError) {
	for _, w := range [...]struct {
		text  string
		value any
	}{{"true", true}, {"false", false}, {"null", nil}} {
		rest := d.text[d.pos:]
		if strings.HasPrefix(rest, w.text) {
			d.pos += len(w.text)
			return w.value, nil
		}
		if rest != "" && strings.HasPrefix(w.text, rest) {
			return nil, d.end("a word")
		}
	}
	return nil, d.fail("unexpected %s where a value should begin", d.near())
}

func (d *decoder) object() (any, *syntaxError) {
	d.pos++
	m := map[string]any{}
	if d.space(); d.take('}') {
		return m, nil
	}
	for {
		d.space()
		if d.pos >= len(d.text) {
			return nil, d.end("an object")
		}
		if d.text[d.pos] != '"' {
			return nil, d.fail("unexpected %s where a quoted property name should stand", d.near())
		}
		at := d.pos
		key, err := d.str()
		if err != nil {
			return nil, err
		}
		if _, twice := m[key]; twice {
			d.pos = at
			return nil, d.fail("property %q is given twice", excerpt(key))
		}
		if d.space(); !d.take(':') {
			return nil, d.expected("a colon after a property name", "an object")
		}
		d.space()
		if m[key], err = d.value(); err != nil {
			return nil, err
		}
		d.space()
		if d.take('}') {
			return m, nil
		}
		if !d.take(',') {
			return nil, d.expected("a comma or }", "an object")
		}
	}
}

func (d *decoder) array() (any, *syntaxError) {
	d.pos++
	list := []any{}
	if d.space(); d.take(']') {
		return list, nil
	}
	for {
		d.space()
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		d.space()
		if d.take(']') {
			return list, nil
		}
		if !d.take(',') {
			return nil, d.expected("a comma or ]", "an array")
		}
	}
}

func (d *decoder) take(c byte) bool {
	if d.pos < len(d.text) && d.text[d.pos] == c {
		d.pos++
		return true
	}
	return false
}

func (d *decoder) expected(what, inside string) *syntaxError {
	if d.pos >= len(d.text) {
		return d.end(inside)
	}
	return d.fail("unexpected %s where %s should stand", d.near(), what)
}

func (d *decoder) boxedString() (any, *syntaxError) {
	s, err := d.str()
	if err != nil {
		return nil, err
	}
	return s, nil
}

// str reads a string whose opening quote is at the position.
func (d *decoder) str() (string, *syntaxError) {
	start := d.pos + 1
	for i := start; i < len(d.text); {
		switch c := d.text[i]; {
		case c == '"':
			d.pos = i + 1
			return d.text[start:i], nil
		case c == '\\':
			return d.escaped(start, i)
		case c < ' ':
			return "", d.control(i)
		case c < utf8.RuneSelf:
			i++
		default:
			r, n := utf8.DecodeRuneInString(d.text[i:])
			if r == utf8.RuneError && n == 1 {
				d.pos = i
				return "", d.fail("a byte that is not UTF-8")
			}
			i += n
		}
	}
	return "", d.end("a string")
}

func (d *decoder) control(at int) *syntaxError {
	d.pos = at
	if c := d.text[at]; c == '\n' || c == '\r' {
		return d.fail(`a line break inside a string; write \n`)
	} else if c == '\t' {
		return d.fail(`a tab inside a string; write \t`)
	}
	return d.fail(`control character U+%04X inside a string; write \u%04x`, d.text[at], d.text[at])
}

// escaped reads on from the first backslash of a string.
func (d *decoder) escaped(start, i int) (string, *syntaxError) {
	out := append(make([]byte, 0, i-start+32), d.text[start:i]...)
	for i < len(d.text) {
		switch c := d.text[i]; {
		case c == '"':
			d.pos = i + 1
			return string(out), nil
		case c == '\\':
			r, n, err := d.escape(i)
			if err != nil {
				return "", err
			}
			out = utf8.AppendRune(out, r)
			i += n
		case c < ' ':
			return "", d.control(i)
		default:
			r, n := utf8.DecodeRuneInString(d.text[i:])
			if r == utf8.RuneError && n == 1 {
				d.pos = i
				return "", d.fail("a byte that is not UTF-8")
			}
			out = append(out, d.text[i:i+n]...)
			i += n
		}
	}
	return "", d.end("a string")
}

// escape reads the escape sequence at i: its rune and length.
func (d *decoder) escape(i int) (rune, int, *syntaxError) {
	if i+1 >= len(d.text) {
		return 0, 0, d.end("a string")
	}
	const from, to = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	if at := strings.IndexByte(from, d.text[i+1]); at >= 0 {
		return rune(to[at]), 2, nil
	}
	d.pos = i
	if d.text[i+1] != 'u' {
		r, _ := utf8.DecodeRuneInString(d.text[i+1:])
		return 0, 0, d.fail(`a backslash before %s, which is no escape; a literal backslash is \\`, strconv.QuoteRune(r))
	}
	r, err := d.hex(i)
	if err != nil {
		return 0, 0, err
	}
	if !utf16.IsSurrogate(r) {
		return r, 6, nil
	}
	if strings.HasPrefix(d.text[i+6:], `\u`) {
		low, err := d.hex(i + 6)
		if err != nil {
			return 0, 0, err
		}
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, 12, nil
		}
	}
	return 0, 0, d.fail(`an unpaired surrogate \u%04x, which is half a character`, r)
}

func (d *decoder) hex(i int) (rune, *syntaxError) {
	if i+6 > len(d.text) {
		return 0, d.end("a string")
	}
	n, err := strconv.ParseUint(d.text[i+2:i+6], 16, 16)
	if err != nil {
		return 0, d.fail(`\u without four hexadecimal digits`)
	}
	return rune(n), nil
}

func (d *decoder) number() (any, *syntaxError) {
	n := scanNumber(d.text[d.pos:])
	if n.length == 0 {
		if d.pos+n.read >= len(d.text) {
			return nil, d.end("a number")
		}
		d.pos += n.read
		return nil, d.fail("unexpected %s in a number", d.near())
	}
	if n.length > maxNumberBytes || n.exponent > maxExponent || n.exponent < -maxExponent {
		return nil, d.fail("a number out of range (at most %d digits, exponent up to %d)", maxNumberBytes, maxExponent)
	}
	text := d.text[d.pos : d.pos+n.length]
	d.pos += n.length
	if d.pos < len(d.text) && (d.text[d.pos] >= '0' && d.text[d.pos] <= '9' || d.text[d.pos] == '.') {
		return nil, d.fail("unexpected %s in a number", d.near())
	}
	return json.Number(text), nil
}

// excerpt shortens user text for a message.
func excerpt(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return fault.Cut(s, most) + "…"
}
