package wasmtools

import (
	"encoding/binary"
	"log/slog"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/wasmtools/module"
)

// The Extism ABI, as far as a plug-in sees it. Its exports have no parameters and return
// an i32 or nothing; 0 is success. Data goes through functions of "extism:host/env", by
// way of a memory of blocks that lies with the host; see [extismMemory]. A block is named
// by its offset, an i64; 0 names none.
//
// What differs from Extism's own runtimes, and why:
//
//   - An offset outside of every block ends the call. There, some functions ignore it
//     and some read what happens to lie there.
//   - The blocks and the module's own memory share the memory limit of the declaration.
//   - Variables live as long as the call, since what one caller leaves must not reach the
//     next; with a grant of kv they are keys of its namespace, see [extismVarGet].
//   - A request that is refused or fails ends the call, as there, but every hop of it is
//     checked, and the caller is told why.
//   - Of "extism:host/user", functions that a host adds, there are those of hyper-mcp; see
//     [extismUserFuncs]. Modules are not linked with each other.

// extismCall is what an Extism plug-in has of its host during one call.
type extismCall struct {
	mem     extismMemory
	input   extismRange
	output  extismRange
	failure extismRange // its error text
	vars    map[string][]byte
	varSize int
	status  int    // of the last response
	header  []byte // of the last response, as JSON; nil before the first
}

// extismRange is a part of a block. Its bytes stay when the block is freed.
type extismRange struct {
	at uint64
	b  []byte
}

// The value types of the ABI, in the encoding of the binary format.
const (
	i32 = "\x7f"
	i64 = "\x7e"
)

// extismFuncs is the module "extism:host/env".
func extismFuncs() []hostFunc {
	var (
		get    = module.FuncType{Results: i64}
		get32  = module.FuncType{Results: i32}
		set    = module.FuncType{Params: i64}
		set2   = module.FuncType{Params: i64 + i64}
		of     = module.FuncType{Params: i64, Results: i64}
		of32   = module.FuncType{Params: i64, Results: i32}
		of2    = module.FuncType{Params: i64 + i64, Results: i64}
		store8 = module.FuncType{Params: i64 + i32}
	)
	return []hostFunc{
		{"alloc", of, extismAlloc}, {"free", set, extismFree},
		{"length", of, extismLength}, {"length_unsafe", of, extismLength},
		{"load_u8", of32, extismLoad8}, {"load_u64", of, extismLoad64},
		{"store_u8", store8, extismStore8}, {"store_u64", set2, extismStore64},
		{"input_length", get, extismInputLength}, {"input_offset", get, extismInputOffset},
		{"input_load_u8", of32, extismInputLoad8}, {"input_load_u64", of, extismInputLoad64},
		{"input_set", set2, extismInputSet},
		{"output_length", get, extismOutputLength}, {"output_offset", get, extismOutputOffset},
		{"output_set", set2, extismOutputSet},
		{"error_get", get, extismErrorGet}, {"error_set", set, extismErrorSet},
		{"memory_bytes", get, extismMemoryBytes}, {"reset", module.FuncType{}, extismReset},
		{"config_get", of, extismConfigGet},
		{"var_get", of, extismVarGet}, {"var_set", set2, extismVarSet},
		{"http_request", of2, extismHTTPRequest}, {"http_status_code", get32, extismHTTPStatus},
		{"http_headers", get, extismHTTPHeaders},
		{"log_trace", set, extismLog(levelTrace)}, {"log_debug", set, extismLog(slog.LevelDebug)},
		{"log_info", set, extismLog(slog.LevelInfo)}, {"log_warn", set, extismLog(slog.LevelWarn)},
		{"log_error", set, extismLog(slog.LevelError)}, {"get_log_level", get32, extismLogLevel},
	}
}

// shared is the state of the plug-in, made when it is first needed.
func (c *call) shared() *extismCall {
	if c.extism == nil {
		c.extism = &extismCall{vars: map[string][]byte{}}
	}
	return c.extism
}

// grow lets f make blocks. They may take what the module's own memory leaves of the
// limit, and that may then grow into what they leave.
func (c *call) grow(f func(m *extismMemory)) {
	m := &c.shared().mem
	m.limit, m.reserve = c.tool.limits.Memory, c.reserve
	if c.in == nil {
		f(m)
		return
	}
	m.limit -= c.in.memory.size
	f(m)
	c.in.memory.beside = m.used
}

const (
	badOffset = trap("the module passed an offset outside of the blocks it has")
	badInput  = trap("the module read beyond its input")
)

// span is the n bytes at p, or the end of the call.
func (x *extismCall) span(p, n uint64) []byte {
	b := x.mem.span(p, n)
	if b == nil {
		panic(badOffset)
	}
	return b
}

// read is the content of the block at p; offset 0 stands for nothing.
func (x *extismCall) read(p uint64) []byte {
	if p == 0 {
		return nil
	}
	b := x.mem.block(p)
	if b == nil {
		panic(badOffset)
	}
	return b.b
}

// take is read for functions that the plug-in hands the block over to.
func (x *extismCall) take(p uint64) []byte {
	b := x.read(p)
	x.mem.free(p)
	return b
}

// give makes b a block of the plug-in, which then owns b.
func (c *call) give(b []byte) uint64 {
	at, err := c.lend(b)
	if err != nil {
		panic(err)
	}
	return at
}

// lend is give outside of a host function.
func (c *call) lend(b []byte) (at uint64, err error) {
	c.grow(func(m *extismMemory) {
		if len(b) == 0 || m.fits(uint64(len(b))) {
			at = m.add(b)
			return
		}
		err = fault.New(fault.TooLarge, "the tool needs more memory than its limit of %s", bytesText(c.tool.limits.Memory))
		if m.denied == overBudget {
			err = unmapped(errNoRoom)
		}
	})
	return at, err
}

func extismAlloc(c *call, _ memory, p []uint64) {
	c.grow(func(m *extismMemory) { p[0] = m.alloc(p[0]) })
}

func extismFree(c *call, _ memory, p []uint64) { c.shared().mem.free(p[0]) }

func extismLength(c *call, _ memory, p []uint64) {
	n := 0
	if b := c.shared().mem.block(p[0]); b != nil {
		n = len(b.b)
	}
	p[0] = uint64(n)
}

func extismLoad8(c *call, _ memory, p []uint64) { p[0] = uint64(c.shared().span(p[0], 1)[0]) }

func extismLoad64(c *call, _ memory, p []uint64) {
	p[0] = binary.LittleEndian.Uint64(c.shared().span(p[0], 8))
}

func extismStore8(c *call, _ memory, p []uint64) { c.shared().span(p[0], 1)[0] = byte(p[1]) } //nolint:gosec // truncation is the point

func extismStore64(c *call, _ memory, p []uint64) {
	binary.LittleEndian.PutUint64(c.shared().span(p[0], 8), p[1])
}

func extismInputLength(c *call, _ memory, p []uint64) { p[0] = uint64(len(c.shared().input.b)) }

func extismInputOffset(c *call, _ memory, p []uint64) { p[0] = c.shared().input.at }

func extismInputLoad8(c *call, _ memory, p []uint64) {
	b := c.shared().input.b
	if p[0] >= uint64(len(b)) {
		panic(badInput)
	}
	p[0] = uint64(b[p[0]])
}

func extismInputLoad64(c *call, _ memory, p []uint64) {
	b := c.shared().input.b
	if n := uint64(len(b)); n < 8 || p[0] > n-8 {
		panic(badInput)
	}
	p[0] = binary.LittleEndian.Uint64(b[p[0]:])
}

// part is the n bytes at p as a range; none of them is the empty range, wherever it is.
func (x *extismCall) part(p, n uint64) extismRange {
	if n == 0 {
		return extismRange{at: p}
	}
	return extismRange{p, x.span(p, n)}
}

func extismInputSet(c *call, _ memory, p []uint64) {
	x := c.shared()
	x.input = x.part(p[0], p[1])
}

func extismOutputLength(c *call, _ memory, p []uint64) { p[0] = uint64(len(c.shared().output.b)) }

func extismOutputOffset(c *call, _ memory, p []uint64) { p[0] = c.shared().output.at }

// extismOutputSet sets the output, which replaces the one before: its limit is for each.
func extismOutputSet(c *call, _ memory, p []uint64) {
	x := c.shared()
	out := x.part(p[0], p[1])
	if int64(len(out.b)) > c.tool.limits.Output {
		c.output.take(len(out.b))
		c.look()
	}
	x.output = out
}

func extismErrorGet(c *call, _ memory, p []uint64) { p[0] = c.shared().failure.at }

func extismErrorSet(c *call, _ memory, p []uint64) {
	x := c.shared()
	x.failure = extismRange{p[0], x.read(p[0])}
}

func extismMemoryBytes(c *call, _ memory, p []uint64) { p[0] = uint64(c.shared().mem.used) } //nolint:gosec // not negative

func extismReset(c *call, _ memory, _ []uint64) {
	x := c.shared()
	x.mem.reset()
	x.input, x.output, x.failure = extismRange{}, extismRange{}, extismRange{}
}

// extismConfigGet answers with a granted variable. The key stays the plug-in's.
func extismConfigGet(c *call, _ memory, p []uint64) {
	x := c.shared()
	v, ok := c.tool.env[string(x.read(p[0]))]
	if !ok {
		p[0] = 0
		return
	}
	p[0] = c.give([]byte(v.Open()))
}

// levelTrace is below all levels that the host uses itself.
const levelTrace = slog.LevelDebug - 4

// extismLog logs at one level. A record costs a byte more than its text, so that empty
// ones are bounded too.
func extismLog(level slog.Level) func(*call, memory, []uint64) {
	return func(c *call, _ memory, p []uint64) {
		b := c.shared().take(p[0])
		if c.logs.take(len(b) + 1) {
			c.log.Log(c.ctx, level, "guest log", "text", string(b))
		}
	}
}

// extismLogLevel is the lowest level that is logged, as Extism counts them from 0.
func extismLogLevel(c *call, _ memory, p []uint64) {
	levels := []slog.Level{levelTrace, slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError}
	for i, l := range levels {
		if c.log.Enabled(c.ctx, l) {
			p[0] = uint64(i)
			return
		}
	}
	p[0] = 1<<31 - 1 // nothing is
}
