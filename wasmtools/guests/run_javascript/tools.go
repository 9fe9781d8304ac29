package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dop251/goja"

	guest "github.com/hermes-runtime/hermes/wasmtools/sdk/go"
)

// caller calls a tool of the host. The arguments are a JSON object, the result is JSON.
type caller func(ctx context.Context, tool string, arguments json.RawMessage) (json.RawMessage, error)

func callTool(ctx context.Context, tool string, arguments json.RawMessage) (json.RawMessage, error) {
	return guest.CallTool(ctx, tool, arguments)
}

// kindOf is the kind of an error that the host told, empty for others.
func kindOf(err error) string {
	if host, ok := errors.AsType[*guest.HostError](err); ok {
		return host.Kind
	}
	return ""
}

// maxArguments bounds the arguments of one call, in bytes of JSON.
const maxArguments = 1 << 20

// tools is the object through which a script calls tools. Which ones it may call, the host
// knows alone, so any name is a function.
type tools struct {
	ctx      context.Context
	rt       *goja.Runtime
	call     caller
	newError goja.Value // the constructor Error, as it was before the script
}

func (t tools) object() *goja.Object {
	target := t.rt.NewObject()
	call := t.rt.ToValue(func(c goja.FunctionCall) goja.Value {
		if !goja.IsString(c.Argument(0)) {
			panic(t.rt.NewTypeError("tools.call takes the name of a tool and its arguments"))
		}
		return t.invoke(c.Argument(0).String(), c.Argument(1))
	})
	_ = target.DefineDataProperty("call", call, goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_FALSE) // of a new object
	return t.rt.ToValue(t.rt.NewProxy(target, &goja.ProxyTrapConfig{Get: t.get})).ToObject(t.rt)
}

// get gives a function for a name. What the language itself looks for, to find out
// whether an object is a promise or has a form of its own, is no tool.
func (t tools) get(target *goja.Object, name string, _ goja.Value) goja.Value {
	if v := target.Get(name); v != nil {
		return v
	}
	if name == "then" || name == "toJSON" {
		return goja.Undefined()
	}
	return t.rt.ToValue(func(c goja.FunctionCall) goja.Value { return t.invoke(name, c.Argument(0)) })
}

// invoke makes a call; an error of the tool is thrown.
func (t tools) invoke(name string, arguments goja.Value) goja.Value {
	raw, err := t.encode(arguments)
	if err != nil {
		panic(t.rt.NewTypeError(fmt.Sprintf("tools.%s: %v", name, err)))
	}
	out, err := t.call(t.ctx, name, raw)
	if err != nil {
		panic(t.thrown(name, err))
	}
	v, err := toScript(t.rt, out)
	if err != nil {
		panic(t.thrown(name, fmt.Errorf("reading the result: %w", err)))
	}
	return v
}

func (t tools) encode(v goja.Value) (json.RawMessage, error) {
	if v == nil || goja.IsUndefined(v) || goja.IsNull(v) {
		return json.RawMessage("{}"), nil
	}
	e := encoder{rt: t.rt, max: maxArguments, what: "the arguments object"}
	if err := e.value(v); err != nil {
		return nil, err
	}
	if e.out[0] != '{' {
		return nil, errors.New("the arguments are one object of named values")
	}
	return e.out, nil
}

// thrown is the Error for a failed call: its name is ToolError, tool names the tool, and
// kind the kind of error that the host told.
func (t tools) thrown(name string, err error) *goja.Object {
	o, made := t.rt.New(t.newError, t.rt.ToValue(fmt.Sprintf("%s: %v", name, err)))
	if made != nil {
		panic(t.rt.NewGoError(err))
	}
	members := map[string]string{"name": "ToolError", "tool": name}
	if kind := kindOf(err); kind != "" {
		members["kind"] = kind
	}
	for k, v := range members {
		_ = o.DefineDataProperty(k, t.rt.ToValue(v), goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_FALSE) // of a new object
	}
	return o
}
