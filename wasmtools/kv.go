package wasmtools

import (
	"encoding/base64"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/kv"
	"github.com/hermes-runtime/hermes/wasmtools/abi"
	"github.com/hermes-runtime/hermes/wasmtools/module"
)

// The functions of hermes_kv; their contract is in package abi. The space is the grant's
// namespace and the principal of the call: a guest can name neither.

type errorHead struct {
	Error fault.Body `json:"error"`
}

// failure parks the error of a request that was understood.
func (c *call) failure(err error) int32 {
	return c.parkFrame(errorHead{fault.Body{Kind: fault.KindOf(err).String(), Message: fault.Message(err)}}, nil)
}

func (c *call) space() kv.Space {
	return kv.Space{Owner: c.audit.of.Principal.Name, Namespace: c.tool.kv.Namespace}
}

func kvGet(c *call, raw []byte) int32 {
	var in struct {
		Key string `json:"key"`
	}
	if no := c.request(raw, &in); no != 0 {
		return no
	}
	value, found, err := c.tool.module.rt.kv.Value(c.ctx, c.space(), in.Key)
	if err != nil {
		return c.failure(err)
	}
	return c.parkFrame(struct {
		Found bool `json:"found"`
	}{found}, value)
}

func kvPut(c *call, raw []byte) int32 {
	var in struct {
		Key   string `json:"key"`
		Value string `json:"value_base64"`
	}
	if no := c.request(raw, &in); no != 0 {
		return no
	}
	value, err := base64.StdEncoding.DecodeString(in.Value)
	if err != nil {
		return -abi.EINVAL
	}
	if err := c.mayWrite(abi.FuncPut); err != nil {
		return c.failure(err)
	}
	if err := c.tool.module.rt.kv.PutValue(c.ctx, c.space(), in.Key, value, c.tool.kv.Quota); err != nil {
		return c.failure(err)
	}
	return c.parkFrame(struct{}{}, nil)
}

func kvDelete(c *call, raw []byte) int32 {
	var in struct {
		Key string `json:"key"`
	}
	if no := c.request(raw, &in); no != 0 {
		return no
	}
	if err := c.mayWrite(abi.FuncDelete); err != nil {
		return c.failure(err)
	}
	found, err := c.tool.module.rt.kv.DeleteValue(c.ctx, c.space(), in.Key)
	if err != nil {
		return c.failure(err)
	}
	return c.parkFrame(struct {
		Found bool `json:"found"`
	}{found}, nil)
}

// mayWrite holds a change against the mode of the grant.
func (c *call) mayWrite(what string) error {
	if c.tool.kv.Mode == ReadWrite {
		return nil
	}
	c.refuse(module.KV, "%s in the namespace %q, which is granted for reading", what, c.tool.kv.Namespace)
	return fault.New(fault.Denied, "the namespace %q is granted for reading only", c.tool.kv.Namespace)
}

type kvEntry struct {
	Key  string `json:"key"`
	Size int64  `json:"size"`
}

func kvList(c *call, raw []byte) int32 {
	var in struct {
		Prefix string `json:"prefix"`
		After  string `json:"after"`
		Limit  int    `json:"limit"`
	}
	if no := c.request(raw, &in); no != 0 {
		return no
	}
	entries, more, err := c.tool.module.rt.kv.Values(c.ctx, c.space(), kv.Page{Prefix: in.Prefix, After: in.After, Limit: in.Limit})
	if err != nil {
		return c.failure(err)
	}
	keys := make([]kvEntry, 0, len(entries))
	for _, e := range entries {
		keys = append(keys, kvEntry(e))
	}
	return c.parkFrame(struct {
		Keys []kvEntry `json:"keys"`
		More bool      `json:"more"`
	}{keys, more}, nil)
}
