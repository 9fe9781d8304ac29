package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/model/wire"
)

func TestVersionOf(t *testing.T) {
	for name, want := range map[string]version{
		"claude-3-7-sonnet-20250219": {3, 7}, "claude-3-opus-20240229": {3, 0}, "claude-sonnet-4-20250514": {4, 0},
		"claude-opus-4-1": {4, 1}, "claude-haiku-4-5-20251001": {4, 5}, "claude-opus-4-6": {4, 6}, "claude-opus-5": {5, 0},
		"anthropic/claude-opus-4.6": {4, 6}, "us.anthropic.claude-sonnet-4-20250514-v1:0": {4, 0},
		"anthropic.claude-opus-4-6-v1": {4, 6}, "claude-sonnet-4-5@20250929": {4, 5}, "Claude-Sonnet-10-2": {10, 2},
		"deepseek-chat": {}, "kimi-k2": {}, "claude-next": {}, "": {},
	} {
		if got := versionOf(name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// TestDefinitionsAreKept: what was encoded once is not encoded again, and what is kept is
// bounded.
func TestDefinitionsAreKept(t *testing.T) {
	tool := func(i, size int) chat.Definition {
		return chat.Definition{Name: "a", JSON: json.RawMessage(fmt.Sprintf(`{"function":{"name":"a%d","description":%q}}`, i, strings.Repeat("x", size)))}
	}
	var d definitions
	tools := []chat.Definition{tool(1, 10), tool(2, 10)}
	first, err := d.encode(tools)
	if err != nil {
		t.Fatal(err)
	}
	again, err := d.encode(tools)
	if err != nil || &first[1][0] != &again[1][0] {
		t.Errorf("encoded again, error %v", err)
	}
	for i := range 100 {
		if _, err := d.encode([]chat.Definition{tool(i, 1<<18)}); err != nil {
			t.Fatal(err)
		}
		if d.size > maxKept || len(d.kept) > i+3 {
			t.Fatalf("%d bytes of %d definitions are kept", d.size, len(d.kept))
		}
	}
	if _, err := d.encode([]chat.Definition{{Name: "x", JSON: json.RawMessage(`[`)}}); err == nil {
		t.Error("no definition at all is encoded")
	}
}

func TestAnswersAreBounded(t *testing.T) {
	block := `{"type":"content_block_start","content_block":{"type":%q,"name":"x"}}`
	for kind, most := range map[string]int{"tool_use": maxCalls, "text": maxBlocks} {
		a, n := &answer{}, 0
		for {
			if _, err := a.add(fmt.Appendf(nil, block, kind)); err != nil {
				break
			}
			n++
		}
		if n != most {
			t.Errorf("%d blocks of %s, want %d", n, kind, most)
		}
	}
	for _, delta := range []string{`"text":%q`, `"thinking":%q`, `"signature":%q`, `"partial_json":%q`} {
		for _, kind := range []string{"text", "thinking", "tool_use"} {
			a := &answer{}
			if _, err := a.add(fmt.Appendf(nil, block, kind)); err != nil {
				t.Fatal(err)
			}
			raw := fmt.Appendf(nil, `{"type":"content_block_delta","delta":{`+delta+`}}`, strings.Repeat("x", 1<<20))
			var err error
			for i := 0; i < 9 && err == nil; i++ {
				_, err = a.add(raw)
			}
			if kept := a.slots[0].text.Len() + a.slots[0].arguments.Len(); err == nil && (kept > 0 || a.slots[0].signature != nil) {
				t.Errorf("%s of %s has no bound", delta, kind)
			}
		}
	}
}

// FuzzAnswer: whatever the events are and however the network cut them, an answer keeps the
// promises of model.Response.
func FuzzAnswer(f *testing.F) {
	files, err := filepath.Glob("testdata/wire/*.txtar")
	if err != nil || len(files) == 0 {
		f.Fatalf("no recordings: %v", err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, section := range archive.Files {
			if section.Name == "stream" {
				f.Add(section.Data)
				f.Add(bytes.ReplaceAll(section.Data, []byte("\n"), []byte("\r\n")))
			}
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		resp, text, thinking, err := read(bytes.NewReader(body))
		slow, _, _, slowErr := read(iotest.OneByteReader(bytes.NewReader(body)))
		if fmt.Sprint(err) != fmt.Sprint(slowErr) || (resp == nil) != (slow == nil) {
			t.Errorf("whole: %v, %v; byte by byte: %v, %v", resp, err, slow, slowErr)
		}
		if err != nil {
			return
		}
		check(t, resp)
		if resp.Message.Content != text || resp.Message.Reasoning != thinking {
			t.Errorf("streamed %q and %q, got %+v", text, thinking, resp.Message)
		}
	})
}

func read(r io.Reader) (*model.Response, string, string, error) {
	events, a := wire.NewEvents(r), &answer{identity: "anthropic/x"}
	var text, thinking strings.Builder
	for !a.finished {
		raw, err := events.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, "", "", err
		}
		if string(raw) == wire.Done {
			continue
		}
		g, err := a.add(raw)
		if err != nil {
			return nil, "", "", err
		}
		text.WriteString(g.Text)
		thinking.WriteString(g.Reasoning)
	}
	resp, err := a.response()
	return resp, text.String(), thinking.String(), err
}

func check(t *testing.T, resp *model.Response) {
	t.Helper()
	m := resp.Message
	if calls := len(m.Calls); (resp.Finish == model.ToolCalls) != (calls > 0) {
		t.Errorf("finish %q with %d calls", resp.Finish, calls)
	}
	ids := map[string]bool{}
	for _, c := range m.Calls {
		if c.ID != "" && ids[c.ID] {
			t.Errorf("the id %q is there twice", c.ID)
		}
		ids[c.ID] = true
		if wire.Truncated(c.Arguments) && !c.Malformed {
			t.Errorf("the cut arguments %q pass for whole", c.Arguments)
		}
	}
	u := resp.Usage
	if u.Input < u.CacheRead+u.CacheWrite || u.Output < 0 || u.CacheRead < 0 || u.CacheWrite < 0 {
		t.Errorf("usage %+v", u)
	}
	if m.Opaque != nil {
		var layout []piece
		if err := json.Unmarshal(m.Opaque.Data, &layout); err != nil || !fits(layout, m) {
			t.Errorf("the layout %s does not fit %+v: %v", m.Opaque.Data, m, err)
		}
	}
	for _, b := range assistantBlocks(m, "anthropic/x") {
		if encoded, err := wire.Encode(b); err != nil {
			t.Errorf("block %s cannot be sent again: %v", encoded, err)
		}
	}
}
