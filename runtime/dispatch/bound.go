package dispatch

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// defaultMaxChars bounds the result of a tool whose declaration does not.
const defaultMaxChars = 100_000

// bound makes the outcome of a handler's answer, keeping it within what the tool and
// the request allow.
func (d *Dispatcher) bound(ctx context.Context, r *Request, t *registry.Tool, res tool.Result) Outcome {
	text, err := jsonText(t, res.JSON)
	if err != nil {
		d.o.Log.Error("tool answered with invalid JSON", r.attrs(t.Name)...)
		return failed(t.Name, err)
	}
	limit := limitOf(r, t)
	// A text has no more characters than bytes, so most need no counting.
	if len(text) <= limit || utf8.RuneCount(text) <= limit {
		return Outcome{Tool: t.Name, Content: string(text)}
	}
	return d.oversized(ctx, r, t, text, limit)
}

func limitOf(r *Request, t *registry.Tool) int {
	limit := t.Bounds.MaxChars
	if limit <= 0 {
		limit = defaultMaxChars
	}
	if r.MaxChars > 0 {
		limit = min(limit, r.MaxChars)
	}
	return limit
}

func (d *Dispatcher) oversized(ctx context.Context, r *Request, t *registry.Tool, text []byte, limit int) Outcome {
	switch t.Bounds.Overflow {
	case tool.Fail:
		return failed(t.Name, fault.New(fault.TooLarge, "the result has %d characters, and the tool %q may return %d (%s); the call did its work; ask for less",
			utf8.RuneCount(text), t.Name, limit, t.Pos))
	case tool.Truncate:
		cut := excerptOf(text, limit)
		cut.Note = "Only the beginning and the end are shown; the rest was not kept."
		return Outcome{Tool: t.Name, Content: cut.render(limit)}
	case tool.Store:
	}
	return d.stored(ctx, r, t, text, limit)
}

// stored keeps the whole text and gives the model a preview and a handle. If it cannot
// be kept the model gets the preview and is told so: the tool has done its work.
func (d *Dispatcher) stored(ctx context.Context, r *Request, t *registry.Tool, text []byte, limit int) Outcome {
	preview := excerptOf(text, min(limit, max(t.Bounds.Preview, 0)))
	out := Outcome{Tool: t.Name}
	row, err := d.keep(context.WithoutCancel(ctx), r, t, text)
	if err != nil {
		d.o.Log.Error("storing a tool result failed", append(r.attrs(t.Name), "err", err)...)
		preview.Note = "Only the beginning and the end are shown; the rest could not be kept: " + fault.Message(err) + "."
	} else {
		out.Result = &row
		preview.Handle = row.ID
		preview.Note = "Only the beginning and the end are shown; the whole result is kept under the handle."
	}
	out.Content = preview.render(limit)
	return out
}

func (d *Dispatcher) keep(ctx context.Context, r *Request, t *registry.Tool, text []byte) (store.Result, error) {
	digest, size, err := d.o.Artifacts.PutBytes(ctx, text)
	if err != nil {
		return store.Result{}, err
	}
	row := store.Result{
		ID: "res_" + strings.ToLower(rand.Text()), Owner: r.Principal.Name, Session: r.Session, Run: r.Run, Call: r.Call.ID,
		Tool: string(t.Name), Digest: digest, Size: size, Created: time.Now(),
	}
	return row, d.o.Results.PutResult(ctx, row)
}

// excerpt is what a model gets of a result that is too large.
type excerpt struct {
	Truncated bool   `json:"truncated"`
	Chars     int    `json:"chars"` // of the whole JSON text
	Handle    string `json:"handle,omitempty"`
	Note      string `json:"note"`
	// Outline describes the whole result; Head and Tail are its ends: of its JSON text,
	// or of the string that it is.
	Outline outline `json:"outline"`
	Head    string  `json:"head,omitempty"`
	Tail    string  `json:"tail,omitempty"`

	shown string // what Head and Tail are cut from
	chars int    // wanted in Head and Tail together
}

func excerptOf(text []byte, chars int) *excerpt {
	e := &excerpt{Truncated: true, Chars: utf8.RuneCount(text), Outline: outlineOf(text), chars: chars}
	if text[0] != '"' || json.Unmarshal(text, &e.shown) != nil {
		e.shown = string(text)
	}
	return e
}

// render encodes the excerpt in at most limit characters: with less of head and tail,
// then without the outline, if that is what it takes. Below that there is nothing
// useful to say, and the smallest form stands.
func (e *excerpt) render(limit int) string {
	for chars := e.chars; ; chars = chars * 3 / 4 {
		e.cut(chars)
		if out := e.encode(); utf8.RuneCountInString(out) <= limit {
			return out
		}
		if chars == 0 {
			break
		}
	}
	e.Outline.Members, e.Outline.Item = nil, nil
	return e.encode()
}

// cut gives two thirds of chars to the head and the rest to the tail.
func (e *excerpt) cut(chars int) {
	if len(e.shown) <= chars {
		e.Head, e.Tail = e.shown, ""
		return
	}
	e.Tail = tail(e.shown, chars/3)
	e.Head = head(e.shown[:len(e.shown)-len(e.Tail)], chars-chars/3)
}

func (e *excerpt) encode() string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		// Strings and numbers always encode.
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
