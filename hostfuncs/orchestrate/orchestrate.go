// Package orchestrate is the family of native functions that give work to other agents:
// agent.run.
//
// How an agent runs is the loop's matter; the program hands in a function that does it.
//
// # Invariants
//
// The same arguments make the same work, so that a call that is repeated after a crash
// finds the run of the first.
//
// # Concurrency
//
// A handler is safe for concurrent use and keeps nothing between calls.
//
// # Errors
//
// They are those of the [Runner]; Invalid for arguments that are no work.
package orchestrate

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// Task is what an agent is given to do.
type Task struct {
	Agent string
	Text  string
}

// Report is what came of it.
type Report struct {
	Agent      string
	Text       string // the agent's final message
	Run        string
	Session    string
	Iterations int
	Usage      chat.Usage
	Untrusted  bool // the agent read something from outside
}

// Runner runs an agent for the call c and waits until it is done. A call with the same
// idempotency key gets the report of the same run.
type Runner func(ctx context.Context, c *tool.Call, t Task) (Report, error)

// Funcs are the functions of the family. Without a runner they can be listed and declared,
// and calls are refused.
func Funcs(run Runner) []hostfuncs.Func {
	return []hostfuncs.Func{{
		Name: "agent.run",
		Description: "Give a task to another agent and wait for its answer. It knows nothing of this conversation: put everything it needs into task and context. " +
			"Several tasks that do not depend on each other can be given in one message; they are worked on side by side.",
		Params: json.RawMessage(`{"additionalProperties":false,"properties":{` +
			`"agent":{"description":"Which agent","maxLength":64,"minLength":1,"type":"string"},` +
			`"context":{"description":"What the agent should know: facts, text, earlier results","maxLength":100000,"type":"string"},` +
			`"task":{"description":"What the agent is to do, and what the answer should look like","maxLength":32000,"minLength":1,"type":"string"}},` +
			`"required":["agent","task"],"type":"object"}`),
		Traits: tool.Traits{Effect: tool.Write, Idempotent: true, Parallel: true},
		// Which agents is a matter of the agent that calls, whatever the declaration says.
		Capabilities: func(hostfuncs.Values) []string { return []string{"agents run"} },
		RunsAgents:   true,
		New: func(hostfuncs.Binding) (tool.Handler, error) {
			return tool.HandlerFunc(func(ctx context.Context, c *tool.Call) (tool.Result, error) { return delegate(ctx, run, c) }), nil
		},
	}}
}

// answer is what the model is told.
type answer struct {
	Agent      string     `json:"agent"`
	Status     string     `json:"status"` // one that did not complete is an error
	Text       string     `json:"text"`
	Run        string     `json:"run"`
	Session    string     `json:"session"`
	Iterations int        `json:"iterations"`
	Usage      chat.Usage `json:"usage"`
}

func delegate(ctx context.Context, run Runner, c *tool.Call) (tool.Result, error) {
	var args struct {
		Agent   string `json:"agent"`
		Task    string `json:"task"`
		Context string `json:"context"`
	}
	switch err := json.Unmarshal(c.Arguments, &args); {
	case err != nil:
		return tool.Result{}, fault.Wrap(fault.Invalid, err, "the arguments do not have the types this function expects")
	case run == nil:
		return tool.Result{}, fault.New(fault.Unavailable, "this process runs no agents")
	case strings.TrimSpace(args.Task) == "":
		return tool.Result{}, fault.New(fault.Invalid, "the task is empty: say what agent %q is to do", args.Agent)
	}
	text := args.Task
	if strings.TrimSpace(args.Context) != "" {
		text += "\n\nContext:\n" + args.Context
	}
	r, err := run(ctx, c, Task{Agent: args.Agent, Text: text})
	if err != nil {
		return tool.Result{}, err
	}
	out, err := tool.JSON(answer{r.Agent, "completed", r.Text, r.Run, r.Session, r.Iterations, r.Usage})
	out.Untrusted = r.Untrusted
	return out, err
}
