package wasmtools

import (
	"bytes"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/wasmtools/abi"
	"github.com/hermes-runtime/hermes/wasmtools/module"
)

// maxExtismVars bounds the variables of one call together, in bytes of names and values.
// Those that are kept with kv have the quota of the grant.
const maxExtismVars = 1 << 20

// extismVarGet answers with a variable, or 0 if there is none. A grant of kv makes the
// variables keys of its namespace, which stay when the call ends, for calls of the same
// principal.
func extismVarGet(c *call, _ memory, p []uint64) {
	x := c.shared()
	name := string(x.take(p[0]))
	if c.tool.kv == nil {
		p[0] = c.give(bytes.Clone(x.vars[name]))
		return
	}
	c.useVars()
	value, _, err := c.tool.rt.kv.Value(c.ctx, c.space(), name)
	if err != nil {
		panic(err)
	}
	p[0] = c.give(value)
}

// extismVarSet keeps a value; a value of offset 0 removes it.
func extismVarSet(c *call, _ memory, p []uint64) {
	x := c.shared()
	name, value := string(x.take(p[0])), x.take(p[1])
	var err error
	switch {
	case c.tool.kv == nil:
		err = x.setVar(name, value)
	case p[1] == 0:
		err = c.keepVar(abi.FuncDelete, func() error {
			_, err := c.tool.rt.kv.DeleteValue(c.ctx, c.space(), name)
			return err
		})
	default:
		err = c.keepVar(abi.FuncPut, func() error {
			return c.tool.rt.kv.PutValue(c.ctx, c.space(), name, value, c.tool.kv.Quota)
		})
	}
	if err != nil {
		panic(err)
	}
}

// setVar sets a variable of this call; nil removes it.
func (x *extismCall) setVar(name string, value []byte) error {
	if old, ok := x.vars[name]; ok {
		x.varSize -= len(name) + len(old)
		delete(x.vars, name)
	}
	if value == nil {
		return nil
	}
	if x.varSize+len(name)+len(value) > maxExtismVars {
		return fault.New(fault.TooLarge, "the tool keeps more than %s in its variables, their limit", bytesText(maxExtismVars))
	}
	x.varSize += len(name) + len(value)
	x.vars[name] = bytes.Clone(value)
	return nil
}

// useVars accounts for one use of kv, which the call must have begun for.
func (c *call) useVars() {
	c.onlyInCall("uses a grant while it starts")
	if err := c.permitted(module.KV); err != nil {
		panic(err)
	}
}

func (c *call) keepVar(what string, do func() error) error {
	c.useVars()
	if err := c.mayWrite(what); err != nil {
		return err
	}
	return do()
}
