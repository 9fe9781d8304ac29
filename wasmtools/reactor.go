package wasmtools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/wasmtools/abi"
	"github.com/hermes-runtime/hermes/wasmtools/module"
)

// reactorInput is what a reactor reads; the fields are part of the ABI.
type reactorInput struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Call      callInput       `json:"call"`
}

type callInput struct {
	ID             string `json:"id"`
	Agent          string `json:"agent"`
	Session        string `json:"session"`
	Run            string `json:"run"`
	DeadlineMS     int64  `json:"deadline_ms,omitempty"` // left when the call started
	IdempotencyKey string `json:"idempotency_key"`
}

// reactorEntry checks that a module with the marker has what the ABI asks for.
func reactorEntry(rep *module.Report) error {
	if !rep.HasFunc(abi.ExportCall, module.Func(0, true)) {
		return fault.New(fault.Invalid, "exports hermes_abi_v1 but no function hermes_call of type () -> (i32).")
	}
	for name, want := range map[string]module.FuncType{
		abi.ExportInit: module.Func(0, false), abi.ExportDescribe: module.Func(0, true),
	} {
		for _, e := range rep.Exports {
			if e.Name == name && e.Kind == "function" && e.Type != want {
				return fault.New(fault.Invalid, "exports %s as %s; the ABI wants %s.", name, e.Type, want)
			}
		}
	}
	return nil
}

// reactor calls hermes_call.
func (c *call) reactor(tc *tool.Call, args json.RawMessage) (tool.Result, error) {
	if err := c.setInput(tc, args); err != nil {
		return tool.Result{}, err
	}
	code, err := c.invoke(abi.ExportCall)
	if cut := c.ended(); cut != nil {
		return tool.Result{}, cut
	}
	if err != nil {
		return tool.Result{}, c.broken(err)
	}
	switch code {
	case abi.CallOK:
		return value(c.output.b), nil
	case abi.CallError:
		text := complaint([]byte(c.errorText))
		if text == "" {
			text = "the tool reported an error without saying which"
		}
		return tool.Result{}, fault.New(fault.Invalid, "%s", text)
	}
	return tool.Result{}, c.faulty(nil, "hermes_call returned %d", code)
}

func (c *call) setInput(tc *tool.Call, args json.RawMessage) error {
	in := reactorInput{Tool: c.tool.inModule, Arguments: args, Call: callInput{
		ID: tc.ID, Agent: tc.Agent, Session: tc.Session, Run: tc.Run, IdempotencyKey: tc.IdempotencyKey,
	}}
	if deadline, ok := c.ctx.Deadline(); ok {
		in.Call.DeadlineMS = max(1, time.Until(deadline).Milliseconds())
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // the arguments stay as they are, byte for byte
	if err := e.Encode(in); err != nil {
		return fault.Wrap(fault.Invalid, err, "the arguments are not JSON")
	}
	c.input = bytes.TrimRight(b.Bytes(), "\n")
	return nil
}

// invoke calls a function of type () -> (i32).
func (c *call) invoke(name string) (code int32, err error) {
	err = c.run(func(mod api.Module) error {
		res, err := mod.ExportedFunction(name).Call(c.ctx)
		if err == nil {
			code = api.DecodeI32(res[0])
		}
		return err
	})
	return code, err
}

// broken is the error of an instance that ended in the middle of a call.
func (c *call) broken(err error) error {
	if f := passed(err); f != nil {
		return f
	}
	why := trapReason(err)
	if strings.Contains(why, overflow) {
		c.tool.rt.reclaim()
	}
	if exit, ok := errors.AsType[*sys.ExitError](err); ok {
		why = fmt.Sprintf("the module ended itself with exit code %d", exit.ExitCode())
	}
	if _, ok := errors.AsType[*startError](err); ok {
		why += " while it was started"
	}
	if said := complaint(c.logs.b); said != "" {
		why += ": " + said
	}
	return c.faulty(err, "%s", why)
}

// overflow is how the engine names the end of a stack.
const overflow = "stack overflow"

// trapReason is why a guest trapped, in a few words: neither paths nor stack.
func trapReason(err error) string {
	if t, ok := errors.AsType[trap](err); ok {
		return string(t)
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	if _, reason, ok := strings.Cut(first, "wasm error: "); ok {
		return "the module trapped: " + reason
	}
	if strings.Contains(first, overflow) {
		return "the module trapped: " + overflow
	}
	return "the module could not be run"
}

// describeReactor calls hermes_describe, which is optional.
func (c *call) describeReactor() ([]byte, error) {
	if !c.program.report.HasFunc(abi.ExportDescribe, module.Func(0, true)) {
		return nil, nil
	}
	code, err := c.invoke(abi.ExportDescribe)
	switch {
	case c.ended() != nil:
		return nil, fmt.Errorf("calling hermes_describe: %w", c.ended())
	case err != nil:
		return nil, fmt.Errorf("calling hermes_describe: %s", trapReason(err))
	case code != abi.CallOK:
		return nil, fmt.Errorf("hermes_describe returned %d", code)
	}
	return c.output.b, nil
}
