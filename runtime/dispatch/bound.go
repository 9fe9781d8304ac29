package dispatch

import (
	"context"
	"crypto/rand"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/result"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

const (
	// defaultMaxChars bounds the result of a tool whose declaration does not.
	defaultMaxChars = 100_000
	// floor is what a result gets at least, however little room the turn has left: enough for
	// a preview, or for a small result as it is.
	floor = 1500
)

// Retention is how long stored results are kept, and how much of them for each principal.
type Retention struct {
	TTL   time.Duration // 0: for ever
	Quota int64         // bytes; 0: any number
}

// content is what a handler answered.
type content struct {
	raw   []byte // as it answered, without secrets
	text  []byte // valid JSON in valid UTF-8, or nil: it is not JSON
	media string
	exact bool // text says everything that raw does
	chars int  // what it takes as it is
}

func contentOf(raw []byte) content {
	text, err := jsonText(raw)
	if err != nil {
		return content{raw: raw, media: result.MediaOf(raw), chars: utf8.RuneCount(raw)}
	}
	return content{raw: raw, text: text, media: result.JSON, exact: utf8.Valid(raw), chars: utf8.RuneCount(text)}
}

// excerpt shows chars characters of the content's ends.
func (c content) excerpt(chars int) *result.Excerpt {
	if c.text == nil {
		return result.ExcerptOfRaw(c.raw, c.media, chars)
	}
	return result.ExcerptOf(c.text, chars)
}

// bound makes the outcome of a handler's answer, keeping it within what the tool, the
// request and the rest of its turn allow.
func (d *Dispatcher) bound(ctx context.Context, s *station, res tool.Result) Outcome {
	r, t := s.request, s.tool
	raw, redacted := d.o.Redact.JSON(res.JSON)
	c := contentOf(raw)
	out := Outcome{Tool: t.Name, Redacted: redacted, Untrusted: t.Traits.Untrusted || tainted(s.call) || res.Untrusted}
	if c.text == nil {
		d.o.Log.Warn("tool answered with something that is not JSON", append(r.attrs(t.Name), "media", c.media, "bytes", len(c.raw))...)
	}
	b := bounding{d: d, r: r, t: t, content: c, limit: s.call.MaxChars}
	fits := c.chars <= b.limit
	if fits && c.text != nil && (c.exact || t.Bounds.Overflow != tool.Store) && b.take(c.chars) {
		out.Content = string(c.text)
		return out
	}
	if t.Bounds.Overflow == tool.Fail && (!fits || c.text != nil) {
		return b.refuse(out, fits)
	}
	b.show(ctx, &out, fits)
	return out
}

// bounding is a result that is not shown as it is.
type bounding struct {
	d       *Dispatcher
	r       *Request
	t       *registry.Tool
	content content
	limit   int
}

// take asks the turn for room, and says whether there is enough. A result that is no larger
// than a preview would be has it in any case.
func (b *bounding) take(chars int) bool {
	if b.r.Room == nil || b.reserved() {
		return true
	}
	got := b.r.Room(chars)
	if got >= chars || chars <= floor {
		return true
	}
	b.r.Room(-got)
	return false
}

// reserved says that the room of the call was taken before it ran.
func (b *bounding) reserved() bool { return b.t.Offer == registry.OfferHandles }

func (b *bounding) refuse(out Outcome, fits bool) Outcome {
	why := fault.New(fault.TooLarge, "the result has %d characters, and the tool %q may return %d (%s); the call did its work; ask for less",
		b.content.chars, b.t.Name, b.limit, b.t.Pos)
	if fits {
		why = fault.New(fault.TooLarge, "the result has %d characters, and the turn has no room left for it; the call did its work; ask for less", b.content.chars)
	}
	refused := failed(b.t.Name, why)
	refused.Untrusted = out.Untrusted
	return refused
}

// show makes an excerpt, after keeping the whole if the tool wants that.
func (b *bounding) show(ctx context.Context, out *Outcome, fits bool) {
	chars := b.limit
	if b.t.Bounds.Overflow == tool.Store && !fits {
		chars = min(chars, max(b.t.Bounds.Preview, 0))
	}
	e := b.content.excerpt(chars)
	e.Note = b.note()
	if b.t.Bounds.Overflow == tool.Store && !b.reserved() {
		b.store(ctx, out, e)
	} else {
		e.Note += " What is not shown was not kept."
	}
	out.Content = b.render(e)
}

// render gives the excerpt what there is of room, or the floor.
func (b *bounding) render(e *result.Excerpt) string {
	text := e.Render(b.limit)
	if b.r.Room == nil || b.reserved() {
		return text
	}
	want := utf8.RuneCountInString(text)
	if got := b.r.Room(want); got < want && want > floor {
		b.r.Room(-got)
		text = e.Render(min(b.limit, floor))
		b.r.Room(utf8.RuneCountInString(text))
	}
	return text
}

func (b *bounding) note() string {
	switch {
	case b.content.media == result.Text:
		return "The tool answered with text that is not JSON."
	case b.content.text == nil:
		return "The tool answered with bytes that are no text; those that can be shown are."
	case !b.content.exact:
		return "Bytes that are no UTF-8 are shown as U+FFFD."
	}
	return "Only the beginning and the end are shown."
}

// store keeps the whole result. If it cannot be kept the model is told so: the tool has done
// its work.
func (b *bounding) store(ctx context.Context, out *Outcome, e *result.Excerpt) {
	row, err := b.keep(context.WithoutCancel(ctx), out.Untrusted)
	if err != nil {
		b.d.o.Log.Error("storing a tool result failed", append(b.r.attrs(b.t.Name), "err", err)...)
		e.Note += " The rest could not be kept: " + fault.Message(err) + "."
		return
	}
	out.Result = &row
	e.Handle = row.ID
	e.Note += " The whole result is kept under the handle."
}

// keep writes the bytes first and their row after; until it is there no sweep takes them.
func (b *bounding) keep(ctx context.Context, untrusted bool) (store.Result, error) {
	d, r := b.d, b.r
	digest, size, release, err := d.o.Artifacts.Hold(ctx, b.content.raw)
	if err != nil {
		return store.Result{}, err
	}
	defer release()
	row := store.Result{
		ID: "res_" + strings.ToLower(rand.Text()), Owner: r.Principal.Name, Session: r.Session, Run: r.Run, Call: r.Call.ID,
		Tool: string(b.t.Name), Digest: digest, Size: size, Created: time.Now(), Untrusted: untrusted, Media: b.content.media,
	}
	var keep Retention
	if d.o.Retention != nil {
		keep = d.o.Retention()
	}
	if keep.TTL > 0 {
		row.Expires = row.Created.Add(keep.TTL)
	}
	// Room is made for one result at a time: two would both find the same.
	d.keeping.Lock()
	defer d.keeping.Unlock()
	if keep.Quota > 0 {
		removed, err := d.o.Results.MakeRoom(ctx, row.Owner, size, keep.Quota)
		if err != nil {
			return store.Result{}, err
		}
		if removed > 0 {
			d.o.Log.Info("old results removed", "principal", row.Owner, "results", removed, "quota", keep.Quota)
		}
	}
	return row, d.o.Results.PutResult(ctx, row)
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

// reserve takes the room of a call that fits its answer into it, before it runs, and says how
// much that is; unreserve gives back what the outcome did not use. Other results are of any
// size until they are there.
func reserve(s *station) (got int) {
	r, limit := s.request, limitOf(s.request, s.tool)
	s.call.MaxChars = limit
	if r.Room == nil || s.tool.Offer != registry.OfferHandles {
		return 0
	}
	got = r.Room(limit)
	s.call.MaxChars = min(limit, max(got, floor))
	return got
}

func unreserve(r *Request, got int, out *Outcome) {
	if got > 0 {
		r.Room(min(utf8.RuneCountInString(out.Content), got) - got)
	}
}
