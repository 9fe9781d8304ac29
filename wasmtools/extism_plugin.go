package wasmtools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/wasmtools/abi"
	"github.com/hermes-runtime/hermes/wasmtools/module"
)

// pluginShape is how the tools of an Extism plug-in are found and called.
type pluginShape uint8

const (
	// plainPlugin: an export is a tool. Input is the arguments, output the result.
	plainPlugin pluginShape = iota
	// hyperPlugin1 and hyperPlugin2 are the two interfaces of hyper-mcp: one export
	// lists tools, another calls one of them, and both speak the JSON of MCP.
	hyperPlugin1
	hyperPlugin2
)

// The exports of the interfaces of hyper-mcp.
const (
	hyperList1 = "describe"
	hyperCall1 = "call"
	hyperList2 = "list_tools"
	hyperCall2 = "call_tool"
)

// Exports by which plug-ins are initialised.
const (
	exportCtors   = "__wasm_call_ctors"
	exportHaskell = "hs_init"
)

func pluginShapeOf(rep *module.Report) pluginShape {
	has := func(name string) bool { return rep.HasFunc(name, module.Func(0, true)) }
	switch {
	case has(hyperList2) && has(hyperCall2):
		return hyperPlugin2
	case has(hyperList1) && has(hyperCall1):
		return hyperPlugin1
	}
	return plainPlugin
}

// pluginEntries are the exports that a plain plug-in can be called by. That of a program
// is one if there is no other.
func pluginEntries(rep *module.Report) []string {
	var names []string
	started := false
	for _, e := range rep.Exports {
		callable := e.Kind == "function" && (e.Type == module.Func(0, true) || e.Type == module.Func(0, false))
		switch {
		case callable && e.Name == abi.ExportStart:
			started = true
		case callable && e.Name != abi.ExportInit && e.Name != "hs_exit" && !strings.HasPrefix(e.Name, "__"):
			names = append(names, e.Name)
		}
	}
	if names == nil && started {
		names = []string{abi.ExportStart}
	}
	slices.Sort(names)
	return names
}

// pluginEntry checks that a plug-in has something to call.
func pluginEntry(rep *module.Report) error {
	if pluginShapeOf(rep) == plainPlugin && pluginEntries(rep) == nil {
		return fault.New(fault.Invalid, "is an Extism plug-in without a function to call: it needs an export of type () -> (i32).")
	}
	return nil
}

// pluginCanUse says whether a plug-in imports what a grant is of use for though it does
// without.
func pluginCanUse(rep *module.Report, c module.Capability) bool {
	return slices.ContainsFunc(rep.Imports, func(im module.Import) bool {
		switch im.Module {
		case abi.ModuleExtism:
			return c == module.KV && (im.Name == "var_get" || im.Name == "var_set")
		case abi.ModuleUser:
			return c == module.Progress && im.Name == "notify_progress"
		}
		return false
	})
}

// choosePlugin settles which export is called: of a plain plug-in the one that the
// declaration names, or the only one.
func (t *Tool) choosePlugin(s *Spec) error {
	if t.report.ABI != module.Extism {
		return nil
	}
	switch pluginShapeOf(t.report) {
	case hyperPlugin1:
		t.entry = hyperCall1
		return nil
	case hyperPlugin2:
		t.entry = hyperCall2
		return nil
	case plainPlugin:
	}
	names := pluginEntries(t.report)
	if s.InModule == "" && len(names) == 1 {
		t.inModule = names[0]
	}
	if !slices.Contains(names, t.inModule) {
		return &BindError{"No such function", fmt.Sprintf("The plug-in exports no function %q that could be a tool. Set tool in the handler block to one that it exports: %s.",
			t.inModule, strings.Join(names, ", ")), "tool"}
	}
	t.entry = t.inModule
	return nil
}

// plugin calls an Extism plug-in.
func (c *call) plugin(tc *tool.Call, args json.RawMessage) (tool.Result, error) {
	shape := pluginShapeOf(&c.program.report)
	in, err := c.pluginInput(shape, tc, args)
	if err != nil {
		return tool.Result{}, err
	}
	if err := c.runPlugin(c.tool.entry, in); err != nil {
		return tool.Result{}, err
	}
	out := c.shared().output.b
	if shape == plainPlugin {
		return value(out), nil
	}
	return c.mcpResult(out)
}

// pluginInput is what the plug-in finds as its input, in memory of its own.
func (c *call) pluginInput(shape pluginShape, tc *tool.Call, args json.RawMessage) ([]byte, error) {
	type params struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	in := params{c.tool.inModule, args}
	switch shape {
	case hyperPlugin1:
		return pluginJSON(struct {
			Params params `json:"params"`
		}{in})
	case hyperPlugin2:
		return pluginJSON(struct {
			Request params       `json:"request"`
			Context hyperContext `json:"context"`
		}{in, newHyperContext(tc.ID)})
	case plainPlugin:
	}
	return bytes.Clone(args), nil
}

// hyperContext is what the second interface of hyper-mcp tells of a request.
type hyperContext struct {
	ID   string         `json:"id"`
	Meta map[string]any `json:"_meta"`
}

func newHyperContext(id string) hyperContext {
	return hyperContext{ID: id, Meta: map[string]any{"progressToken": id}}
}

func pluginJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // the arguments stay as they are, byte for byte
	if err := e.Encode(v); err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the arguments are not JSON")
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// runPlugin calls one export with an input. What it left is in c.shared().
func (c *call) runPlugin(name string, input []byte) error {
	var code int32
	err := c.run(func(mod api.Module) (err error) {
		code, err = c.enterPlugin(mod, name, input)
		return err
	})
	return c.pluginError(code, err)
}

// pluginError is what comes of a call that ended with a code or an error.
func (c *call) pluginError(code int32, err error) error {
	_, unstarted := errors.AsType[*startError](err)
	if exit, ok := errors.AsType[*sys.ExitError](err); ok && exit.ExitCode() == 0 && !unstarted {
		err = nil
	}
	if cut := c.ended(); cut != nil {
		return cut
	}
	said := complaint(c.shared().failure.b)
	switch {
	case err != nil && (said == "" || passed(err) != nil):
		return c.broken(err)
	case said != "":
		return fault.New(fault.Invalid, "%s", said)
	case code == 0:
		return nil
	}
	if said = complaint(c.logs.b); said == "" {
		said = "the tool reported an error without saying which"
	}
	return fault.New(fault.Invalid, "%s%s", said, c.memoryHint())
}

// enterPlugin calls an export of an instance.
func (c *call) enterPlugin(mod api.Module, name string, input []byte) (code int32, err error) {
	at, err := c.lend(input)
	if err != nil {
		return 0, err
	}
	c.shared().input = extismRange{at, input}
	res, err := mod.ExportedFunction(name).Call(c.ctx)
	if len(res) > 0 {
		code = api.DecodeI32(res[0])
	}
	return code, err
}

// startPlugin runs the initialisers that there are, as Extism does: those of a library,
// else of a program's constructors, and then the run-time system of Haskell.
func startPlugin(ctx context.Context, mod api.Module) error {
	for _, name := range []string{abi.ExportInit, exportCtors} {
		f := mod.ExportedFunction(name)
		if f == nil || len(f.Definition().ParamTypes()) > 0 {
			continue
		}
		if _, err := f.Call(ctx); err != nil {
			return fmt.Errorf("initialising: %w", err)
		}
		break
	}
	f := mod.ExportedFunction(exportHaskell)
	if f == nil || len(f.Definition().ParamTypes()) != 2 {
		return nil
	}
	if _, err := f.Call(ctx, 0, 0); err != nil {
		return fmt.Errorf("initialising: %w", err)
	}
	return nil
}

// pluginList is the export by which a plug-in lists its tools; a plain one has none.
func pluginList(rep *module.Report) string {
	switch pluginShapeOf(rep) {
	case hyperPlugin1:
		return hyperList1
	case hyperPlugin2:
		return hyperList2
	case plainPlugin:
	}
	return ""
}

// describePlugin asks a plug-in for its tools, and gives them as a descriptor.
func (c *call) describePlugin() ([]byte, error) {
	name := pluginList(&c.program.report)
	if name == "" {
		return nil, nil
	}
	var code int32
	err := c.run(func(mod api.Module) (err error) {
		code, err = c.listTools(mod)
		return err
	})
	if err := c.pluginError(code, err); err != nil {
		return nil, fmt.Errorf("calling %s: %s", name, fault.Message(err))
	}
	return mcpDescriptor(c.shared().output.b)
}

// listTools calls the export that lists tools.
func (c *call) listTools(mod api.Module) (code int32, err error) {
	name := pluginList(&c.program.report)
	var input []byte
	if name == hyperList2 {
		if input, err = pluginJSON(map[string]any{"context": newHyperContext(abi.ArgDescribe)}); err != nil {
			return 0, err
		}
	}
	return c.enterPlugin(mod, name, input)
}
