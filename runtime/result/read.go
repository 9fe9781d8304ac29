package result

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"regexp"
	"unicode/utf8"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// Query says which part of a result to read.
type Query struct {
	// Path leads to a value of a result that is JSON; empty: the bytes as they are.
	Path string
	// Grep, if set, is a pattern (RE2): the answer is the lines of a text, or the values of
	// JSON, that it matches.
	Grep string
	// Offset and Limit count bytes; with Grep, matches; with a path to several values,
	// those. Limit 0: as much as fits.
	Offset, Limit int64
	// MaxChars is how many characters the answer may have as JSON; at least 1,500 are used.
	MaxChars int
}

// Answer is a part of a result.
type Answer struct {
	Handle string `json:"handle,omitempty"`
	Media  string `json:"media"`
	Size   int64  `json:"size"` // bytes of the whole result; of the text of a string that a path leads to
	Path   string `json:"path,omitempty"`
	Type   string `json:"type,omitempty"` // of the value that a path leads to
	Offset int64  `json:"offset"`
	// Text or Base64 are bytes; Base64 if they are not UTF-8.
	Text   *string `json:"text,omitempty"`
	Base64 *string `json:"base64,omitempty"`
	// Value is what a path leads to, Values if it leads to any number.
	Value   json.RawMessage   `json:"value,omitempty"`
	Values  []json.RawMessage `json:"values,omitempty"`
	Count   *int64            `json:"count,omitempty"` // of all values
	Matches []Match           `json:"matches,omitempty"`
	// NextOffset is where to go on; nil: this was the end.
	NextOffset *int64 `json:"next_offset,omitempty"`
	Note       string `json:"note,omitempty"`
}

// Encode is the answer as JSON.
func (a *Answer) Encode() string { return encode(a) }

// Source is the content of a result.
type Source struct {
	Handle string
	Media  string
	Size   int64
	Data   io.ReadSeeker
}

const (
	leastChars = 1500
	// overhead are the characters of an answer beside its content, generously: handle,
	// numbers, a note.
	overhead = 500
	// textRun is how much text in a row is shown as text beside bytes that are none.
	textRun = 2000
	// maxEcho is how much of a path an answer repeats.
	maxEcho = 60
)

// reading is one Read.
type reading struct {
	ctx    context.Context
	src    Source
	q      Query
	answer Answer
	room   int // characters that content may still have
}

// Read reads the part of src that q asks for. ctx ends it.
func Read(ctx context.Context, src Source, q Query) (*Answer, error) {
	r := &reading{ctx: ctx, src: src, q: q, answer: Answer{Handle: src.Handle, Media: src.Media, Size: src.Size, Path: fault.Cut(q.Path, maxEcho), Offset: q.Offset}}
	r.room = max(q.MaxChars, leastChars) - overhead - len(encode(r.answer.Path))
	if q.Offset < 0 || q.Limit < 0 {
		return nil, fault.New(fault.Invalid, "offset and limit must not be negative")
	}
	var re *regexp.Regexp
	if q.Grep != "" {
		var err error
		if re, err = compile(q.Grep); err != nil {
			return nil, err
		}
	}
	if err := r.read(re); err != nil {
		return nil, err
	}
	return &r.answer, nil
}

func (r *reading) read(re *regexp.Regexp) error {
	switch {
	case r.q.Path != "":
		return r.path(re)
	case re != nil:
		return r.grep(re)
	}
	return r.bytes()
}

// bytes answers with a page of the bytes as they are.
func (r *reading) bytes() error {
	return r.part(0, r.src.Size, "bytes")
}

// part answers with a page of the size bytes from start on.
func (r *reading) part(start, size int64, what string) error {
	if err := r.within(size, what); err != nil {
		return err
	}
	if _, err := r.src.Data.Seek(start+r.q.Offset, io.SeekStart); err != nil {
		return err
	}
	page := make([]byte, min(r.most(), size-r.q.Offset))
	if _, err := io.ReadFull(r.src.Data, page); err != nil {
		return err
	}
	r.page(page, size)
	return context.Cause(r.ctx)
}

func (r *reading) within(size int64, what string) error {
	if r.q.Offset > size || (r.q.Offset == size && size > 0) {
		return fault.New(fault.Invalid, "offset %d is beyond the end: there are %d %s", r.q.Offset, size, what)
	}
	return nil
}

// most is how many bytes a page may have: a character has four at most.
func (r *reading) most() int64 {
	most := int64(max(r.room, 0)) * utf8.UTFMax
	if r.q.Limit > 0 {
		most = min(most, r.q.Limit)
	}
	return most
}

// page puts as many of the bytes into the answer as fit, of size in all.
func (r *reading) page(page []byte, size int64) {
	n := int64(r.textual(page, r.q.Offset+int64(len(page)) == size))
	if next := r.q.Offset + n; next < size {
		r.answer.NextOffset = &next
	}
}

// textual answers with the beginning of page as text if it is, and else in base64, and says
// how many bytes that are. last says that the source ends with the page.
func (r *reading) textual(page []byte, last bool) int {
	fits, room := 0, r.room
	for fits < len(page) {
		c, size := utf8.DecodeRune(page[fits:])
		if c == utf8.RuneError && size == 1 {
			if cut := !last && !utf8.FullRune(page[fits:]); cut && fits > 0 {
				break // the next page begins with the whole character
			}
			if fits >= min(textRun, inBase64(r.room)) {
				break
			}
			return r.binary(page)
		}
		if room -= escapedLen(c); room < 0 {
			break
		}
		fits += size
	}
	text := string(page[:fits])
	r.answer.Text = &text
	return fits
}

// inBase64 is how many bytes fit into so many characters.
func inBase64(chars int) int { return chars / 4 * 3 }

// binary answers with bytes up to where text begins again.
func (r *reading) binary(page []byte) int {
	page = page[:min(len(page), inBase64(r.room))]
	run := 0 // where the valid text under way began
	for i := 0; i < len(page) && i-run < textRun; {
		c, size := utf8.DecodeRune(page[i:])
		if i += size; c == utf8.RuneError && size == 1 {
			run = i
		}
	}
	page = page[:run]
	text := base64.StdEncoding.EncodeToString(page)
	r.answer.Base64 = &text
	return len(page)
}

// escapedLen is how many characters JSON needs for one.
func escapedLen(c rune) int {
	switch {
	case c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t':
		return 2
	case c < ' ' || c == '\u2028' || c == '\u2029':
		return 6
	}
	return 1
}

// grep answers with matches in all of the result.
func (r *reading) grep(re *regexp.Regexp) error {
	page := r.matches()
	if r.src.Media == JSON {
		s := &search{scanner: scan(r.ctx, r.src.Data), re: re, found: page.add}
		return r.found(page, s.run())
	}
	l := &lines{re: re, found: func(line int, at int64, text string) bool {
		return page.add(Match{Line: line, Offset: at, Text: text})
	}}
	l.reset(0)
	s := scan(r.ctx, r.src.Data)
	for s.more() && !l.done {
		l.write(s.buf[s.i:s.n])
		s.i = s.n
	}
	l.end()
	return r.found(page, s.err)
}

// matches collects those that the query asks for.
func (r *reading) matches() *matches { return &matches{r: r} }

type matches struct {
	r    *reading
	seen int64
}

// add takes one more; false: the page is full.
func (m *matches) add(match Match) bool {
	q := &m.r.q
	if m.seen++; m.seen <= q.Offset {
		return true
	}
	n := utf8.RuneCountInString(encode(match)) + 1
	full := (q.Limit > 0 && int64(len(m.r.answer.Matches)) == q.Limit) || n > m.r.room
	if full && len(m.r.answer.Matches) > 0 {
		next := m.seen - 1
		m.r.answer.NextOffset = &next
		return false
	}
	if n > m.r.room {
		match = Match{Line: match.Line, Offset: match.Offset, Text: head(match.Text, 50)}
		n = utf8.RuneCountInString(encode(match)) + 1
	}
	m.r.room -= n
	m.r.answer.Matches = append(m.r.answer.Matches, match)
	return true
}

func (r *reading) found(m *matches, err error) error {
	if err == nil {
		err = context.Cause(r.ctx)
	}
	switch {
	case err != nil:
		return err
	case m.seen == 0:
		r.answer.Note = "Nothing matches."
	case len(r.answer.Matches) == 0:
		return fault.New(fault.Invalid, "offset %d is beyond the end: there are %d matches", r.q.Offset, m.seen)
	case r.answer.NextOffset != nil:
		r.answer.Note = "There are more matches: go on with next_offset, which counts them."
	}
	return nil
}

// path answers with what the path leads to.
func (r *reading) path(re *regexp.Regexp) error {
	if r.src.Media != JSON {
		return fault.New(fault.Invalid, "the result is not JSON (%s), so that no path leads anywhere in it: use offset or grep", r.src.Media)
	}
	steps, err := parsePath(r.q.Path)
	if err != nil {
		return err
	}
	w := &walk{scanner: scan(r.ctx, r.src.Data), steps: steps}
	many := false
	for _, s := range steps {
		many = many || s.many()
	}
	switch {
	case re != nil:
		return r.pathGrep(w, re)
	case many:
		return r.several(w)
	}
	return r.single(w)
}

// pathGrep searches the values that the path leads to.
func (r *reading) pathGrep(w *walk, re *regexp.Regexp) error {
	page := r.matches()
	var failed error
	w.found = func() bool {
		s := &search{scanner: w.scanner, re: re, found: page.add, prefix: w.at}
		failed = s.run()
		return failed == nil && !s.done
	}
	if err := w.run(); failed == nil {
		failed = err
	}
	return r.found(page, failed)
}

// several answers with the values that fit.
func (r *reading) several(w *walk) error {
	var seen int64
	full := false
	r.answer.Values = []json.RawMessage{}
	w.found = func() bool {
		if seen++; seen <= r.q.Offset || full {
			return true
		}
		value, n := r.value(w)
		if len(r.answer.Values) == 0 && n+1 > r.room {
			value, n = r.stub(w.typ(), "")
		}
		if n+1 > r.room || (r.q.Limit > 0 && int64(len(r.answer.Values)) == r.q.Limit) {
			full = true
			next := seen - 1
			r.answer.NextOffset = &next
			return true // the others are counted
		}
		r.room -= n + 1
		r.answer.Values = append(r.answer.Values, value)
		return true
	}
	if err := w.run(); err != nil {
		return err
	}
	if r.q.Offset > 0 && len(r.answer.Values) == 0 {
		return fault.New(fault.Invalid, "offset %d is beyond the end: the path leads to %d values", r.q.Offset, seen)
	}
	r.answer.Count = &seen
	return nil
}

// value is the value that is next as it stands or, if it is too large for any answer, where
// it is and what.
func (r *reading) value(w *walk) (json.RawMessage, int) {
	room := max(r.q.MaxChars, leastChars) - 2*overhead
	if raw, ok := w.raw(room); ok {
		return raw, utf8.RuneCount(raw)
	}
	return r.stub(w.typ(), w.at.String())
}

// stub stands for a value that is too large.
func (r *reading) stub(typ, path string) (json.RawMessage, int) {
	stub := json.RawMessage(encode(struct {
		Truncated bool   `json:"truncated"`
		Type      string `json:"type"`
		Path      string `json:"path,omitempty"`
	}{true, typ, path}))
	return stub, utf8.RuneCount(stub)
}

// raw is the value that is next, in valid UTF-8 and without white space around it; false:
// it has more than so many characters. The scanner stays before it.
func (s *scanner) raw(room int) (json.RawMessage, bool) {
	s.peek()
	start := s.offset()
	s.skip()
	size := s.offset() - start
	s.seek(start)
	if size > int64(room)*utf8.UTFMax {
		return nil, false
	}
	raw := make([]byte, 0, size)
	for int64(len(raw)) < size && s.more() {
		n := min(s.n-s.i, int(size)-len(raw))
		raw = append(raw, s.buf[s.i:s.i+n]...)
		s.i += n
	}
	s.seek(start)
	raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	return raw, utf8.RuneCount(raw) <= room && json.Valid(raw)
}

// single answers with one value: as it is if it fits, else with a page of it.
func (r *reading) single(w *walk) error {
	hit := false
	var failed error
	w.found = func() bool {
		hit = true
		failed = r.one(w)
		return false
	}
	err := w.run()
	switch {
	case failed != nil:
		return failed
	case err == nil && !hit:
		return fault.New(fault.Internal, "the path leads nowhere: the content is not what it was when it was stored")
	}
	return err
}

func (r *reading) one(w *walk) error {
	if r.answer.Type = w.typ(); r.answer.Type == "string" {
		return r.decoded(w.scanner)
	}
	raw, ok := w.raw(r.room)
	if ok && r.q.Offset == 0 && (r.q.Limit == 0 || int64(len(raw)) <= r.q.Limit) {
		r.answer.Value = raw
		return w.err
	}
	start := w.offset()
	w.skip()
	size := w.offset() - start
	r.answer.Size = size
	r.answer.Note = "The value is too large for one answer: this is a part of its JSON text; go on with next_offset, or with a longer path."
	return r.part(start, size, "bytes in this value")
}

// decoded answers with a page of the text of a string.
func (r *reading) decoded(s *scanner) error {
	var page []byte
	var size int64
	most := int(r.most())
	s.decode(func(b []byte) {
		at := size
		size += int64(len(b))
		if skip := r.q.Offset - at; skip > 0 {
			b = b[min(skip, int64(len(b))):]
		}
		page = append(page, b[:min(len(b), most-len(page))]...)
	})
	if s.err != nil {
		return s.err
	}
	r.answer.Size = size
	if err := r.within(size, "bytes in this string"); err != nil {
		return err
	}
	r.page(page, size)
	return nil
}

// MediaOf says what bytes are that are not JSON.
func MediaOf(raw []byte) string {
	if utf8.Valid(raw) && bytes.IndexByte(raw, 0) < 0 {
		return Text
	}
	return Binary
}
