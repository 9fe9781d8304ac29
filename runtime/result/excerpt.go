package result

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Excerpt is what a model gets instead of a result that is too large, or that is not JSON.
type Excerpt struct {
	Truncated bool   `json:"truncated"`
	Chars     int    `json:"chars"` // of the whole text
	Media     string `json:"media,omitempty"`
	Handle    string `json:"handle,omitempty"`
	Note      string `json:"note"`
	// Outline describes the whole result, if it is JSON; Head and Tail are its ends: of its
	// text, or of the string that it is.
	Outline *Outline `json:"outline,omitempty"`
	Head    string   `json:"head,omitempty"`
	Tail    string   `json:"tail,omitempty"`

	shown string // valid UTF-8, what Head and Tail are cut from
	holed bool   // shown has the ends only
	chars int    // wanted in Head and Tail together
}

// ExcerptOf prepares an excerpt of JSON with chars characters of its ends. The text must be
// valid UTF-8.
func ExcerptOf(text []byte, chars int) *Excerpt {
	outline := OutlineOf(text)
	e := &Excerpt{Chars: utf8.RuneCount(text), Outline: &outline, chars: chars}
	if outline.Type != "string" || json.Unmarshal(text, &e.shown) != nil {
		e.shown = string(text)
	}
	return e
}

// ExcerptOfRaw is ExcerptOf for bytes that are not JSON.
func ExcerptOfRaw(raw []byte, media string, chars int) *Excerpt {
	e := &Excerpt{Chars: utf8.RuneCount(raw), Media: media, chars: chars}
	// The ends that are shown come from this much of a long one.
	if most := utf8.UTFMax * (chars + 1); len(raw) > 2*most {
		raw, e.holed = append(raw[:most:most], raw[len(raw)-most:]...), true
	}
	e.shown = string(bytes.ToValidUTF8(raw, []byte("\uFFFD")))
	return e
}

// Render encodes the excerpt in at most limit characters: with less of head and tail, then
// without most of the outline, if that is what it takes. Below that there is nothing useful
// to say, and the smallest form stands.
func (e *Excerpt) Render(limit int) string {
	if o := e.Outline; o != nil && utf8.RuneCountInString(encode(o)) > limit/2 {
		e.Outline = &Outline{Type: o.Type, Count: o.Count}
	}
	for chars := e.chars; ; chars = chars * 3 / 4 {
		e.cut(chars)
		if out := encode(e); utf8.RuneCountInString(out) <= limit || chars == 0 {
			return out
		}
	}
}

// cut gives two thirds of chars to the head and the rest to the tail.
func (e *Excerpt) cut(chars int) {
	if e.Truncated = e.holed || utf8.RuneCountInString(e.shown) > chars; !e.Truncated {
		e.Head, e.Tail = e.shown, ""
		return
	}
	e.Tail = tail(e.shown, chars/3)
	e.Head = head(e.shown[:len(e.shown)-len(e.Tail)], chars-chars/3)
}

// encode is JSON without escapes that a model would pay for.
func encode(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		// Strings, numbers and values that were JSON always encode.
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// head is the beginning of s, at most n characters.
func head(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// tail is the end of s, at most n characters.
func tail(s string, n int) string {
	i := len(s)
	for ; i > 0 && n > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(s[:i])
		i -= size
	}
	return s[i:]
}

// WithoutHandle is what a model was shown, less the handle in an excerpt: two excerpts of
// the same content are then the same.
func WithoutHandle(shown string) string {
	const begin = `"handle":"`
	if !strings.HasPrefix(shown, `{"truncated":`) {
		return shown
	}
	from := strings.Index(shown, begin)
	if from < 0 {
		return shown
	}
	from += len(begin)
	length := strings.IndexByte(shown[from:], '"')
	return shown[:from] + shown[from+max(length, 0):]
}
