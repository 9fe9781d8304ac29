package modeltest

import (
	"bytes"
	"errors"
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
)

// common is what comes of the recordings that every wire has, whatever their format: of
// common_text.txtar and so on.
func common() map[string]string {
	const retryable = "retryable: true\n"
	return map[string]string{
		"common_text":      "text: \"It is 4 °C in 日本 👩\\u200d👩\\u200d👧.\"\nfinish: stop\nusage: {Input:120 Output:30 CacheRead:100 CacheWrite:5 Reasoning:0}\n",
		"common_call":      "text: \"One moment.\"\ncall: \"call_1\" \"get_weather\" \"{\\\"city\\\": \\\"Tromsø\\\"}\"\ncall: \"call_2\" \"get_time\" \"{}\"\nfinish: tool_calls\n",
		"common_length":    "text: \"It \"\nfinish: length\n",
		"common_call_cut":  "call: \"call_1\" \"get_weather\" \"{\\\"city\\\": \\\"Tr\" malformed\nfinish: tool_calls\n",
		"common_pings":     "text: \"Hi.\"\nfinish: stop\n",
		"common_cut":       "error: unavailable: model \"main\": the connection to the provider broke before the answer was complete\n" + retryable,
		"common_no_finish": "error: unavailable: model \"main\": the provider's stream ended before the model finished\n" + retryable,
		"common_malformed": "error: unavailable: model \"main\": the provider sent a chunk that is not valid JSON of its own format\n" + retryable,
		"common_error":     "error: unavailable: model \"main\": the provider reported an error instead of the rest of the answer (overloaded_error): Overloaded\n" + retryable,
		"common_refused":   "error: too_large: model \"main\": the provider answered with status 413 (request_too_large): Request exceeds the maximum size\nretryable: false\noverflow: true\n",
	}
}

// RunRecordings plays the recorded streams of a directory, one deviation of a backend a
// file, and compares what comes out of them. Each is played with every line ending, whole
// and cut into single bytes: none of that may matter. open makes the provider, labelled
// "main", that talks to a server; update rewrites the outcomes in the files.
//
// The comment of a file says what it is about; lines "key: value" in it set the status or
// a header, "cut" or "hold" how the connection ends, "unterminated" that the stream has no
// line break at its end. The recordings of [common] must be there, with its outcomes.
func RunRecordings(t *testing.T, dir string, update bool, open func(t *testing.T, s *Server) model.Provider) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	must := common()
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		same, isCommon := must[name]
		delete(must, name)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			p := player{path: file, archive: archive, update: update, open: open}
			p.play(t)
			if got := section(t, archive, "outcome"); isCommon && got != same {
				t.Errorf("this wire differs from others (-want +got):\n%s", cmp.Diff(same, got))
			}
		})
	}
	for name := range must {
		t.Errorf("%s.txtar is missing in %s", name, dir)
	}
}

// player plays one file.
type player struct {
	path    string
	archive *txtar.Archive
	update  bool
	open    func(t *testing.T, s *Server) model.Provider
}

func (p player) play(t *testing.T) {
	t.Helper()
	recording := recordingOf(t, p.archive)
	want := section(t, p.archive, "outcome")
	for _, ending := range []string{"\n", "\r\n", "\r"} {
		for _, pieces := range []int{0, 1} {
			r := recording
			r.Body = strings.ReplaceAll(r.Body, "\n", ending)
			r.Pieces = pieces
			got := Outcome(t, p.open(t, NewServer(t, r)))
			if p.update && ending == "\n" && pieces == 0 {
				p.rewrite(t, got)
				want = got
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("line ending %q, pieces of %d (-want +got):\n%s", ending, pieces, diff)
			}
		}
	}
}

func recordingOf(t *testing.T, archive *txtar.Archive) Recording {
	t.Helper()
	r := Recording{Header: map[string]string{}, Body: section(t, archive, "stream")}
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

func (p player) rewrite(t *testing.T, outcome string) {
	t.Helper()
	for i := range p.archive.Files {
		if p.archive.Files[i].Name == "outcome" {
			p.archive.Files[i].Data = []byte(outcome)
		}
	}
	if err := os.WriteFile(p.path, txtar.Format(p.archive), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Outcome asks a provider one question, with four tools to answer it, and describes what
// comes of it, one fact a line. What was streamed must be what is in the message.
func Outcome(t *testing.T, p model.Provider) string {
	t.Helper()
	var text, thinking []string
	resp, err := p.Stream(t.Context(), &model.Request{
		Messages: []chat.Message{{Role: chat.User, Content: "hi"}},
		Tools:    Definitions("dodo", "get", "get_time", "get_weather"),
	}, func(d model.Delta) error {
		text = append(text, d.Text)
		thinking = append(thinking, d.Reasoning)
		return nil
	})
	var out bytes.Buffer
	if err != nil {
		describeError(&out, err)
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

func describeError(out *bytes.Buffer, err error) {
	fmt.Fprintf(out, "error: %v: %s\n", fault.KindOf(err), fault.Message(err))
	if after, ok := model.RetryAfter(err); ok {
		fmt.Fprintf(out, "retry after: %v\n", after)
	}
	fmt.Fprintf(out, "retryable: %v\n", model.Retryable(err))
	if errors.Is(err, model.ErrOverflow) {
		fmt.Fprintf(out, "overflow: true\n")
	}
}

func describe(out *bytes.Buffer, resp *model.Response) {
	m := resp.Message
	if m.Reasoning != "" {
		fmt.Fprintf(out, "reasoning: %q\n", m.Reasoning)
	}
	if m.Opaque != nil {
		fmt.Fprintf(out, "opaque: %s %s\n", m.Opaque.Provider, m.Opaque.Data)
	}
	if m.Content != "" {
		fmt.Fprintf(out, "text: %q\n", m.Content)
	}
	for _, c := range m.Calls {
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

// Definitions are tools of these names that take any object.
func Definitions(names ...string) []chat.Definition {
	var out []chat.Definition
	for _, name := range names {
		out = append(out, chat.Definition{Name: name, JSON: []byte(
			`{"type":"function","function":{"name":"` + name + `","parameters":{"type":"object"}}}`)})
	}
	return out
}
