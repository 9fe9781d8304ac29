package wasmtools

import (
	"encoding/json"
	"log/slog"
	"unicode/utf8"

	"github.com/hermes-runtime/hermes/wasmtools/abi"
	"github.com/hermes-runtime/hermes/wasmtools/module"
)

// The functions of the module "hermes"; their contract is in package abi. Parameters come
// in p, and the result, if there is one, goes to p[0].

func inputLen(c *call, _ memory, p []uint64) { result(p, int32(len(c.input))) } //nolint:gosec // bounded by limits

func inputRead(c *call, mem memory, p []uint64) {
	result(p, copyOut(mem, c.input, p[0], p[1], p[2]))
}

// copyOut copies up to n bytes of src from off to the guest's memory, and gives their
// number. The whole target must lie in the memory, whether it is filled or not.
func copyOut(mem memory, src []byte, ptr, off, n uint64) int32 {
	dst := mem.view(ptr, n)
	if uint64(u32(off)) >= uint64(len(src)) {
		return 0
	}
	return int32(copy(dst, src[u32(off):])) //nolint:gosec // bounded by limits
}

func outputWrite(c *call, mem memory, p []uint64) {
	b := mem.view(p[0], p[1])
	if _, err := c.output.Write(b); err != nil {
		result(p, -abi.EOVERRUN)
		return
	}
	result(p, int32(len(b))) //nolint:gosec // bounded by limits
}

func errorSet(c *call, mem memory, p []uint64) {
	b := mem.view(p[0], p[1])
	c.errorText = string(b[:min(len(b), maxErrorText)])
}

func guestLog(c *call, mem memory, p []uint64) {
	b := mem.view(p[1], p[2])
	// A record costs a byte more than its text, so that empty ones are bounded too.
	if !c.logs.take(len(b) + 1) {
		return
	}
	c.log.Log(c.ctx, logLevel(u32(p[0])), "guest log", "text", string(b))
}

func logLevel(l uint32) slog.Level {
	switch l {
	case abi.LogDebug:
		return slog.LevelDebug
	case abi.LogWarn:
		return slog.LevelWarn
	case abi.LogError:
		return slog.LevelError
	}
	return slog.LevelInfo
}

// capability wraps the function of a capability: without a grant, or over the limit of
// host calls, the guest gets an error number.
func capability(kind module.Capability, do func(c *call, req []byte) int32) func(*call, memory, []uint64) {
	return func(c *call, mem memory, p []uint64) {
		req := mem.view(p[0], p[1])
		c.onlyInCall("uses a grant while it starts")
		if c.audit.of == nil || !c.tool.granted(kind) {
			c.refuse(kind, "there is no grant of it")
			result(p, -abi.EACCES)
			return
		}
		if c.hostCalls++; c.hostCalls > c.tool.limits.HostCalls {
			result(p, -abi.EOVERRUN)
			return
		}
		result(p, do(c, req))
	}
}

// request reads the JSON of a capability call; 0 is success. JSON is text: bytes that are
// none would turn into others, of a key for example.
func (c *call) request(raw []byte, into any) int32 {
	switch {
	case int64(len(raw)) > c.tool.limits.Output:
		return -abi.EOVERRUN
	case !utf8.Valid(raw) || json.Unmarshal(raw, into) != nil:
		return -abi.EINVAL
	}
	return 0
}

// park keeps the answer of a capability until the guest has read it. Together they take
// no more than the memory the guest may have itself.
func (c *call) park(b []byte) int32 {
	if c.parked+int64(len(b)) > c.tool.limits.Memory || !c.reserve(int64(len(b))) {
		return -abi.ENOSPC
	}
	c.parked += int64(len(b))
	c.lastHandle++
	c.handles[c.lastHandle] = b
	return c.lastHandle
}

func resultLen(c *call, _ memory, p []uint64) {
	b, ok := c.handles[int32(u32(p[0]))] //nolint:gosec // a handle
	if !ok {
		result(p, -abi.EBADF)
		return
	}
	result(p, int32(len(b))) //nolint:gosec // bounded by limits
}

func resultRead(c *call, mem memory, p []uint64) {
	b, ok := c.handles[int32(u32(p[0]))] //nolint:gosec // a handle
	if !ok {
		result(p, -abi.EBADF)
		return
	}
	result(p, copyOut(mem, b, p[1], p[2], p[3]))
}

func resultClose(c *call, _ memory, p []uint64) {
	h := int32(u32(p[0])) //nolint:gosec // a handle
	c.parked -= int64(len(c.handles[h]))
	c.unreserve(int64(len(c.handles[h])))
	delete(c.handles, h)
}
