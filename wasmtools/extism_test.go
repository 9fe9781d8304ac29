package wasmtools

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/wasmtools/module"
	enc "github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
)

// TestPluginShapes: where the tools of a plug-in come from, and how one is called.
func TestPluginShapes(t *testing.T) {
	r := open(t, Options{})
	tools := `{"tools":[{"name":"add","description":"Adds.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},{"name":"sub","title":"Subtracts."}]}`
	for _, c := range []struct {
		name  string
		f     pluginFixture
		tools []string
		want  string
	}{
		{"plain", pluginFixture{"run": outputs(`{"sum":3}`)}, nil, `{"sum":3}`},
		{"plain text", pluginFixture{"run": outputs(`three`)}, nil, `"three"`},
		{"no output", pluginFixture{"run": returns(0)}, nil, `""`},
		{"version 1", pluginFixture{"describe": outputs(tools), "call": outputs(`{"content":[{"type":"text","text":"3"}]}`)}, []string{"add: Adds.", "sub: Subtracts."}, `3`},
		{"version 2", pluginFixture{"list_tools": outputs(tools), "call_tool": outputs(`{"content":[{"type":"text","text":"x"}],"structuredContent":{"sum":3}}`)}, []string{"add: Adds.", "sub: Subtracts."}, `{"sum":3}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			tl := bindFixture(t, r, c.f, Spec{})
			rep := tl.module.Report()
			if rep.ABI != module.Extism || rep.DescriptorErr != nil {
				t.Errorf("ABI %s, descriptor %v", rep.ABI, rep.DescriptorErr)
			}
			var got []string
			if rep.Descriptor != nil {
				for _, x := range rep.Descriptor.Tools {
					got = append(got, x.Name+": "+x.Description)
				}
			}
			if diff := cmp.Diff(c.tools, got); diff != "" {
				t.Error(diff)
			}
			if res, err := invoke(t.Context(), t, tl, `{}`); err != nil || res != c.want {
				t.Errorf("result %s, %v; want %s", res, err, c.want)
			}
		})
	}
}

// TestPluginEntries: the export that is called, or what could be.
func TestPluginEntries(t *testing.T) {
	r := open(t, Options{})
	two := pluginFixture{"alpha": outputs(`"a"`), "beta": outputs(`"b"`)}
	for _, c := range []struct {
		name, in, want string
	}{{"beta", "", `"b"`}, {"probe", "alpha", `"a"`}} {
		got, err := invoke(t.Context(), t, bind(t, r, two.bytes(), Spec{Optional: true, Name: "beta", InModule: c.in}), `{}`)
		if err != nil || got != c.want {
			t.Errorf("%+v: %s, %v", c, got, err)
		}
	}
	m, err := r.Compile(t.Context(), two.bytes())
	check(t, err)
	defer m.Release()
	for _, in := range []string{"", "gamma", "_initialize"} {
		_, err := m.Bind(Spec{Name: "probe", InModule: in, Optional: true})
		wantBind(t, err, "tool", "one that it exports: alpha, beta.")
	}
	none := enc.Module{Imports: []enc.Import{{Module: "extism:host/env", Name: "free", Params: []byte(i64)}}, Funcs: []enc.Func{{Export: "f", Params: []byte{enc.I32}}}}
	_, err = r.Compile(t.Context(), none.Bytes())
	wantFault(t, err, fault.Invalid, "without a function to call")
	old := command(enc.Import{Module: "env", Name: "extism_alloc"})
	_, err = r.Compile(t.Context(), old.Bytes())
	wantFault(t, err, fault.Invalid, "before Extism 1.0")
	secret := two.module()
	secret.Imports = append(secret.Imports, enc.Import{Module: "extism:host/user", Name: "get_keyring_secret", Params: []byte(i64), Results: []byte(i64)})
	_, err = r.Compile(t.Context(), secret.Bytes())
	wantFault(t, err, fault.Invalid, "extism:host/user.get_keyring_secret: no such function")
}

// TestPluginErrors: what the plug-in says is what the caller is told.
func TestPluginErrors(t *testing.T) {
	r := open(t, Options{})
	for _, c := range []struct {
		name string
		f    pluginFixture
		kind fault.Kind
		want string
	}{
		{"error text", pluginFixture{"run": failing("no such city", 1)}, fault.Invalid, "no such city"},
		{"error text with success", pluginFixture{"run": failing("no such city", 0)}, fault.Invalid, "no such city"},
		{"error text, then a trap", pluginFixture{"run": seq(failing("no such city", 0), []byte{enc.Unreachable})}, fault.Invalid, "no such city"},
		{"freed error text", pluginFixture{"run": seq(newBlock("late"), callHost("error_set", getLocal()), callHost("free", getLocal()), returns(-1))}, fault.Invalid, "late"},
		{"no text", pluginFixture{"run": returns(7)}, fault.Invalid, "without saying which"},
		{"trap", pluginFixture{"run": {enc.Unreachable}}, fault.Internal, "the module trapped: unreachable"},
		{"error of MCP", pluginFixture{"describe": outputs(`{"tools":[]}`), "call": outputs(`{"isError":true,"content":[{"type":"text","text":"bad"},{"type":"text","text":"luck"}]}`)}, fault.Invalid, "bad\nluck"},
		{"silent error of MCP", pluginFixture{"describe": outputs(`{"tools":[]}`), "call": outputs(`{"isError":true}`)}, fault.Invalid, "without saying which"},
		{"no MCP", pluginFixture{"describe": outputs(`{"tools":[]}`), "call": outputs(`hello`)}, fault.Internal, "its result is not the JSON of MCP"},
		{"cleared error", pluginFixture{"run": seq(dropped(failing("x", 0)), callHost("error_set", i64const(0)), returns(3))}, fault.Invalid, "without saying which"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := invoke(t.Context(), t, bindFixture(t, r, c.f, Spec{}), `{}`)
			wantFault(t, err, c.kind, c.want)
		})
	}
}

// TestHostileOffsets: no offset or length of a plug-in reaches anything but its blocks.
func TestHostileOffsets(t *testing.T) {
	r := open(t, Options{})
	top := uint64(math.MaxUint64)
	with := func(parts ...[]byte) []byte { return seq(append([][]byte{newBlock("0123456789abcdef")}, parts...)...) }
	for _, c := range []struct {
		name string
		body []byte
		want string // "": the call succeeds
	}{
		{"load at none", dropped(callHost("load_u8", i64const(0))), "outside of the blocks"},
		{"load at the end of numbers", dropped(callHost("load_u64", i64const(top))), "outside of the blocks"},
		{"load that wraps", dropped(callHost("load_u64", i64const(top-3))), "outside of the blocks"},
		{"load across the end", with(dropped(callHost("load_u64", addI64(getLocal(), i64const(9))))), "outside of the blocks"},
		{"load of the last word", with(dropped(callHost("load_u64", addI64(getLocal(), i64const(8))))), ""},
		{"load past the end", with(dropped(callHost("load_u8", addI64(getLocal(), i64const(16))))), "outside of the blocks"},
		{"load before the start", with(dropped(callHost("load_u8", addI64(getLocal(), i64const(top))))), "outside of the blocks"},
		{"store past the end", with(callHost("store_u8", addI64(getLocal(), i64const(16)), enc.Const(1))), "outside of the blocks"},
		{"store across the end", with(callHost("store_u64", addI64(getLocal(), i64const(12)), i64const(1))), "outside of the blocks"},
		{"store at none", callHost("store_u64", i64const(0), i64const(1)), "outside of the blocks"},
		{"load after free", with(callHost("free", getLocal()), dropped(callHost("load_u64", getLocal()))), ""},
		{"load after reset", with(callHost("reset"), dropped(callHost("load_u64", getLocal()))), "outside of the blocks"},
		{"input past the end", dropped(callHost("input_load_u8", i64const(2))), "beyond its input"},
		{"input across the end", dropped(callHost("input_load_u64", i64const(0))), "beyond its input"},
		{"input that wraps", dropped(callHost("input_load_u64", i64const(top-6))), "beyond its input"},
		{"input of a foreign range", with(callHost("input_set", getLocal(), i64const(17))), "outside of the blocks"},
		{"output past the end", with(callHost("output_set", addI64(getLocal(), i64const(8)), i64const(9))), "outside of the blocks"},
		{"output that wraps", with(callHost("output_set", getLocal(), i64const(top))), "outside of the blocks"},
		{"output that wraps to before", with(callHost("output_set", addI64(getLocal(), i64const(8)), i64const(top-7))), "outside of the blocks"},
		{"output at none", callHost("output_set", i64const(0), i64const(1)), "outside of the blocks"},
		{"empty output anywhere", callHost("output_set", i64const(12345), i64const(0)), ""},
		{"error inside a block", with(callHost("error_set", addI64(getLocal(), i64const(1)))), "outside of the blocks"},
		{"error after free", with(callHost("free", getLocal()), callHost("error_set", getLocal())), "outside of the blocks"},
		{"free of nothing", seq(callHost("free", i64const(0)), callHost("free", i64const(top)), callHost("free", i64const(4096))), ""},
		{"free inside a block", with(callHost("free", addI64(getLocal(), i64const(8))), dropped(callHost("load_u8", getLocal()))), ""},
		{"free twice", with(callHost("free", getLocal()), callHost("free", getLocal())), ""},
		{"length of nothing", dropped(callHost("length", i64const(top))), ""},
		{"key that is none", dropped(callHost("config_get", i64const(99))), "outside of the blocks"},
		{"variable that is none", with(callHost("var_set", getLocal(), addI64(getLocal(), i64const(1)))), "outside of the blocks"},
		{"log that is none", callHost("log_info", i64const(99)), "outside of the blocks"},
		{"message that is none", callHost("notify_progress", i64const(99)), "outside of the blocks"},
		{"message that is no JSON", with(callHost("notify_logging_message", getLocal())), "not the JSON of its ABI"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := invoke(t.Context(), t, bindFixture(t, r, pluginFixture{"run": seq(c.body, returns(0))}, Spec{}), `{}`)
			if c.want == "" {
				check(t, err)
				return
			}
			wantFault(t, err, fault.Internal, c.want)
		})
	}
}

// TestPluginMemory: the blocks count against the limit of the declaration, together with
// the memory of the module.
func TestPluginMemory(t *testing.T) {
	r := open(t, Options{})
	const limit = 1 << 20
	s := Spec{Limits: Limits{Memory: limit}}
	// The code is whether the block could be had: 1 if its offset is 0.
	asks := func(n uint64) []byte { return seq(callHost("alloc", i64const(n)), []byte{0x50}) }
	// Or whether the memory could not grow by so many pages.
	grows := func(pages int32) []byte { return seq(enc.Const(pages), []byte{0x40, 0}, enc.Const(-1), []byte{0x46}) }
	for _, c := range []struct {
		name string
		body []byte
		fits bool
	}{
		{"nothing", asks(0), false},
		{"one byte", asks(1), true},
		{"what is left of the limit", asks(limit - 1<<16 - 1<<8), true},
		{"all of the limit", asks(limit), false},
		{"more than there can be", asks(1 << 40), false},
		{"a number that is negative", asks(math.MaxUint64), false},
		{"a number that wraps", asks(math.MaxUint64 - 15), false},
		{"twice, freed between", seq(setLocal(callHost("alloc", i64const(600_000))), callHost("free", getLocal()), asks(600_000)), true},
		{"twice", seq(dropped(callHost("alloc", i64const(600_000))), asks(600_000)), false},
		{"after the memory has grown", seq(enc.Const(8), []byte{0x40, 0, enc.Drop}, asks(600_000)), false},
		{"before the memory grows", seq(dropped(callHost("alloc", i64const(600_000))), grows(4)), true},
		{"before the memory grows too far", seq(dropped(callHost("alloc", i64const(600_000))), grows(8)), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := invoke(t.Context(), t, bindFixture(t, r, pluginFixture{"run": c.body}, s), `{}`)
			if c.fits != (err == nil) {
				t.Error(err)
			}
		})
	}
	// Small blocks cost what it takes to keep them.
	many := pluginFixture{"run": enc.Forever(seq(callHost("alloc", i64const(1)), []byte{0x50, 0x04, 0x40}, returns(9), []byte{0x0f, 0x0b})...)}
	many["run"] = append(many["run"], enc.Unreachable)
	tl := bindFixture(t, r, many, s)
	_, err := invoke(t.Context(), t, tl, `{}`)
	wantFault(t, err, fault.Invalid, "more memory than its limit of 1 MiB")
	_, err = invoke(t.Context(), t, bindFixture(t, r, pluginFixture{"run": returns(0)}, s), `"`+strings.Repeat("x", limit)+`"`)
	wantFault(t, err, fault.TooLarge, "accepts")
	s.Limits.Input = 2 * limit
	_, err = invoke(t.Context(), t, bindFixture(t, r, pluginFixture{"run": returns(0)}, s), `"`+strings.Repeat("x", limit)+`"`)
	wantFault(t, err, fault.TooLarge, "needs more memory than its limit")
}

// TestPluginLimits: output, logs and variables are bounded, and so is the call's time.
func TestPluginLimits(t *testing.T) {
	r := open(t, Options{})
	forever := func(body ...[]byte) pluginFixture {
		return pluginFixture{"run": append(enc.Forever(seq(body...)...), enc.Unreachable)}
	}
	big := setLocal(callHost("alloc", i64const(5000)))
	for _, c := range []struct {
		name string
		f    pluginFixture
		want string
	}{
		{"output", pluginFixture{"run": seq(big, callHost("output_set", getLocal(), i64const(5000)), returns(0))}, "more than 4 KiB of output"},
		{"logs", forever(newBlock("hello"), callHost("log_info", getLocal())), "more than 4 KiB of logs"},
		{"empty logs", forever(callHost("log_error", i64const(0))), "more than 4 KiB of logs"},
		{"messages", forever(newBlock(`{"level":"info","data":"hello"}`), callHost("notify_logging_message", getLocal())), "more than 4 KiB of logs"},
		{"variables", pluginFixture{"run": seq(setLocal(callHost("alloc", i64const(1<<20))), callHost("var_set", i64const(0), getLocal()), setLocal(callHost("alloc", i64const(1))), callHost("var_set", getLocal(), setAndGet()), returns(0))}, "in its variables"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Spec{Limits: Limits{Output: 4 << 10, Logs: 4 << 10}}
			_, err := invoke(t.Context(), t, bindFixture(t, r, c.f, s), `{}`)
			wantFault(t, err, fault.TooLarge, c.want)
		})
	}
}

// TestPluginEnds: a plug-in that goes on calling its host ends with its time, and with its
// caller.
func TestPluginEnds(t *testing.T) {
	r := open(t, Options{})
	forever := func(body ...[]byte) pluginFixture {
		return pluginFixture{"run": append(enc.Forever(seq(body...)...), enc.Unreachable)}
	}
	for _, c := range []struct {
		name string
		f    pluginFixture
	}{
		{"large blocks", forever(setLocal(callHost("alloc", i64const(30<<20))), callHost("free", getLocal()))},
		{"small blocks", forever(setLocal(callHost("alloc", i64const(1))))},
		{"words", forever(dropped(callHost("input_load_u8", i64const(0))))},
		{"variables", forever(newBlock("abc"), callHost("var_set", i64const(0), getLocal()))},
		{"answers", forever(callHost("free", callHost("list_roots")))},
		{"nothing", forever()},
	} {
		t.Run(c.name, func(t *testing.T) {
			tl := bindFixture(t, r, c.f, Spec{})
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, err := invoke(ctx, t, tl, `{}`)
			wantFault(t, err, fault.Timeout, "the time allowed ran out")
			ctx, cancel = context.WithCancel(t.Context())
			time.AfterFunc(20*time.Millisecond, cancel)
			_, err = invoke(ctx, t, tl, `{}`)
			wantFault(t, err, fault.Canceled, "canceled")
		})
	}
}

// TestPluginBudget: the blocks are of the memory that all guests have together, and given
// back when the call ends.
func TestPluginBudget(t *testing.T) {
	r := open(t, Options{MemoryBudget: 16 << 20})
	before := r.budget.used
	body := seq(setLocal(callHost("alloc", i64const(4<<20))), getLocal(), []byte{0x50}) // i64.eqz
	tl := bindFixture(t, r, pluginFixture{"run": body}, Spec{})
	for range 8 {
		step{args: `{}`, want: `""`}.run(t, tl)
	}
	check(t, tl.Close())
	if r.budget.used != before || r.budget.peak < 4<<20 {
		t.Errorf("%d bytes used before, %d after; %d at most", before, r.budget.used, r.budget.peak)
	}
	tl = bindFixture(t, r, pluginFixture{"run": seq(setLocal(callHost("alloc", i64const(20<<20))), getLocal(), []byte{0x50})}, Spec{})
	step{args: `{}`, want: "more memory than there is for tools now", fail: true, kind: fault.Invalid}.run(t, tl)
}

// setAndGet makes a block of one byte.
func setAndGet() []byte { return callHost("alloc", i64const(1)) }
