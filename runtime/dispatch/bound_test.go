package dispatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

type shown struct {
	Truncated  bool
	Chars      int
	Handle     string
	Note       string
	Outline    any
	Head, Tail string
}

func decodeShown(t *testing.T, content string, limit int) shown {
	t.Helper()
	var s shown
	if err := json.Unmarshal([]byte(content), &s); err != nil || !s.Truncated {
		t.Fatalf("not an excerpt: %v: %.300s", err, content)
	}
	if n := utf8.RuneCountInString(content); n > limit {
		t.Errorf("%d characters, limit %d", n, limit)
	}
	if strings.ContainsRune(content, utf8.RuneError) || !utf8.ValidString(content) {
		t.Error("a character was split")
	}
	return s
}

func TestBoundAtTheLimit(t *testing.T) {
	x := newTool(t, "x", `{}`, answers(`"`+strings.Repeat("😀", 8)+`"`))
	x.Bounds.MaxChars = 10
	if o := newBench(t).Dispatch(t.Context(), request(viewOf(t, x), "x", "")); o.Failed || o.Result != nil || len(o.Content) != 34 {
		t.Errorf("10 characters of 10 allowed: %+v", o)
	}
}

// TestStore keeps the whole result and shows its ends.
func TestStore(t *testing.T) {
	text := `"` + strings.Repeat("a😀", 100000) + `\nend"`
	b := newBench(t)
	x := newTool(t, "x", `{}`, answers(text))
	o := b.Dispatch(t.Context(), request(viewOf(t, x), "x", ""))
	got := decodeShown(t, o.Content, 100000)
	if o.Failed || o.Result == nil || got.Handle != o.Result.ID || got.Chars != utf8.RuneCountInString(text) {
		t.Fatalf("outcome %+v, excerpt %+v", o.Result, got)
	}
	if !strings.HasPrefix(got.Head, "a😀a") || utf8.RuneCountInString(got.Head) != 1000 || !strings.HasSuffix(got.Tail, "😀\nend") || utf8.RuneCountInString(got.Tail) != 500 {
		t.Errorf("head %.20q, tail %.20q", got.Head, got.Tail)
	}
	row, err := b.rows.Result(t.Context(), session.Scope{All: true}, got.Handle)
	if err != nil {
		t.Fatal(err)
	}
	want := *o.Result
	want.ID, want.Digest, want.Created = row.ID, row.Digest, row.Created
	want.Media = "application/json"
	want.Owner, want.Session, want.Run, want.Call, want.Tool, want.Size = "p", "s", "r", "call_1", "x", int64(len(text))
	if diff := cmp.Diff(want, row); diff != "" {
		t.Error(diff)
	}
	r, err := b.artifacts.Open(row.Digest)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	kept, err := io.ReadAll(r)
	if err != nil || string(kept) != text {
		t.Errorf("kept %d bytes of %d: %v", len(kept), len(text), err)
	}
	again := b.Dispatch(t.Context(), request(viewOf(t, x), "x", ""))
	if again.Result.ID == row.ID || again.Result.Digest != row.Digest {
		t.Errorf("again: %+v", again.Result)
	}
}

// TestTruncate shows as much as fits.
func TestTruncate(t *testing.T) {
	text := `{"rows":["` + strings.Repeat(`quoted \" text 😀 `, 5000) + `"]}`
	x := newTool(t, "x", `{}`, answers(text))
	x.Bounds = tool.Bounds{MaxChars: 5000, Overflow: tool.Truncate, Preview: 10}
	o := newBench(t).Dispatch(t.Context(), request(viewOf(t, x), "x", ""))
	got := decodeShown(t, o.Content, 5000)
	if o.Failed || o.Result != nil || got.Handle != "" || len(got.Head) < 1000 || !strings.HasPrefix(got.Head, `{"rows":["quoted`) || !strings.HasSuffix(got.Tail, `"]}`) {
		t.Errorf("head %.30q (%d), tail %.30q", got.Head, len(got.Head), got.Tail)
	}
	r := request(viewOf(t, x), "x", "")
	r.MaxChars = 1000
	decodeShown(t, newBench(t).Dispatch(t.Context(), r).Content, 1000)
}

func TestOverflowError(t *testing.T) {
	x := newTool(t, "x", `{}`, answers(`"`+strings.Repeat("x", 200)+`"`))
	x.Bounds = tool.Bounds{MaxChars: 100, Overflow: tool.Fail}
	kind, message := errorOf(t, newBench(t).Dispatch(t.Context(), request(viewOf(t, x), "x", "")))
	if kind != "too_large" || !strings.Contains(message, "202 characters") || !strings.Contains(message, "100 (tools.d/test.hcl:3)") {
		t.Errorf("%s: %s", kind, message)
	}
}

// TestStoreFails cannot keep the rest: the model still gets the ends, and the truth.
func TestStoreFails(t *testing.T) {
	b := newBench(t)
	b.rows.err = fault.Wrap(fault.Unavailable, errors.New("secret path"), "the disk of the state directory is full")
	x := newTool(t, "x", `{}`, answers(`"`+strings.Repeat("x", 200000)+`"`))
	o := b.Dispatch(t.Context(), request(viewOf(t, x), "x", ""))
	got := decodeShown(t, o.Content, 100000)
	if o.Failed || o.Result != nil || got.Handle != "" || !strings.Contains(got.Note, "could not be kept: the disk of the state directory is full") || strings.Contains(got.Note, "secret") || got.Head == "" {
		t.Errorf("%+v", got)
	}
}

// TestStoreAfterTheEnd stores a result that came as the call was canceled.
func TestStoreAfterTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	x := newTool(t, "x", `{}`, func(context.Context, *tool.Call) (tool.Result, error) {
		cancel()
		return tool.Text(strings.Repeat("x", 200000)), nil
	})
	if o := newBench(t).Dispatch(ctx, request(viewOf(t, x), "x", "")); o.Failed || o.Result == nil {
		t.Errorf("%.300s", o.Content)
	}
}

// TestFlood answers with 50 MB (less under -race).
func TestFlood(t *testing.T) {
	item := `{"id":1,"text":"` + strings.Repeat("é", 500) + `"},`
	text := `[` + strings.Repeat(item, floodBytes/len(item)) + `{}]`
	b := newBench(t)
	o := b.Dispatch(t.Context(), request(viewOf(t, newTool(t, "x", `{}`, answers(text))), "x", ""))
	got := decodeShown(t, o.Content, 100000)
	if o.Failed || o.Result == nil || o.Result.Size != int64(len(text)) || len(o.Content) > 8000 {
		t.Errorf("result %+v, content of %d bytes", o.Result, len(o.Content))
	}
	want := map[string]any{"type": "array", "count": float64(floodBytes/len(item) + 1), "item": map[string]any{"type": "object", "count": 2.0, "members": map[string]any{"id": "number", "text": "string"}}}
	if diff := cmp.Diff(want, got.Outline); diff != "" {
		t.Error(diff)
	}
}

// TestTinyLimit has room for nothing: the smallest excerpt stands.
func TestTinyLimit(t *testing.T) {
	x := newTool(t, "x", `{}`, answers(`{"`+strings.Repeat("k", 200)+`":1}`))
	x.Bounds = tool.Bounds{MaxChars: 1, Overflow: tool.Store, Preview: 1500}
	o := newBench(t).Dispatch(t.Context(), request(viewOf(t, x), "x", ""))
	if got := decodeShown(t, o.Content, 400); got.Handle == "" || got.Head != "" {
		t.Errorf("%+v", got)
	}
}
