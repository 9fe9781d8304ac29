package anthropic

import (
	"cmp"
	"encoding/json"
	"strconv"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/model/wire"
)

// ephemeral marks the end of a prefix that the provider caches.
const ephemeral = `{"type":"ephemeral"}`

// encode makes the body of a request.
func (p *Provider) encode(req *model.Request) ([]byte, error) {
	if err := wire.CheckOrder(req.Messages); err != nil {
		return nil, err
	}
	s := p.settings
	var body wire.Body
	messages, err := encodeMessages(req.Messages, p.identity(), !s.noCache)
	if err != nil {
		return nil, err
	}
	body.SetList("messages", messages)
	body.Set("stream", json.RawMessage("true"))
	limit := wire.Lower(s.maxOutput, req.MaxOutput)
	body.Set("max_tokens", json.RawMessage(strconv.Itoa(limit)))
	if err := body.SetValue("model", s.model); err != nil {
		return nil, err
	}
	if err := p.addSystem(&body, req); err != nil {
		return nil, err
	}
	c, err := p.addTools(&body, req)
	if err != nil {
		return nil, err
	}
	if !c.forced() { // which the API refuses beside thinking
		s.addThinking(&body, p.limit(limit), thoughtless(req.Messages, p.identity()))
	}
	p.endpoint.AddExtra(&body)
	if err := p.addSampling(&body, req); err != nil {
		return nil, err
	}
	return body.Bytes(), nil
}

// limit is how long an answer may be: what the extra fields say, else declared.
func (p *Provider) limit(declared int) int {
	if raw, ok := p.endpoint.ExtraField("max_tokens"); ok {
		if n, err := strconv.Atoi(string(raw)); err == nil {
			return n
		}
	}
	return declared
}

func (p *Provider) addSystem(body *wire.Body, req *model.Request) error {
	if req.User != "" {
		if err := body.SetValue("metadata", map[string]string{"user_id": req.User}); err != nil {
			return err
		}
	}
	if blank(req.System) {
		return nil
	}
	b := block{Type: "text", Text: req.System}
	if !p.settings.noCache {
		b.Cache = json.RawMessage(ephemeral)
	}
	return body.SetValue("system", []block{b})
}

// addTools adds definitions and the choice among them. The mark of the last one is all
// that differs from what is kept.
func (p *Provider) addTools(body *wire.Body, req *model.Request) (choice, error) {
	if len(req.Tools) == 0 {
		tools, err := standIns(req.Messages)
		if err != nil || len(tools) == 0 {
			return choice{}, err
		}
		body.SetList("tools", tools)
		c := choice{Type: "none"}
		return c, body.SetValue("tool_choice", c)
	}
	tools, err := p.definitions.encode(req.Tools)
	if err != nil {
		return choice{}, err
	}
	if last := len(tools) - 1; !p.settings.noCache {
		tools[last] = marked(tools[last])
	}
	body.SetList("tools", tools)
	c := choiceOf(req.ToolChoice)
	if parallel := p.settings.parallel; parallel != nil && !*parallel && c.Type != "none" {
		c = choice{cmp.Or(c.Type, "auto"), c.Name, true}
	}
	if c.Type == "" {
		return c, nil
	}
	return c, body.SetValue("tool_choice", c)
}

// marked is an encoded object with a cache mark behind its fields.
func marked(object json.RawMessage) json.RawMessage {
	const field = `,"cache_control":` + ephemeral + `}`
	out := make(json.RawMessage, 0, len(object)+len(field))
	return append(append(out, object[:len(object)-1]...), field...)
}

// addSampling adds temperature or top_p, of which the newer models take one, the newest
// none, and a model that thinks none. Those of extra are there already.
func (p *Provider) addSampling(body *wire.Body, req *model.Request) error {
	s := p.settings
	if !s.version.sampled() || body.Has("temperature") || body.Has("top_p") || thinks(body) {
		return nil
	}
	if t := cmp.Or(req.Temperature, s.temperature); t != nil {
		return body.SetValue("temperature", min(*t, 1)) // other wires go up to 2
	}
	if t := cmp.Or(req.TopP, s.topP); t != nil {
		return body.SetValue("top_p", *t)
	}
	return nil
}

// thinks says whether a body asks the model to think.
func thinks(body *wire.Body) bool {
	var t struct {
		Type string `json:"type"`
	}
	return json.Unmarshal(body.Get("thinking"), &t) == nil && t.Type != "disabled" && t.Type != ""
}

// shareOf is how much of an answer is for thinking, by the effort.
func shareOf(reasoning string) (float64, bool) {
	switch reasoning {
	case "low":
		return 0.2, true
	case "medium":
		return 0.5, true
	case "high":
		return 0.8, true
	}
	return 0, false
}

// leastBudget is the smallest budget of thinking that the API takes.
const leastBudget = 1024

// addThinking asks the model to think within an answer of at most limit tokens. A budget
// is not given if little would be left to answer, or in the middle of a turn that began
// without thoughts.
func (s *settings) addThinking(body *wire.Body, limit int, thoughtless bool) {
	share, ok := shareOf(s.reasoning)
	if !ok {
		return
	}
	if s.version.adaptive() {
		body.Set("thinking", json.RawMessage(`{"type":"adaptive"}`))
		body.Set("output_config", json.RawMessage(`{"effort":"`+s.reasoning+`"}`))
		return
	}
	if limit < 2*leastBudget || thoughtless {
		return
	}
	budget := max(leastBudget, int(float64(limit)*share))
	body.Set("thinking", json.RawMessage(`{"type":"enabled","budget_tokens":`+strconv.Itoa(budget)+`}`))
}

// thoughtless says whether the turn has calls and began without thoughts that can be
// replayed: the API refuses to begin in the middle of it. What the user says right behind
// results is sent with them, and begins no turn.
func thoughtless(messages []chat.Message, identity string) bool {
	start := 0
	for i, m := range messages {
		if m.Role == chat.User && (i == 0 || messages[i-1].Role != chat.Tool) {
			start = i
		}
	}
	for _, m := range messages[start:] {
		if m.Role == chat.Assistant {
			return len(m.Calls) > 0 && m.OpaqueFor(identity) == nil
		}
	}
	return false
}
