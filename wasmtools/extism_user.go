package wasmtools

import (
	"encoding/json"
	"log/slog"
	"path"

	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/wasmtools/module"
)

// extismUserFuncs is the module "extism:host/user": what a hyper-mcp host adds for the
// second interface of its plug-ins.
//
// Messages for the log and progress are passed on. What would need the client of an MCP
// server gets the answer that such a client's lack has there: no model to ask, a
// question declined, lists that nobody watches. The roots are the granted directories.
// Functions that hand out secrets are not offered, so that a plug-in which imports them
// does not load: a grant of http adds credentials without showing them.
func extismUserFuncs() []hostFunc {
	var (
		nothing = module.FuncType{}
		tell    = module.FuncType{Params: i64}
		ask     = module.FuncType{Params: i64, Results: i64}
		get     = module.FuncType{Results: i64}
	)
	return []hostFunc{
		{"notify_logging_message", tell, hyperLog},
		{"notify_progress", tell, hyperProgress},
		{"create_message", ask, hyperAnswer(hyperNoModel)},
		{"create_elicitation", ask, hyperAnswer(hyperDeclined)},
		{"list_roots", get, hyperRoots},
		{"notify_tool_list_changed", nothing, hyperIgnored},
		{"notify_prompt_list_changed", nothing, hyperIgnored},
		{"notify_resource_list_changed", nothing, hyperIgnored},
		{"notify_resource_updated", tell, hyperTaken},
		{"notify_url_elicitation_completed", tell, hyperTaken},
	}
}

const (
	hyperNoModel  = `{"role":"assistant","model":"","stopReason":"error","content":{"type":"text","text":"this host has no model for plug-ins"}}`
	hyperDeclined = `{"action":"decline"}`
)

func hyperIgnored(*call, memory, []uint64) {}

func hyperTaken(c *call, _ memory, p []uint64) { c.shared().take(p[0]) }

// hyperAnswer answers every request with the same JSON.
func hyperAnswer(answer string) func(*call, memory, []uint64) {
	return func(c *call, _ memory, p []uint64) {
		c.shared().take(p[0])
		p[0] = c.give([]byte(answer))
	}
}

// message decodes the JSON that a plug-in passes.
func (x *extismCall) message(p uint64, v any) {
	if err := json.Unmarshal(x.take(p), v); err != nil {
		panic(trap("the module passed a message that is not the JSON of its ABI"))
	}
}

func hyperLog(c *call, _ memory, p []uint64) {
	var in struct {
		Level  string          `json:"level"`
		Logger string          `json:"logger"`
		Data   json.RawMessage `json:"data"`
	}
	c.shared().message(p[0], &in)
	if !c.logs.take(len(in.Data) + len(in.Logger) + 1) {
		return
	}
	var text string
	if json.Unmarshal(in.Data, &text) != nil {
		text = string(in.Data)
	}
	c.log.Log(c.ctx, hyperLevel(in.Level), "guest log", "text", text, "logger", in.Logger)
}

// hyperLevel maps the levels of syslog.
func hyperLevel(level string) slog.Level {
	switch level {
	case "debug":
		return slog.LevelDebug
	case "warning":
		return slog.LevelWarn
	case "error", "critical", "alert", "emergency":
		return slog.LevelError
	}
	return slog.LevelInfo
}

// hyperRoots lists the granted directories by the paths that the plug-in sees.
func hyperRoots(c *call, _ memory, p []uint64) {
	type root struct {
		URI  string `json:"uri"`
		Name string `json:"name"`
	}
	roots := []root{}
	for _, f := range c.tool.files {
		roots = append(roots, root{"file://" + f.Mount, path.Base(f.Mount)})
	}
	b, err := json.Marshal(map[string]any{"roots": roots})
	if err != nil {
		panic(err)
	}
	p[0] = c.give(b)
}

// hyperProgress passes a report on. Without a grant it goes nowhere: the plug-in need not
// be refused for it, nor is there an answer that could say so.
func hyperProgress(c *call, _ memory, p []uint64) {
	var in struct {
		Progress float64 `json:"progress"`
		Total    float64 `json:"total"`
		Message  string  `json:"message"`
	}
	c.shared().message(p[0], &in)
	if !c.tool.progress || c.audit.of == nil || c.audit.of.Host == nil {
		return
	}
	if err := c.permitted(module.Progress); err != nil {
		panic(err)
	}
	c.audit.of.Host.Progress(c.ctx, tool.Progress{Message: in.Message, Done: in.Progress, Total: in.Total})
}
