package main

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Query is a parsed JSONPath.
type Query struct {
	relative bool // starts at the current node of a filter
	segments []segment
}

type segment struct {
	deep      bool // descendants too
	selectors []selector
}

type selectorKind int

const (
	selName selectorKind = iota
	selIndex
	selWildcard
	selSlice
	selFilter
)

type selector struct {
	kind             selectorKind
	name             string
	index            int
	start, end, step *int
	filter           expr
}

const (
	maxNesting = 100  // of parentheses and filters within filters
	maxQuery   = 4096 // bytes
)

// Parse reads a JSONPath as RFC 9535 has it. A missing $ in front is forgiven.
func Parse(text string) (*Query, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, fmt.Errorf("empty; $ is the whole value")
	}
	if len(text) > maxQuery {
		return nil, fmt.Errorf("longer than %d bytes", maxQuery)
	}
	p := &parser{s: text}
	q, err := p.start()
	if err != nil {
		return nil, fmt.Errorf("%w (at character %d of %q)", err, utf8.RuneCountInString(text[:p.pos])+1, text)
	}
	return q, nil
}

type parser struct {
	s     string
	pos   int
	depth int
}

func (p *parser) start() (*Query, error) {
	if !p.take("$") && p.peek() != '[' && p.peek() != '.' {
		// "a.b" is taken for "$.a.b".
		name, err := p.memberName()
		if err != nil {
			return nil, fmt.Errorf("a query starts with $")
		}
		q, err := p.path()
		if err != nil {
			return nil, err
		}
		q.segments = append([]segment{{selectors: []selector{{kind: selName, name: name}}}}, q.segments...)
		return q, p.atEnd()
	}
	q, err := p.path()
	if err != nil {
		return nil, err
	}
	return q, p.atEnd()
}

func (p *parser) atEnd() error {
	if p.space(); p.pos < len(p.s) {
		return fmt.Errorf("unexpected %q", p.s[p.pos:])
	}
	return nil
}

func (p *parser) peek() byte {
	if p.pos < len(p.s) {
		return p.s[p.pos]
	}
	return 0
}

func (p *parser) take(t string) bool {
	if strings.HasPrefix(p.s[p.pos:], t) {
		p.pos += len(t)
		return true
	}
	return false
}

func (p *parser) space() {
	for p.pos < len(p.s) && strings.IndexByte(" \t\r\n", p.s[p.pos]) >= 0 {
		p.pos++
	}
}

// path reads segments as long as there are any.
func (p *parser) path() (*Query, error) {
	q := &Query{}
	for {
		before := p.pos
		p.space()
		seg, ok, err := p.segment()
		if err != nil {
			return nil, err
		}
		if !ok {
			p.pos = before
			return q, nil
		}
		q.segments = append(q.segments, seg)
	}
}

func (p *parser) segment() (seg segment, ok bool, err error) {
	switch {
	case p.take(".."):
		seg.deep = true
	case p.take("."):
	case p.peek() == '[':
		seg.selectors, err = p.bracket()
		return seg, true, err
	default:
		return seg, false, nil
	}
	switch {
	case seg.deep && p.peek() == '[':
		seg.selectors, err = p.bracket()
	case p.take("*"):
		seg.selectors = []selector{{kind: selWildcard}}
	default:
		var name string
		name, err = p.memberName()
		seg.selectors = []selector{{kind: selName, name: name}}
	}
	return seg, true, err
}

func (p *parser) memberName() (string, error) {
	start := p.pos
	for p.pos < len(p.s) {
		r, n := utf8.DecodeRuneInString(p.s[p.pos:])
		if r != '_' && r < 0x80 && !unicode.IsLetter(r) && (!unicode.IsDigit(r) || p.pos == start) {
			break
		}
		p.pos += n
	}
	if p.pos == start {
		return "", fmt.Errorf("a name is expected; write ['…'] for names with other characters than letters, digits and _")
	}
	return p.s[start:p.pos], nil
}

func (p *parser) bracket() ([]selector, error) {
	p.take("[")
	var out []selector
	for {
		p.space()
		s, err := p.selector()
		if err != nil {
			return nil, err
		}
		out = append(out, s)
		p.space()
		if p.take("]") {
			return out, nil
		}
		if !p.take(",") {
			return nil, fmt.Errorf("] or , is expected")
		}
	}
}

func (p *parser) selector() (selector, error) {
	switch c := p.peek(); {
	case c == '\'' || c == '"':
		name, err := p.quoted()
		return selector{kind: selName, name: name}, err
	case p.take("*"):
		return selector{kind: selWildcard}, nil
	case p.take("?"):
		p.space()
		f, err := p.or()
		if err == nil {
			err = f.test()
		}
		return selector{kind: selFilter, filter: f}, err
	case c == ':' || c == '-' || c >= '0' && c <= '9':
		return p.indexOrSlice()
	}
	return selector{}, fmt.Errorf("a quoted name, an index, a slice, * or ? is expected")
}

func (p *parser) indexOrSlice() (selector, error) {
	first, err := p.integer()
	if err != nil {
		return selector{}, err
	}
	p.space()
	if !p.take(":") {
		return selector{kind: selIndex, index: *first}, nil
	}
	s := selector{kind: selSlice, start: first}
	p.space()
	if s.end, err = p.integer(); err != nil {
		return s, err
	}
	p.space()
	if p.take(":") {
		p.space()
		s.step, err = p.integer()
	}
	return s, err
}

// integer reads a number, or nothing: then it is nil.
func (p *parser) integer() (*int, error) {
	start := p.pos
	p.take("-")
	for c := p.peek(); c >= '0' && c <= '9'; c = p.peek() {
		p.pos++
	}
	text := p.s[start:p.pos]
	if text == "" {
		return nil, nil //nolint:nilnil // absent
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n > 1<<53-1 || n < -(1<<53-1) || n > math.MaxInt || n < math.MinInt {
		return nil, fmt.Errorf("%q is no index", text)
	}
	v := int(n)
	return &v, nil
}

// quoted reads a string in single or double quotes.
func (p *parser) quoted() (string, error) {
	quote := p.s[p.pos]
	p.pos++
	var b strings.Builder
	b.WriteByte('"')
	for p.pos < len(p.s) {
		c := p.s[p.pos]
		p.pos++
		switch {
		case c == quote:
			b.WriteByte('"')
			var out string
			if json.Unmarshal([]byte(b.String()), &out) != nil {
				return "", fmt.Errorf("the string has an invalid escape")
			}
			return out, nil
		case c == '\\' && p.peek() == '\'':
			b.WriteByte('\'')
			p.pos++
		case c == '\\' && p.pos < len(p.s):
			b.WriteString(p.s[p.pos-1 : p.pos+1])
			p.pos++
		case c == '"':
			b.WriteString(`\"`)
		default:
			b.WriteByte(c)
		}
	}
	return "", fmt.Errorf("a string is not closed")
}

var numberRE = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?`)
