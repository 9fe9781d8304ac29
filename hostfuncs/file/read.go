package file

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

const (
	maxLineChars  = 2000
	readLines     = 2000
	readChars     = 60_000
	readMaxSize   = 64 << 20
	contextPeriod = 4096 // lines between looks at the context
)

func readFunc() hostfuncs.Func {
	return hostfuncs.Func{
		Name: "file.read",
		Description: "Read a text file. Lines come numbered as N|text, where N| is not part of the file. " +
			"Long files come in parts: if truncated is true, call again with offset = next_offset.",
		Params: json.RawMessage(`{"additionalProperties":false,"properties":{` +
			`"limit":{"default":2000,"description":"How many lines at most","maximum":2000,"minimum":1,"type":"integer"},` +
			`"offset":{"default":1,"description":"First line to read, counted from 1","minimum":1,"type":"integer"},` +
			`"path":{"description":"File, relative to the root, for example notes/todo.md","minLength":1,"type":"string"}},` +
			`"required":["path"],"type":"object"}`),
		Config: []hostfuncs.Attr{
			rootAttr(),
			{Name: "max_chars", Type: hostfuncs.Integer, Default: int64(readChars), Doc: "Characters of text in one answer, cut between lines."},
			{Name: "max_size", Type: hostfuncs.Size, Default: int64(readMaxSize), Doc: "Larger files are refused."},
		},
		Capabilities: folderCapability("ro"),
		Traits:       tool.Traits{Effect: tool.Read, Idempotent: true, Parallel: true},
		New:          newRead,
	}
}

type readArgs struct {
	Path   string `json:"path"`
	Offset int    `json:"offset"`
	Limit  int    `json:"limit"`
}

// readAnswer says what was left out: lines after Lines, and characters of long lines.
type readAnswer struct {
	Path       string `json:"path"`
	Content    string `json:"content"`
	Offset     int    `json:"offset"`
	Lines      int    `json:"lines"`
	TotalLines int    `json:"total_lines"`
	Size       int64  `json:"size"`
	Truncated  bool   `json:"truncated"`
	NextOffset int    `json:"next_offset,omitempty"`
	// CutLines had more than maxLineChars characters.
	CutLines int    `json:"cut_lines,omitempty"`
	Note     string `json:"note,omitempty"`
}

func newRead(b hostfuncs.Binding) (tool.Handler, error) {
	chars, err := positive(b, "max_chars", readChars)
	if err != nil {
		return nil, err
	}
	maxSize, err := positive(b, "max_size", readMaxSize)
	if err != nil {
		return nil, err
	}
	return bind(b, func(ctx context.Context, t tree, args readArgs) (any, error) {
		p, err := locate(args.Path)
		if err != nil {
			return nil, err
		}
		f, info, err := t.openFile(p)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		if info.Size() > maxSize {
			return nil, fault.New(fault.TooLarge, "%q has %s; files over %s are not read. Search it instead", p, humanSize(info.Size()), humanSize(maxSize))
		}
		r := reading{
			ctx: ctx, offset: or(args.Offset, 1), limit: min(or(args.Limit, readLines), readLines), chars: int(chars),
			in: bufio.NewReaderSize(io.LimitReader(f, maxSize+1), 64<<10),
		}
		out, err := r.answer(p, info.Size())
		if err != nil {
			return nil, t.explain(err, p)
		}
		return out, nil
	})
}

// positive is an integer of the config that must be above zero.
func positive(b hostfuncs.Binding, name string, otherwise int64) (int64, error) {
	n, ok := b.Config[name].(int64)
	if !ok {
		return otherwise, nil
	}
	if n <= 0 {
		return 0, &hostfuncs.ConfigError{Attr: name, Detail: "This must be above zero. Leave it out to have the default."}
	}
	return n, nil
}

// reading goes through a file once: it keeps the lines that were asked for and counts
// the others.
type reading struct {
	ctx           context.Context // one call's
	in            *bufio.Reader
	offset, limit int
	chars         int

	out     strings.Builder
	total   int
	kept    int
	used    int // characters in out
	cut     int
	full    bool
	crlf    int
	invalid bool
}

func (r *reading) answer(p string, size int64) (*readAnswer, error) {
	head, err := r.in.Peek(sniffed)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if isBinary(head) {
		return nil, binaryError(p, head, size)
	}
	if bytes.HasPrefix(head, []byte("\uFEFF")) {
		_, _ = r.in.Discard(len("\uFEFF"))
	}
	if err := r.lines(); err != nil {
		return nil, err
	}
	if r.offset > max(r.total, 1) {
		return nil, fault.New(fault.Invalid, "offset: %d is past the end; %q has %d lines", r.offset, p, r.total)
	}
	a := &readAnswer{
		Path: p, Content: r.out.String(), Offset: r.offset, Lines: r.kept, TotalLines: r.total,
		Size: size, CutLines: r.cut, Note: r.note(),
	}
	if next := r.offset + r.kept; next <= r.total {
		a.Truncated, a.NextOffset = true, next
	}
	return a, nil
}

func (r *reading) lines() error {
	for {
		if r.total%contextPeriod == 0 {
			if err := stopped(r.ctx); err != nil {
				return err
			}
		}
		line, rest, err := r.line()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		r.total++
		r.keep(line, rest)
	}
}

// line reads one line without its end. Of a line longer than any that is shown, what
// follows is counted in rest, in characters.
func (r *reading) line() (line []byte, rest int, err error) {
	const most = maxLineChars * utf8.UTFMax
	for any := false; ; any = true {
		piece, err := r.in.ReadSlice('\n')
		room := max(0, min(len(piece), most-len(line)))
		line = append(line, piece[:room]...)
		rest += utf8.RuneCount(piece[room:])
		switch {
		case err == nil && rest > 0:
			return line, rest - 1, nil // without the line's end
		case err == nil:
			return r.trim(line), 0, nil
		case errors.Is(err, bufio.ErrBufferFull):
			if err := stopped(r.ctx); err != nil {
				return nil, 0, err
			}
		case errors.Is(err, io.EOF) && (any || len(piece) > 0):
			return line, rest, nil
		default:
			return nil, 0, err
		}
	}
}

func (r *reading) trim(line []byte) []byte {
	line = bytes.TrimSuffix(line, []byte("\n"))
	if bytes.HasSuffix(line, []byte("\r")) {
		r.crlf++
		line = line[:len(line)-1]
	}
	return line
}

func (r *reading) keep(line []byte, rest int) {
	if r.full || r.total < r.offset || r.kept == r.limit {
		return
	}
	text, cut := clamp(line, maxLineChars)
	cut += rest
	if cut > 0 {
		text += fmt.Sprintf("… (%d more characters)", cut)
	}
	text = fmt.Sprintf("%d|%s\n", r.total, text)
	r.used += utf8.RuneCountInString(text)
	if r.kept > 0 && r.used > r.chars {
		r.full = true
		return
	}
	r.out.WriteString(text)
	r.kept++
	r.invalid = r.invalid || (rest == 0 && !utf8.Valid(line))
	if cut > 0 {
		r.cut++
	}
}

func (r *reading) note() string {
	var notes []string
	if r.crlf > 0 {
		notes = append(notes, "lines end in CRLF")
	}
	if r.invalid {
		notes = append(notes, "bytes that are not UTF-8 are shown as \uFFFD")
	}
	return strings.Join(notes, "; ")
}
