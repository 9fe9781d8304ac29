package openai

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/model/wire"
)

// addRecordings makes the recorded streams seeds, with every line ending.
func addRecordings(f *testing.F) {
	files, err := filepath.Glob("testdata/wire/*.txtar")
	if err != nil || len(files) == 0 {
		f.Fatalf("no recordings: %v", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, section := range txtar.Parse(raw).Files {
			if section.Name == "stream" {
				f.Add(section.Data)
				f.Add(bytes.ReplaceAll(section.Data, []byte("\n"), []byte("\r\n")))
			}
		}
	}
}

// Whatever a provider sends, what is given on has the one form that go-openai reads
// right, and it does not depend on where the network cut the stream.
func FuzzLines(f *testing.F) {
	addRecordings(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		whole := read(t, bytes.NewReader(body))
		bytewise := read(t, iotest.OneByteReader(bytes.NewReader(body)))
		if !bytes.Equal(whole, bytewise) {
			t.Errorf("whole: %q\nbyte by byte: %q", whole, bytewise)
		}
		for line := range strings.Lines(string(whole)) {
			payload, ok := strings.CutPrefix(line, "data: ")
			payload, ended := strings.CutSuffix(payload, "\n")
			if !ok || !ended || payload != wire.Done && payload[0] != '{' || strings.HasPrefix(payload, `{"error":`) {
				t.Errorf("line %q", line)
			}
		}
	})
}

func read(t *testing.T, r io.Reader) []byte {
	t.Helper()
	out, err := io.ReadAll(newLines(io.NopCloser(r)))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Whatever the chunks are, an answer keeps the promises of model.Response.
func FuzzAnswer(f *testing.F) {
	addRecordings(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		a := newAnswer(map[string]bool{"get_weather": true}, "openai/x")
		var text, thinking strings.Builder
		for line := range strings.Lines(string(read(t, bytes.NewReader(body)))) {
			payload := strings.TrimSpace(strings.TrimPrefix(line, "data: "))
			if payload == wire.Done {
				break
			}
			p, err := a.add([]byte(payload))
			if err != nil {
				return
			}
			text.WriteString(p.Text)
			thinking.WriteString(p.Reasoning)
		}
		resp, err := a.response()
		if err != nil {
			if resp != nil {
				t.Errorf("got %v beside %v", resp, err)
			}
			return
		}
		checkResponse(t, resp)
		if resp.Message.Content != text.String() || resp.Message.Reasoning != thinking.String() {
			t.Errorf("streamed %q and %q, got %+v", text.String(), thinking.String(), resp.Message)
		}
	})
}

func checkResponse(t *testing.T, resp *model.Response) {
	t.Helper()
	if calls := len(resp.Message.Calls); (resp.Finish == model.ToolCalls) != (calls > 0) {
		t.Errorf("finish %q with %d calls", resp.Finish, calls)
	}
	ids := map[string]bool{}
	for _, c := range resp.Message.Calls {
		if c.ID != "" && ids[c.ID] {
			t.Errorf("the id %q is there twice", c.ID)
		}
		ids[c.ID] = true
		if wire.Truncated(c.Arguments) && !c.Malformed {
			t.Errorf("the cut arguments %q pass for whole", c.Arguments)
		}
	}
	u := resp.Usage
	if u.Input < 0 || u.Output < 0 || u.CacheRead < 0 || u.CacheWrite < 0 || u.Reasoning < 0 {
		t.Errorf("usage %+v", u)
	}
}

// However arguments are cut into pieces, they are put together to the same text, and
// are complete exactly when they are an object.
func FuzzArrival(f *testing.F) {
	f.Add(`{"a":"}\"","b":[{}]}`, uint8(3))
	f.Add(`{"a":1}{"b":2}`, uint8(1))
	f.Add("{}\n", uint8(2))
	f.Add(`{]}`, uint8(1))
	f.Add(`"{}"`, uint8(2))
	f.Fuzz(func(t *testing.T, text string, size uint8) {
		var a arrival
		for rest := text; rest != ""; {
			n := min(len(rest), int(size)+1)
			a.add(rest[:n])
			rest = rest[n:]
		}
		got := a.text.String()
		if a.complete != wire.IsObject(strings.TrimSpace(got)) {
			t.Errorf("%q is complete: %v", got, a.complete)
		}
		trimmed := strings.TrimSpace(text)
		if json.Valid([]byte(trimmed)) && strings.HasPrefix(trimmed, "{") && strings.TrimSpace(got) != trimmed {
			t.Errorf("%q became %q", text, got)
		}
	})
}
