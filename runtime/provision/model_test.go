package provision_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/model/modeltest"
)

// TestAnthropic: what is declared of a model arrives at its provider.
func TestAnthropic(t *testing.T) {
	server := modeltest.NewServer(t, modeltest.Messages{Text: []string{"Noon."}}, modeltest.Messages{Text: []string{"Noon."}})
	s := newSite(t)
	s.write("agents/models.hcl", strings.ReplaceAll(`
provider "anthropic" "default" {
  base_url = "URL"
  headers  = { anthropic-beta = "b" }
}
model "cached" {
  provider       = "anthropic.default"
  name           = "claude-sonnet-4-5"
  context_window = 200000
  max_output     = 4000
  reasoning      = "low"
}
model "plain" {
  provider            = "anthropic.default"
  name                = "claude-sonnet-4-5"
  context_window      = 200000
  max_output          = 4000
  cache               = "off"
  temperature         = 0.5
  parallel_tool_calls = false
  extra               = { service_tier = "auto" }
}
`, "URL", server.URL))
	snap := s.built()
	for _, label := range []string{"cached", "plain"} {
		resp, err := snap.Models[label].Provider.Stream(t.Context(), &model.Request{
			Messages: []chat.Message{{Role: chat.User, Content: "hi"}}, Tools: modeltest.Definitions("a"),
		}, func(model.Delta) error { return nil })
		if err != nil || resp.Message.Content != "Noon." {
			t.Fatalf("%s: %+v, error %v", label, resp, err)
		}
	}
	wants := [][]string{
		{`"cache_control"`, `"thinking":{"type":"enabled","budget_tokens":1024}`, `"max_tokens":4000`, `"model":"claude-sonnet-4-5"`},
		{`"temperature":0.5`, `"disable_parallel_tool_use":true`, `"service_tier":"auto"`},
	}
	for i, r := range server.Requests() {
		for _, want := range wants[i] {
			if !bytes.Contains(r.Body, []byte(want)) {
				t.Errorf("%s is missing in %s", want, r.Body)
			}
		}
		if r.Header.Get("Anthropic-Beta") != "b" {
			t.Errorf("headers %v", r.Header)
		}
	}
	if plain := server.Requests()[1].Body; bytes.Contains(plain, []byte("cache_control")) || bytes.Contains(plain, []byte(`"thinking"`)) {
		t.Errorf("asked for what is not declared: %s", plain)
	}
}

// TestAnthropicSchemas: definitions are as this kind of provider takes them.
func TestAnthropicSchemas(t *testing.T) {
	var c counted
	s := newSite(t, c.function())
	s.write("tools.d/x.hcl", strings.NewReplacer("%", "x").Replace(countTool))
	s.write("agents/more.hcl", `
provider "anthropic" "default" {
}
model "n" {
  provider       = "anthropic.default"
  context_window = 200000
}
agent "b" {
  model        = "n"
  instructions = "Be brief."
  toolsets     = ["*"]
}
`)
	snap := s.built()
	definitions := snap.Agents["b"].View.Definitions()
	if len(definitions) != 1 || !bytes.Contains(definitions[0].JSON, []byte(`"properties":{}`)) {
		t.Errorf("definitions %s", definitions)
	}
}
