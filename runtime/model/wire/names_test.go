package wire

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/model"
)

// TestNamesAreReversible: whatever tools are called, each has a name of its own that the
// wire takes, the same in every request, and answers mean what was sent.
func TestNamesAreReversible(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var tools []chat.Definition
		seen := map[string]bool{}
		for range 1 + rnd.IntN(30) {
			name := strings.Repeat([]string{"a", "a.b", "å", "x y", "_", "long_name/"}[rnd.IntN(6)], 1+rnd.IntN(12)) + fmt.Sprint(rnd.IntN(3))
			if seen[name] {
				continue
			}
			seen[name] = true
			tools = append(tools, chat.Definition{Name: name, JSON: json.RawMessage(fmt.Sprintf(`{"type":"function","function":{"name":%q,"parameters":{}}}`, name))})
		}
		n := NamingOf(tools)
		sent := map[string]bool{}
		for _, d := range tools {
			out := n.Sent(d.Name)
			if !sendable(out) || sent[out] || n.Meant(out) != d.Name {
				t.Fatalf("%q is sent as %q, which means %q", d.Name, out, n.Meant(out))
			}
			sent[out] = true
			if alone := NamingOf([]chat.Definition{d}); alone.Sent(d.Name) != out {
				t.Fatalf("%q is sent as %q and alone as %q", d.Name, out, alone.Sent(d.Name))
			}
		}
		if n.Meant("never_sent") != "never_sent" {
			t.Fatal("a name that was not sent is changed")
		}
	}
	if NamingOf([]chat.Definition{{Name: "fine"}}) != nil {
		t.Error("names that are fine are changed")
	}
}

func TestSendable(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "Get_weather-2": true, "_": true, strings.Repeat("z", 64): true,
		"": false, strings.Repeat("z", 65): false, "a.b": false, "a b": false, "å": false, "a\n": false,
		"a@": false, "a[": false, "a`": false, "a{": false, "a/": false, "a:": false,
	} {
		if sendable(name) != want {
			t.Errorf("%q can be sent: %v", name, !want)
		}
	}
}

func TestNamesOfARequest(t *testing.T) {
	req := &model.Request{
		Tools:      []chat.Definition{{Name: "a.b", JSON: json.RawMessage(`{"type":"function","function":{"description":"d","name":"a.b","parameters":{"type":"object"}}}`)}, {Name: "fine", JSON: json.RawMessage(`{}`)}},
		Messages:   []chat.Message{{Role: chat.Assistant, Calls: []chat.Call{{ID: "1", Name: "a.b"}, {ID: "2", Name: "gone.by"}}}, {Role: chat.Tool, CallID: "1", Name: "a.b"}},
		ToolChoice: json.RawMessage(`{"type":"function","function":{"name":"a.b"}}`),
	}
	n := NamingOf(req.Tools)
	out, err := n.Request(req)
	if err != nil {
		t.Fatal(err)
	}
	name := n.Sent("a.b")
	for what, got := range map[string]string{
		"tool": out.Tools[0].Name, "call": out.Messages[0].Calls[0].Name, "result": out.Messages[1].Name,
	} {
		if got != name {
			t.Errorf("%s: %s, want %s", what, got, name)
		}
	}
	if !strings.Contains(string(out.Tools[0].JSON), `"name":"`+name+`"`) || !strings.Contains(string(out.ToolChoice), name) || req.Messages[0].Calls[0].Name != "a.b" || out.Tools[1].Name != "fine" {
		t.Errorf("%s %s", out.Tools[0].JSON, out.ToolChoice)
	}
	back := n.Response(&model.Response{Message: chat.Message{Calls: []chat.Call{{Name: name}, {Name: "other"}}}})
	if back.Message.Calls[0].Name != "a.b" || back.Message.Calls[1].Name != "other" {
		t.Errorf("%+v", back.Message.Calls)
	}
}
