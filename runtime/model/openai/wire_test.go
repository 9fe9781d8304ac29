package openai_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/model/modeltest"
	"github.com/hermes-runtime/hermes/runtime/model/openai"
)

var update = flag.Bool("update", false, "rewrite the outcomes in testdata/wire")

// TestWire plays recorded streams, one deviation of a backend a file, and compares
// what comes out of them. Each is played with every line ending, whole and cut into
// single bytes: none of that may matter.
//
// The comment of a file says what it is about; lines "key: value" in it set the
// status or a header, "cut" or "hold" how the connection ends.
func TestWire(t *testing.T) {
	files, err := filepath.Glob("testdata/wire/*.txtar")
	if err != nil || len(files) < 50 {
		t.Fatalf("found %d recordings, error %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			play(t, file, archive)
		})
	}
}

func play(t *testing.T, path string, archive *txtar.Archive) {
	recording := recordingOf(t, archive)
	want := section(t, archive, "outcome")
	for _, ending := range []string{"\n", "\r\n", "\r"} {
		for _, pieces := range []int{0, 1} {
			r := recording
			r.Body = strings.ReplaceAll(r.Body, "\n", ending)
			r.Pieces = pieces
			got := outcome(t, r)
			if *update && ending == "\n" && pieces == 0 {
				rewrite(t, path, archive, got)
				want = got
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("line ending %q, pieces of %d (-want +got):\n%s", ending, pieces, diff)
			}
		}
	}
}

func recordingOf(t *testing.T, archive *txtar.Archive) modeltest.Recording {
	t.Helper()
	r := modeltest.Recording{Header: map[string]string{}, Body: section(t, archive, "stream")}
	for line := range strings.Lines(string(archive.Comment)) {
		line = strings.TrimSpace(line)
		key, value, isHeader := strings.Cut(line, ": ")
		switch {
		case line == "cut":
			r.Cut = true
		case line == "hold":
			r.Hold = true
		case line == "unterminated":
			r.Body = strings.TrimRight(r.Body, "\n")
		case key == "status":
			status, err := strconv.Atoi(value)
			if err != nil {
				t.Fatal(err)
			}
			r.Status = status
		case isHeader && !strings.HasPrefix(line, "#"):
			r.Header[key] = value
		}
	}
	return r
}

func section(t *testing.T, archive *txtar.Archive, name string) string {
	t.Helper()
	for _, f := range archive.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	t.Fatalf("section %q is missing", name)
	return ""
}

func rewrite(t *testing.T, path string, archive *txtar.Archive, outcome string) {
	t.Helper()
	for i := range archive.Files {
		if archive.Files[i].Name == "outcome" {
			archive.Files[i].Data = []byte(outcome)
		}
	}
	if err := os.WriteFile(path, txtar.Format(archive), 0o600); err != nil {
		t.Fatal(err)
	}
}

// outcome plays a recording and describes what came of it, one fact a line.
func outcome(t *testing.T, r modeltest.Recording) string {
	t.Helper()
	p := open(t, modeltest.NewServer(t, r), openai.Options{Label: "main"})
	var out bytes.Buffer
	var text, thinking []string
	resp, err := p.Stream(t.Context(), &model.Request{
		Messages: []chat.Message{{Role: chat.User, Content: "hi"}},
		Tools:    definitions("dodo", "get", "get_time", "get_weather"),
	}, func(d model.Delta) error {
		text = append(text, d.Text)
		thinking = append(thinking, d.Reasoning)
		return nil
	})
	if err != nil {
		fmt.Fprintf(&out, "error: %v: %s\n", fault.KindOf(err), fault.Message(err))
		if after, ok := model.RetryAfter(err); ok {
			fmt.Fprintf(&out, "retry after: %v\n", after)
		}
		fmt.Fprintf(&out, "retryable: %v\n", model.Retryable(err))
		return out.String()
	}
	m := resp.Message
	if got := strings.Join(text, ""); got != m.Content {
		t.Errorf("streamed text %q, in the message is %q", got, m.Content)
	}
	if got := strings.Join(thinking, ""); got != m.Reasoning {
		t.Errorf("streamed reasoning %q, in the message is %q", got, m.Reasoning)
	}
	describe(&out, resp)
	return out.String()
}

func describe(out *bytes.Buffer, resp *model.Response) {
	if resp.Message.Reasoning != "" {
		fmt.Fprintf(out, "reasoning: %q\n", resp.Message.Reasoning)
	}
	if resp.Message.Content != "" {
		fmt.Fprintf(out, "text: %q\n", resp.Message.Content)
	}
	for _, c := range resp.Message.Calls {
		note := ""
		if c.Malformed {
			note = " malformed"
		}
		fmt.Fprintf(out, "call: %q %q %q%s\n", c.ID, c.Name, c.Arguments, note)
	}
	fmt.Fprintf(out, "finish: %s\n", resp.Finish)
	if resp.Usage != (chat.Usage{}) {
		fmt.Fprintf(out, "usage: %+v\n", resp.Usage)
	}
}

func definitions(names ...string) []chat.Definition {
	var out []chat.Definition
	for _, name := range names {
		out = append(out, chat.Definition{Name: name, JSON: []byte(
			`{"type":"function","function":{"name":"` + name + `","parameters":{"type":"object"}}}`)})
	}
	return out
}
