package file

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// searchFile looks through one file, line by line. A file that turns out to be
// unreadable is counted, not an error: the search goes on.
func (s *searching) searchFile(ctx context.Context, p string) error {
	f, _, err := s.t.openFile(p)
	if err != nil {
		s.out.Skipped.Unreadable++
		return nil
	}
	defer func() { _ = f.Close() }()
	in := bufio.NewReaderSize(io.LimitReader(f, s.maxSize), 64<<10)
	head, err := in.Peek(sniffed)
	if err != nil && !errors.Is(err, io.EOF) {
		s.out.Skipped.Unreadable++
		return nil
	}
	if isBinary(head) {
		s.out.Skipped.Binary++
		return nil
	}
	s.out.SearchedFiles++
	g := grep{s: s, path: p}
	err = g.lines(ctx, in)
	if err == nil || errors.Is(err, errEnough) || errors.Is(err, errRead) || isStop(err) {
		return err
	}
	s.out.Skipped.Unreadable++
	return nil
}

// isStop says that the call was ended, which is no fault of the file.
func isStop(err error) bool {
	kind := fault.KindOf(err)
	return kind == fault.Canceled || kind == fault.Timeout
}

// grep is one file under search. Matches wait for their lines after; as a match may lie
// within the context of another, several can wait.
type grep struct {
	s      *searching
	path   string
	line   int
	before []string
	open   []*pending
}

type pending struct {
	match
	missing int
}

func (g *grep) lines(ctx context.Context, in *bufio.Reader) error {
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			if err := g.take(ctx, line); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return g.flush(0)
		}
		if err != nil {
			return err
		}
	}
}

func (g *grep) take(ctx context.Context, line []byte) error {
	g.line++
	if g.line%contextPeriod == 1 {
		if err := stopped(ctx); err != nil {
			return err
		}
	}
	g.s.read += int64(len(line))
	if g.s.read > g.s.maxRead {
		return errors.Join(g.flush(0), errRead)
	}
	line = bytes.TrimRight(line, "\r\n")
	at := g.s.content.FindIndex(line)
	if at == nil && g.s.context == 0 {
		return nil
	}
	text := excerpt(line, at)
	for _, p := range g.open {
		p.After = append(p.After, text)
		p.missing--
	}
	if err := g.flush(1); err != nil {
		return err
	}
	if at != nil {
		m := match{Path: g.path, Line: g.line, Text: text, Before: append([]string(nil), g.before...)}
		g.open = append(g.open, &pending{match: m, missing: g.s.context})
	}
	g.remember(text)
	if g.s.context == 0 {
		return g.flush(0)
	}
	return nil
}

func (g *grep) remember(text string) {
	if g.before = append(g.before, text); len(g.before) > g.s.context {
		g.before = g.before[1:]
	}
}

// flush hands over the matches that miss fewer lines than atLeast; with 0, all: there
// are no more lines.
func (g *grep) flush(atLeast int) error {
	for len(g.open) > 0 && (atLeast == 0 || g.open[0].missing < atLeast) {
		m := g.open[0].match
		g.open = g.open[1:]
		if err := g.s.add(m); err != nil {
			return err
		}
	}
	return nil
}

// excerpt is the line, or of a long one the part around the match, with … for what is
// left out.
func excerpt(line []byte, at []int) string {
	if len(line) <= maxMatchChars {
		return string(bytes.ToValidUTF8(line, []byte("\uFFFD")))
	}
	from := 0
	if at != nil {
		from = max(0, min(at[0]-maxMatchChars/4, len(line)-maxMatchChars))
	}
	to := min(from+maxMatchChars, len(line))
	text := string(bytes.ToValidUTF8(line[from:to], nil))
	if from > 0 {
		text = "…" + text
	}
	if to < len(line) {
		text += "…"
	}
	return text
}
