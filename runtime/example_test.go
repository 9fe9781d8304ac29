package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime"
	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// serve is what the README shows: a daemon with a native function of the program's own.
func serve(ctx context.Context, dir string) error {
	greet := hostfuncs.Func{
		Name:        "demo.greet",
		Description: "Greet somebody by name.",
		Params:      json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false}`),
		Traits:      tool.Traits{Effect: tool.Read, Idempotent: true, Parallel: true},
		New: func(hostfuncs.Binding) (tool.Handler, error) {
			return tool.HandlerFunc(func(_ context.Context, c *tool.Call) (tool.Result, error) {
				var args struct{ Name string }
				if err := json.Unmarshal(c.Arguments, &args); err != nil {
					return tool.Result{}, err
				}
				return tool.Text("Hello, " + args.Name + "!"), nil
			}), nil
		},
	}
	sys, err := runtime.New(runtime.Options{ConfigDir: dir, HostFuncs: []hostfuncs.Func{greet}})
	if err != nil {
		return err
	}
	defer sys.Close()
	if diags, err := sys.Load(ctx); err != nil {
		return errors.Join(err, diags)
	}
	return sys.Serve(ctx, nil)
}

// A program runs a turn without a server: it starts the turn and follows its events.
func Example() {
	dir, err := os.MkdirTemp("", "hermes-example-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "main.hcl"), []byte(exampleProject), 0o600); err != nil {
		panic(err)
	}
	if err := turn(context.Background(), dir); err != nil {
		panic(err)
	}
	// Output:
	// tool.started clock
	// tool.finished clock
	// It is a day of the week: true
	// run.completed
}

const exampleProject = `
provider "script" "offline" {}

model "offline" {
  provider = "script.offline"
  rule {
    match = "day"
    call "clock" {}
    reply = "It is a day of the week: ${endswith(result.weekday, "day")}"
  }
}

tool "clock" {
  handler "native" {
    function = "time.now"
  }
}

agent "assistant" {
  model        = "offline"
  instructions = "Say what day it is."
  tools        = ["clock"]
}
`

func turn(ctx context.Context, dir string) error {
	sys, err := runtime.New(runtime.Options{ConfigDir: dir})
	if err != nil {
		return err
	}
	defer sys.Close()
	if diags, err := sys.Load(ctx); err != nil {
		return errors.Join(err, diags)
	}
	r, err := sys.Loop().Start(ctx, agent.Turn{
		Agent: "assistant", Principal: principal.Local(),
		Input: []chat.Message{{Role: chat.User, Content: "Which day is it?"}},
	})
	if err != nil {
		return err
	}
	for event, err := range sys.Hub().Subscribe(ctx, session.Scope{All: true}, r.ID, 0) {
		if err != nil {
			return err
		}
		if err := show(event); err != nil {
			return err
		}
	}
	return nil
}

func show(e run.Event) error {
	var data struct{ Text, Tool string }
	if err := json.Unmarshal(e.Data, &data); err != nil {
		return err
	}
	switch {
	case e.Type == run.ToolStarted || e.Type == run.ToolFinished:
		fmt.Println(e.Type, data.Tool)
	case e.Type == run.MessageCompleted && data.Text != "":
		fmt.Println(data.Text)
	case e.Type.Terminal():
		fmt.Println(e.Type)
	}
	return nil
}

var _ = serve
