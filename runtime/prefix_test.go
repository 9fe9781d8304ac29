package runtime

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/model/modeltest"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/run"
)

// prefixed is a system on a model that calls a tool in every turn, and remembers what it is
// sent.
type prefixed struct {
	t       *testing.T
	sys     *System
	dir     string
	model   *modeltest.Server
	session string
	seen    []wirePrompt
}

// wirePrompt is what a provider's cache sees of a request, byte for byte.
type wirePrompt struct {
	tools    json.RawMessage
	messages []json.RawMessage
}

const prefixProject = `
provider "openai" "p" {
  base_url = %q
}

model "m" {
  provider       = "openai.p"
  context_window = 100000
}

agent "a" {
  model        = "m"
  instructions = "Say what day it is."
  toolsets     = ["mine"]
}

agent "b" {
  model        = "m"
  instructions = "%s"
  toolsets     = ["other"]
}
`

func prefixTool(name, set, description string) string {
	return fmt.Sprintf("tool %q {\n  toolset = %q\n  description = %q\n  handler \"native\" {\n    function = \"time.now\"\n  }\n}\n", name, set, description)
}

func newPrefixed(t *testing.T, turns int) *prefixed {
	t.Helper()
	var answers []http.Handler
	for range turns {
		answers = append(answers,
			modeltest.Answer{Calls: []chat.Call{{ID: "p1", Name: "clock", Arguments: "{}"}, {ID: "p2", Name: "clock", Arguments: `{"timezone":"UTC"}`}}},
			modeltest.Answer{Text: []string{"It is ", "late."}})
	}
	p := &prefixed{t: t, dir: t.TempDir(), model: modeltest.NewServer(t, answers...)}
	p.write("agents/main.hcl", fmt.Sprintf(prefixProject, p.model.URL, "Other."))
	p.write("tools.d/clock.hcl", prefixTool("clock", "mine", "Tells the time."))
	p.write("tools.d/watch.hcl", prefixTool("watch", "mine", "Tells it, too."))
	p.write("tools.d/other.hcl", prefixTool("other", "other", "Tells the time to others."))
	sys, err := New(Options{ConfigDir: p.dir, NoWatch: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sys.Close() })
	if diags, err := sys.Load(t.Context()); err != nil {
		t.Fatal(err, diags)
	}
	p.sys = sys
	return p
}

func (p *prefixed) write(name, text string) {
	p.t.Helper()
	writeFiles(p.t, p.dir, map[string]string{name: text})
}

func (p *prefixed) reload() {
	p.t.Helper()
	if out, err := p.sys.Reloader().Reload(p.t.Context(), "api"); err != nil || len(out.Stale) > 0 {
		p.t.Fatalf("reload: %+v, %v", out, err)
	}
}

// turn runs one, and takes what its two requests had.
func (p *prefixed) turn(text string) {
	p.t.Helper()
	r, err := p.sys.Loop().Start(p.t.Context(), agent.Turn{
		Agent: "a", Session: p.session, Principal: principal.Local(), Input: []chat.Message{{Role: chat.User, Content: text}},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	if o, err := r.Wait(p.t.Context()); err != nil || o.Status != run.Completed {
		p.t.Fatalf("outcome = %+v, %v, %v", o, o.Err, err)
	}
	p.session = r.Session
	for _, req := range p.model.Requests()[len(p.seen):] {
		var w struct {
			Tools    json.RawMessage
			Messages []json.RawMessage
		}
		if err := json.Unmarshal(req.Body, &w); err != nil {
			p.t.Fatal(err)
		}
		p.seen = append(p.seen, wirePrompt{w.Tools, w.Messages})
	}
}

// begins says whether a prompt begins with all that another was.
func (w wirePrompt) begins(with wirePrompt) bool {
	if !bytes.Equal(w.tools, with.tools) || len(w.messages) < len(with.messages) {
		return false
	}
	for i := range with.messages {
		if !bytes.Equal(w.messages[i], with.messages[i]) {
			return false
		}
	}
	return true
}

// TestPrefixStays: what a model was sent is the beginning of what it is sent next, byte for
// byte, from step to step and from turn to turn, whatever is edited that is not its own.
func TestPrefixStays(t *testing.T) {
	edits := []struct {
		name string
		edit func(*prefixed)
		same bool
	}{
		{"nothing", func(*prefixed) {}, true},
		{"a reload of nothing", func(p *prefixed) { p.reload() }, true},
		{"another agent", func(p *prefixed) {
			p.write("agents/main.hcl", fmt.Sprintf(prefixProject, p.model.URL, "Something else."))
			p.reload()
		}, true},
		{"a tool of another agent", func(p *prefixed) {
			p.write("tools.d/other.hcl", prefixTool("other", "other", "Tells others."))
			p.reload()
		}, true},
		{"a new tool of another agent", func(p *prefixed) {
			p.write("tools.d/an.hcl", prefixTool("an_other", "other", "Tells others."))
			p.reload()
		}, true},
		{"a comment", func(p *prefixed) {
			p.write("tools.d/clock.hcl", "# It ticks.\n"+prefixTool("clock", "mine", "Tells the time."))
			p.reload()
		}, true},
		{"a description", func(p *prefixed) {
			p.write("tools.d/clock.hcl", prefixTool("clock", "mine", "Tells the time now."))
			p.reload()
		}, false},
		{"a tool", func(p *prefixed) {
			p.write("tools.d/new.hcl", prefixTool("a_new", "mine", "New."))
			p.reload()
		}, false},
		{"instructions", func(p *prefixed) {
			p.write("agents/main.hcl", strings.ReplaceAll(fmt.Sprintf(prefixProject, p.model.URL, "Other."), "Say what", "Tell what"))
			p.reload()
		}, false},
	}
	for _, tt := range edits {
		t.Run(tt.name, func(t *testing.T) {
			p := newPrefixed(t, 3)
			p.turn("What day is it?")
			p.turn("And now?")
			tt.edit(p)
			p.turn("And then?")
			if len(p.seen) != 6 {
				t.Fatalf("%d requests", len(p.seen))
			}
			for i := range p.seen[1:] {
				if got, want := p.seen[i+1].begins(p.seen[i]), i != 3 || tt.same; got != want {
					t.Errorf("request %d begins with request %d: %v, want %v", i+2, i+1, got, want)
				}
			}
		})
	}
}
