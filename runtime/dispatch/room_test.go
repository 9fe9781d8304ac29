package dispatch_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hermes-runtime/hermes/runtime/dispatch"
	"github.com/hermes-runtime/hermes/runtime/redact"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/secret"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// turnRoom is what a turn has left.
type turnRoom struct {
	mu    sync.Mutex
	left  int
	least int
}

func (r *turnRoom) take(want int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := min(want, r.left)
	r.left -= got
	r.least = min(r.least, r.left)
	return got
}

// content reads what a row keeps.
func (b *bench) content(t *testing.T, row *store.Result) []byte {
	t.Helper()
	if row == nil {
		t.Fatal("nothing was stored")
	}
	f, err := b.artifacts.Open(row.Digest)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	kept, err := io.ReadAll(f)
	if err != nil || int64(len(kept)) != row.Size {
		t.Fatalf("%d bytes of %d: %v", len(kept), row.Size, err)
	}
	return kept
}

// TestKeptAsItIs answers with what is not JSON, or not UTF-8, or is nothing but trouble: all
// of it is kept byte for byte, and what is shown is valid and bounded.
func TestKeptAsItIs(t *testing.T) {
	deep := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
	for _, test := range []struct{ name, text, media, shown string }{
		{"words", "oops", "text/plain", `"head":"oops"`},
		{"half JSON", `{"a":`, "text/plain", `"head":"{\"a\":"`},
		{"two values", `{} {}`, "text/plain", `not JSON`},
		{"binary", "\x00\x01\xff\xfe", "application/octet-stream", "no text"},
		{"Latin 1", "caf\xe9", "application/octet-stream", `caf` + "\uFFFD"},
		{"JSON with a bad byte", "{\"a\":\"\xff\"}", "application/json", `U+FFFD`},
		{"deep", deep, "text/plain", "not JSON"},
		{"large binary", strings.Repeat("\xff\x00", 100_000), "application/octet-stream", "no text"},
		{"large text", strings.Repeat("é\n", 100_000), "text/plain", `"tail":"`},
		{"our own excerpt", `"` + strings.Repeat(`{\"truncated\":true,\"handle\":\"res_x\"}`, 5000) + `"`, "application/json", `"truncated":true`},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t)
			o := b.Dispatch(t.Context(), request(viewOf(t, newTool(t, "x", `{}`, answers(test.text))), "x", ""))
			if kept := b.content(t, o.Result); string(kept) != test.text || o.Result.Media != test.media {
				t.Errorf("%s, %d bytes, want %s, %d", o.Result.Media, len(kept), test.media, len(test.text))
			}
			if !json.Valid([]byte(o.Content)) || !utf8.ValidString(o.Content) || !strings.Contains(o.Content, test.shown) || !strings.Contains(o.Content, o.Result.ID) || o.Failed {
				t.Errorf("shown: %.400s", o.Content)
			}
			if n := utf8.RuneCountInString(o.Content); n > 6000 && n > 3*len(test.text) || n > 100_000 {
				t.Errorf("%d characters are shown", n)
			}
		})
	}
}

// TestRedactedBeforeKept takes secrets out of what is kept and of what is shown.
func TestRedactedBeforeKept(t *testing.T) {
	b := newBench(t)
	held := &redact.Set{}
	defer held.Hold([]secret.Value{secret.New("hunter22")})()
	b.Dispatcher = dispatch.New(dispatch.Options{Artifacts: b.artifacts, Results: b.rows, Redact: held})
	for _, text := range []string{`"hunter22"`, `"` + strings.Repeat("x", 150_000) + `hunter22"`, "hunter22 is no JSON"} {
		o := b.Dispatch(t.Context(), request(viewOf(t, newTool(t, "x", `{}`, answers(text))), "x", ""))
		if strings.Contains(o.Content, "hunter22") || !strings.Contains(o.Content, "[redacted]") {
			t.Errorf("shown: %.300s", o.Content)
		}
		if o.Result != nil && bytes.Contains(b.content(t, o.Result), []byte("hunter22")) {
			t.Error("kept")
		}
	}
}

// TestRoomOfATurn gives results of many sizes to a turn: together they have no more
// characters than it has, and a floor for each that came too late.
func TestRoomOfATurn(t *testing.T) {
	sizes := []int{10, 30_000, 60_000, 120_000, 20_000, 1000, 90_000, 300, 5000, 200_000, 70_000}
	for _, mode := range []tool.Overflow{tool.Store, tool.Truncate, tool.Fail} {
		t.Run(string(mode), func(t *testing.T) {
			b, room, total, late := newBench(t), &turnRoom{left: 150_000}, 0, 0
			for _, size := range sizes {
				text := `"` + strings.Repeat("é", size) + `"`
				x := newTool(t, "x", `{}`, answers(text))
				x.Bounds.Overflow = mode
				r := request(viewOf(t, x), "x", "")
				r.Room = room.take
				before := room.left
				o := b.Dispatch(t.Context(), r)
				n := utf8.RuneCountInString(o.Content)
				total += n
				if n > 100_000 || n > max(before, 1500) {
					t.Errorf("%d characters of %d, %d were left", n, size, before)
				}
				if n > before {
					late++
				}
				if mode == tool.Store && o.Content != text && string(b.content(t, o.Result)) != text {
					t.Errorf("of %d characters not all are kept", size)
				}
				if mode == tool.Fail && o.Content != text && !o.Failed {
					t.Errorf("%.100s", o.Content)
				}
			}
			if most := 150_000 + len(sizes)*1500; total > most || room.least < 0 {
				t.Errorf("%d characters, at most %d; least left %d", total, most, room.least)
			}
			if mode != tool.Store && total < 100_000 {
				t.Errorf("only %d characters were given", total)
			}
		})
	}
}

// TestRoomIsNotLostToWhoAsks has a result that does not fit leave the room to others.
func TestRoomIsNotLostToWhoAsks(t *testing.T) {
	b, room := newBench(t), &turnRoom{left: 50_000}
	x := newTool(t, "x", `{}`, answers(`"`+strings.Repeat("x", 80_000)+`"`))
	r := request(viewOf(t, x), "x", "")
	r.Room = room.take
	if o := b.Dispatch(t.Context(), r); o.Result == nil || room.left < 46_000 {
		t.Errorf("%d characters are left", room.left)
	}
}

// TestRoomOfAReader takes room before it runs, fits into it, and gives back the rest; what it
// answers is never stored.
func TestRoomOfAReader(t *testing.T) {
	for _, test := range []struct{ left, answers, maxChars, after int }{
		{100_000, 5000, 30_000, 95_000},
		{10_000, 9000, 10_000, 1000},
		{1000, 1400, 1500, 0},
		{0, 1400, 1500, 0},
	} {
		room := &turnRoom{left: test.left}
		var allowed int
		x := newTool(t, "x", `{}`, func(_ context.Context, c *tool.Call) (tool.Result, error) {
			allowed = c.MaxChars
			return tool.Text(strings.Repeat("x", test.answers-2)), nil
		})
		x.Offer, x.Bounds.MaxChars = registry.OfferHandles, 30_000
		r := request(viewOf(t, x), "x", "")
		r.Room = room.take
		o := newBench(t).Dispatch(t.Context(), r)
		if allowed != test.maxChars || room.left != test.after || o.Result != nil || len(o.Content) != test.answers {
			t.Errorf("%+v: may have %d, leaves %d, content %.100s", test, allowed, room.left, o.Content)
		}
	}
	x := newTool(t, "x", `{}`, answers(`"`+strings.Repeat("x", 200_000)+`"`))
	x.Offer = registry.OfferHandles
	if o := newBench(t).Dispatch(t.Context(), request(viewOf(t, x), "x", "")); o.Result != nil || len(o.Content) > 100_000 {
		t.Errorf("a reader that answers with too much: %.200s", o.Content)
	}
}

// TestRoomAtOnce has many calls take from one turn at once.
func TestRoomAtOnce(t *testing.T) {
	b, room := newBench(t), &turnRoom{left: 200_000}
	x := newTool(t, "x", `{}`, answers(`"`+strings.Repeat("x", 30_000)+`"`))
	x.Limits.Concurrency = 0
	r := request(viewOf(t, x), "x", "")
	r.Room = room.take
	var wg sync.WaitGroup
	var mu sync.Mutex
	total, whole := 0, 0
	for range 32 {
		wg.Go(func() {
			o := b.Dispatch(context.Background(), r)
			mu.Lock()
			defer mu.Unlock()
			if total += len(o.Content); o.Result == nil {
				whole++
			}
		})
	}
	wg.Wait()
	if total > 200_000+32*1500 || whole < 3 || room.least < 0 {
		t.Errorf("%d characters, %d whole, least left %d", total, whole, room.least)
	}
}

// TestRetention gives rows their end, and tells a model whose quota is used up.
func TestRetention(t *testing.T) {
	b := newBench(t)
	keep := dispatch.Retention{TTL: time.Hour, Quota: 250_000}
	b.Dispatcher = dispatch.New(dispatch.Options{Artifacts: b.artifacts, Results: b.rows, Retention: func() dispatch.Retention { return keep }})
	x := newTool(t, "x", `{}`, answers(`"`+strings.Repeat("x", 150_000)+`"`))
	x.Traits.Untrusted = true
	o := b.Dispatch(t.Context(), request(viewOf(t, x), "x", ""))
	if o.Result == nil || !o.Result.Expires.Equal(o.Result.Created.Add(time.Hour)) || !o.Result.Untrusted {
		t.Errorf("row %+v", o.Result)
	}
	o = b.Dispatch(t.Context(), request(viewOf(t, x), "x", ""))
	if o.Failed || o.Result != nil || !strings.Contains(o.Content, "could not be kept: there is no room") {
		t.Errorf("over the quota: %.300s", o.Content)
	}
	keep = dispatch.Retention{}
	if o = b.Dispatch(t.Context(), request(viewOf(t, x), "x", "")); o.Result == nil || !o.Result.Expires.IsZero() {
		t.Errorf("without an end: %+v", o.Result)
	}
	if err := b.artifacts.Keep(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := b.artifacts.Open(o.Result.Digest); err == nil {
		t.Error("what is stored is held for ever")
	}
}
