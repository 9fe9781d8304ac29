// Package guest is the library for tools written in Go and compiled to WebAssembly for
// hermes. It needs the standard library alone.
//
//	package main
//
//	import (
//		"context"
//
//		guest "github.com/hermes-runtime/hermes/wasmtools/sdk/go"
//	)
//
//	type args struct{ Name string }
//
//	func greet(_ context.Context, a args) (any, error) { return "Hello, " + a.Name, nil }
//
//	var _ = guest.Serve(guest.Module{Name: "greeter", Tools: []guest.Definition{
//		guest.Tool("greet", "Greets somebody.", `{"type":"object","properties":{"name":{"type":"string"}}}`, greet),
//	}})
//
//	func main() { guest.Main() }
//
// Built with GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared this is a reactor, whose
// functions the host calls; without the flag it is a command, which main runs: arguments on
// stdin, result on stdout. The same program runs on the machine that builds it, as a
// command, which is how a tool is tried out and tested.
//
// # Capabilities
//
// [HTTP], [KVGet] and its like, [CallTool] and [Progress] ask the host, which does what the
// declaration of the tool grants and answers [ErrNotGranted] to the rest. Each is an import
// of the module only if the program can reach it, so that the list of imports is the list
// of what a tool can do.
//
// # Concurrency
//
// Calls come one at a time. Goroutines work within a call; nothing runs between calls, and
// nothing is kept from one call to the next.
package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"
)

// The parts of the byte contract that this library speaks.
const (
	abiVersion  = 1
	argDescribe = "hermes:describe"
	callOK      = 0
	callError   = 1
	callBroken  = 2
)

// Module is what a WebAssembly file offers.
type Module struct {
	Name    string
	Version string
	Tools   []Definition
	// Wants are the capabilities it would like; the operator decides.
	Wants []Want
}

// Want is a capability that a module would like to be granted.
type Want struct {
	Capability string   `json:"capability"` // "http", "kv", "tools", "progress", "files" or "env"
	Hosts      []string `json:"hosts,omitempty"`
}

// Definition is one tool; make it with [Tool].
type Definition struct {
	name, description string
	schema            json.RawMessage
	call              func(ctx context.Context, arguments json.RawMessage) (any, error)
	// warm decodes arguments and encodes a result without calling the tool.
	warm func()
}

// Tool defines a tool whose arguments decode into an A. The schema is the JSON Schema of
// the arguments, an object; the host holds every call against it or against the one of the
// operator's declaration. What f returns is encoded as JSON; an error's text is what the
// model is told. Calls are quicker if R says what f returns: what package json finds out
// about a type is then found out once, before the first call.
func Tool[A, R any](name, description, schema string, f func(ctx context.Context, args A) (R, error)) Definition {
	decode := func(arguments json.RawMessage) (args A, err error) {
		d := json.NewDecoder(bytes.NewReader(arguments))
		d.UseNumber()
		err = d.Decode(&args)
		return args, err
	}
	return Definition{
		name: name, description: description, schema: json.RawMessage(schema),
		call: func(ctx context.Context, arguments json.RawMessage) (any, error) {
			args, err := decode(arguments)
			if err != nil {
				return nil, fmt.Errorf("the arguments do not fit: %w", err)
			}
			return f(ctx, args)
		},
		warm: func() {
			_, _ = decode(json.RawMessage("{}"))
			var result R
			_, _ = encode(result)
		},
	}
}

// served is the module of this program. The functions that a WebAssembly module exports
// have no receiver, so it has to be found without one; it is set once, by Serve.
var served *Module //nolint:gochecknoglobals // see above

// Serve makes m the module of this program. Call it once, while package variables are
// initialised: a reactor has no other beginning.
func Serve(m Module) *Module {
	if served != nil {
		panic("guest: Serve was called twice")
	}
	served = &m
	return served
}

// Call says which call is running.
type Call struct {
	ID             string `json:"id"`
	Agent          string `json:"agent"`
	Session        string `json:"session"`
	Run            string `json:"run"`
	DeadlineMS     int64  `json:"deadline_ms"` // left when it started; 0: no limit
	IdempotencyKey string `json:"idempotency_key"`
}

type callKey struct{}

// CallOf gives the call that a tool's context belongs to. In a command only the id is
// known.
func CallOf(ctx context.Context) Call {
	c, _ := ctx.Value(callKey{}).(Call)
	return c
}

// Level is how much a log record matters.
type Level int

// The levels.
const (
	Debug Level = iota
	Info
	Warn
	Error
)

// Log writes to the log of the host. How much a call may log is limited, and going over
// ends the call.
func Log(l Level, format string, args ...any) { logText(l, fmt.Sprintf(format, args...)) }

// input is what a call reads.
type input struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Call      Call            `json:"call"`
}

func (m *Module) describe() ([]byte, error) {
	type tool struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		InputSchema json.RawMessage `json:"input_schema,omitempty"`
	}
	d := struct {
		ABI     int    `json:"abi"`
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
		Tools   []tool `json:"tools"`
		Wants   []Want `json:"wants,omitempty"`
	}{ABI: abiVersion, Name: m.Name, Version: m.Version, Wants: m.Wants}
	for _, t := range m.Tools {
		d.Tools = append(d.Tools, tool{t.name, t.description, t.schema})
	}
	return json.Marshal(d)
}

// run makes one call: output and code of hermes_call, or an error text and a code.
func (m *Module) run(in input) (out []byte, code int32) {
	defer func() {
		if r := recover(); r != nil {
			Log(Error, "panic: %v\n%s", r, debug.Stack())
			out, code = fmt.Appendf(nil, "panic: %v", r), callBroken
		}
	}()
	t := m.tool(in.Tool)
	if t == nil {
		return fmt.Appendf(nil, "the module %s has no tool %q", m.Name, in.Tool), callError
	}
	ctx := context.WithValue(context.Background(), callKey{}, in.Call)
	if in.Call.DeadlineMS > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(in.Call.DeadlineMS)*time.Millisecond)
		defer cancel()
	}
	v, err := t.call(ctx, in.Arguments)
	if err == nil {
		out, err = encode(v)
	}
	if err != nil {
		return []byte(err.Error()), callError
	}
	return out, callOK
}

// Call makes one call without a host, for tests: the result is JSON.
func (m *Module) Call(tool string, arguments []byte) ([]byte, error) {
	out, code := m.run(input{Tool: tool, Arguments: arguments})
	if code != callOK {
		return nil, errors.New(string(out))
	}
	return out, nil
}

// tool finds a tool; a module with one tool answers to any name, so that a declaration
// can rename it.
func (m *Module) tool(name string) *Definition {
	for i := range m.Tools {
		if m.Tools[i].name == name || len(m.Tools) == 1 {
			return &m.Tools[i]
		}
	}
	return nil
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encoding the result: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// Main runs the module as a command and exits if the call fails. A reactor never calls
// it.
func Main() {
	if err := command(os.Args, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// command makes one call with the arguments on stdin, for the tool that argv names.
func command(argv []string, stdin io.Reader, stdout io.Writer) error {
	if served == nil {
		return errors.New("this program serves no module: call guest.Serve in a package variable")
	}
	if len(argv) > 1 && argv[1] == argDescribe {
		d, err := served.describe()
		if err == nil {
			_, err = stdout.Write(d)
		}
		return err
	}
	b, err := io.ReadAll(stdin)
	if err != nil {
		return fmt.Errorf("reading arguments: %w", err)
	}
	out, code := served.run(input{Tool: os.Getenv("HERMES_TOOL"), Arguments: b, Call: Call{ID: os.Getenv("HERMES_CALL_ID")}})
	if code != callOK {
		return errors.New(string(out))
	}
	_, err = stdout.Write(out)
	return err
}
