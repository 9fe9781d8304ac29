package wasmtools

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/fault"
	enc "github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
)

// TestHostState: what a plug-in is told of its blocks. A function that is told something
// else returns 1.
func TestHostState(t *testing.T) {
	r := open(t, Options{})
	is := func(name string, want []byte) []byte { return seq(callHost(name), want, []byte{0x52}) } // i64.ne
	for _, c := range []struct {
		name string
		body []byte
	}{
		{"no output yet", is("output_length", i64const(0))},
		{"output", seq(newBlock("0123456789"), callHost("output_set", addI64(getLocal(), i64const(2)), i64const(3)), is("output_length", i64const(3)))},
		{"place of the output", seq(newBlock("0123456789"), callHost("output_set", addI64(getLocal(), i64const(2)), i64const(3)), is("output_offset", addI64(getLocal(), i64const(2))))},
		{"no error yet", is("error_get", i64const(0))},
		{"error", seq(newBlock("x"), callHost("error_set", getLocal()), is("error_get", getLocal()), callHost("error_set", i64const(0)))},
		{"input", is("input_length", i64const(2))},
		{"input of its own", seq(newBlock("0123456789"), callHost("input_set", getLocal(), i64const(10)), is("input_length", i64const(10)))},
		{"block of the input", seq(callHost("length", callHost("input_offset")), i64const(2), []byte{0x52})},
		{"bytes in use", is("memory_bytes", i64const(uint64(extismCost(2))))},
		{"after a reset", seq(callHost("reset"), is("memory_bytes", i64const(0)))},
		{"length of a part", seq(newBlock("0123456789"), callHost("length", addI64(getLocal(), i64const(2))), i64const(0), []byte{0x52})},
		{"length without a look", seq(newBlock("0123456789"), callHost("length_unsafe", getLocal()), i64const(10), []byte{0x52})},
		{"no response yet", seq(callHost("http_headers"), i64const(0), []byte{0x52})},
		{"no status yet", callHost("http_status_code")},
		{"notifications", seq(callHost("notify_tool_list_changed"), newBlock("{}"), callHost("notify_resource_updated", getLocal()), enc.Const(0))},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := invoke(t.Context(), t, bindFixture(t, r, pluginFixture{"run": c.body}, Spec{}), `{}`); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestMCPContent: every part of a result shows.
func TestMCPContent(t *testing.T) {
	r := open(t, Options{})
	for _, c := range []struct{ out, want string }{
		{`{"content":[]}`, `""`},
		{`{}`, `""`},
		{`{"content":[{"type":"text","text":"{\"a\":1}"}]}`, `{"a":1}`},
		{`{"content":[{"type":"text","text":"{}"},{"type":"text","text":""}]}`, `{}`},
		{`{"content":[{"type":"text"}]}`, `"[text]"`},
		{`{"content":[{"type":"audio","mimeType":"audio/mpeg","data":"AAAA"}]}`, `"[audio, audio/mpeg, 3 bytes]"`},
		{`{"content":[{"type":"image","text":"a cat","mimeType":"image/png","data":"AA=="}]}`, `"[image, image/png, 1 bytes]"`},
		{`{"content":[{"type":"resource_link","name":"log","uri":"file:///log"}]}`, `"[resource_link, log, file:///log]"`},
		{`{"content":[{"type":"resource","resource":{"uri":"file:///a","text":"a\nb"}}]}`, `"a\nb"`},
		{`{"content":[{"type":"resource","resource":{"uri":"file:///a","mimeType":"x/y","blob":"AAAAAAAA"}}]}`, `"[resource, x/y, file:///a, 6 bytes]"`},
		{`{"content":[{"type":"image","data":"AAAA"}],"structuredContent":{"n":1}}`, `{"n":1}`},
		{`{"content":[{"type":"text","text":"x"}],"structuredContent":null}`, `"x"`},
	} {
		got, err := invoke(t.Context(), t, bindFixture(t, r, pluginFixture{"describe": outputs(`{"tools":[]}`), "call": outputs(c.out)}, Spec{}), `{}`)
		if err != nil || got != c.want {
			t.Errorf("%s: %s, %v; want %s", c.out, got, err, c.want)
		}
	}
	var l logs
	r = open(t, Options{Log: l.logger()})
	f := pluginFixture{"describe": outputs(`{"tools":[]}`), "call": outputs(`{"content":[{"type":"image","data":"AAAA"}],"structuredContent":{}}`)}
	_, err := invoke(t.Context(), t, bindFixture(t, r, f, Spec{}), `{}`)
	check(t, err)
	if s := l.String(); !strings.Contains(s, `content="[image, 3 bytes]"`) {
		t.Error(s)
	}
}

// TestPluginDescriptions: a list of tools that cannot be used is a remark, no reason to
// refuse the plug-in.
func TestPluginDescriptions(t *testing.T) {
	r := open(t, Options{})
	for _, c := range []struct {
		name, want string
		list       []byte
	}{
		{"no JSON", "not the JSON of MCP", outputs("tools")},
		{"two of a name", "twice", outputs(`{"tools":[{"name":"a"},{"name":"a"}]}`)},
		{"no name", "twice, or not at all", outputs(`{"tools":[{}]}`)},
		{"error", "calling describe: not now", failing("not now", 1)},
		{"trap", "unreachable", []byte{enc.Unreachable}},
		{"too long", "of output, its limit", seq(setLocal(callHost("alloc", i64const(2<<20))), callHost("output_set", getLocal(), i64const(2<<20)), enc.Const(0))},
	} {
		t.Run(c.name, func(t *testing.T) {
			tl := bindFixture(t, r, pluginFixture{"describe": c.list, "call": outputs(`{"content":[{"type":"text","text":"ok"}]}`)}, Spec{})
			if err := tl.module.Report().DescriptorErr; err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want …%s…", err, c.want)
			}
			step{args: `{}`, want: `"ok"`}.run(t, tl)
		})
	}
}

// TestPluginStart: what runs before the first call, in which order. Each initialiser
// writes the letter of its name after those before, into the memory of the module.
func TestPluginStart(t *testing.T) {
	r := open(t, Options{})
	letter := func(c byte) []byte { // mem[++mem[0]] = c
		load := []byte{0x41, 0, 0x2d, 0, 0}
		next := seq(load, enc.Const(1), []byte{0x6a})
		return seq(enc.Const(0), next, []byte{0x3a, 0, 0}, load, enc.Const(int32(c)), []byte{0x3a, 0, 0})
	}
	// run outputs the eight bytes of the memory from 1 on.
	run := seq(setLocal(callHost("alloc", i64const(8))),
		callHost("store_u64", getLocal(), seq(enc.Const(1), []byte{0x29, 0, 0})),
		callHost("output_set", getLocal(), i64const(8)))
	init := enc.Func{Export: "_initialize", Body: letter('i')}
	ctors := enc.Func{Export: "__wasm_call_ctors", Body: letter('c')}
	haskell := enc.Func{Export: "hs_init", Params: []byte{enc.I32, enc.I32}, Body: letter('h')}
	for _, c := range []struct {
		want  string
		entry string
		funcs []enc.Func
	}{
		{"", "run", nil},
		{"i", "run", []enc.Func{init}},
		{"c", "run", []enc.Func{ctors}},
		{"i", "run", []enc.Func{ctors, init}},
		{"ih", "run", []enc.Func{haskell, init}},
		{"ch", "run", []enc.Func{haskell, ctors}},
		{"", "run", []enc.Func{{Export: "_initialize", Params: []byte{enc.I32}}}},
		{"", "_start", []enc.Func{ctors}},
	} {
		m := pluginFixture{}.module()
		m.Funcs = append(slices.Clone(c.funcs), enc.Func{Export: c.entry, Body: run, Locals: enc.Vec(slices.Concat(enc.U(1), []byte(i64)))})
		got, err := invoke(t.Context(), t, bind(t, r, m.Bytes(), Spec{Optional: true}), `{}`)
		if got = strings.Trim(strings.ReplaceAll(got, `\u0000`, ""), `"`); err != nil || got != c.want {
			t.Errorf("%s, initialised by %d: %q, %v; want %q", c.entry, len(c.funcs), got, err, c.want)
		}
	}
	traps := pluginFixture{"run": returns(0)}.module()
	traps.Funcs = append(traps.Funcs, enc.Func{Export: "hs_init", Params: []byte{enc.I32, enc.I32}, Body: []byte{enc.Unreachable}})
	_, err := invoke(t.Context(), t, bind(t, r, traps.Bytes(), Spec{Optional: true}), `{}`)
	wantFault(t, err, fault.Internal, "unreachable")
}

// TestPluginExit: a plug-in that ends itself with 0 has succeeded.
func TestPluginExit(t *testing.T) {
	r := open(t, Options{})
	for _, c := range []struct {
		code int32
		step
	}{
		{0, step{args: `{}`, want: `"done"`}},
		{3, step{args: `{}`, want: "ended itself with exit code 3", fail: true, kind: fault.Internal}},
	} {
		m := pluginFixture{}.module()
		m.Imports = append(m.Imports, enc.Import{Module: "wasi_snapshot_preview1", Name: "proc_exit", Params: []byte{enc.I32}})
		m.Funcs = []enc.Func{{
			Export: "run", Results: []byte{enc.I32}, Locals: enc.Vec(slices.Concat(enc.U(1), []byte(i64))),
			Body: seq(outputs("done"), []byte{enc.Drop}, enc.Call(len(m.Imports)-1, c.code), []byte{enc.Unreachable}),
		}}
		c.run(t, bind(t, r, m.Bytes(), Spec{Optional: true}))
	}
	// One that does so before it is called has not.
	m := pluginFixture{"run": outputs("done")}.module()
	m.Imports = append(m.Imports, enc.Import{Module: "wasi_snapshot_preview1", Name: "proc_exit", Params: []byte{enc.I32}})
	m.Funcs = append(m.Funcs, enc.Func{Export: "_initialize", Body: enc.Call(len(m.Imports)-1, 0)})
	for _, isolation := range []Isolation{Fresh, Snapshot} {
		step{args: `{}`, want: "exit code 0 while it was started", fail: true, kind: fault.Internal}.run(t,
			bind(t, r, m.Bytes(), Spec{Optional: true, Isolation: isolation}))
	}
}

// TestPluginRequests: their number is limited, and what is no request is none.
func TestPluginRequests(t *testing.T) {
	var n int
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { n++ }))
	defer srv.Close()
	r := open(t, Options{})
	s := Spec{HTTP: []HTTPGrant{{Hosts: []string{srv.URL}, AllowPrivate: true}}, Limits: Limits{HostCalls: 2}}
	request := seq(newBlock(`{"url":"`+srv.URL+`"}`), callHost("http_request", getLocal(), i64const(0)), []byte{enc.Drop})
	step{args: `{}`, want: `""`}.run(t, bindFixture(t, r, pluginFixture{"run": seq(request, request, returns(0))}, s))
	step{args: `{}`, want: "more than 2", fail: true, kind: fault.Exhausted}.run(t, bindFixture(t, r, pluginFixture{"run": seq(request, request, request, returns(0))}, s))
	if n != 4 {
		t.Errorf("%d requests", n)
	}
	step{args: `{}`, want: "a request that is not the JSON", fail: true, kind: fault.Internal}.run(t,
		bindFixture(t, r, pluginFixture{"run": seq(newBlock("no"), callHost("http_request", getLocal(), i64const(0)), []byte{enc.Drop}, returns(0))}, s))
}

// FuzzMCP: whatever a plug-in answers, a result is JSON or an error for the caller, and a
// descriptor is one or an error.
func FuzzMCP(f *testing.F) {
	f.Add([]byte(`{"content":[{"type":"text","text":"a"},{"type":"image","data":"AA==","mimeType":"x/y"}],"structuredContent":{"a":1}}`))
	f.Add([]byte(`{"content":[{"resource":{"uri":"a","blob":"AAAA"}}],"isError":true}`))
	f.Add([]byte(`{"tools":[{"name":"a","inputSchema":{},"annotations":{"x":1}}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := newCall(t.Context(), &Tool{limits: DefaultLimits(), log: new(logs).logger()}, nil)
		defer c.stop(nil)
		res, err := c.mcpResult(b)
		switch _, known := errors.AsType[*fault.Error](err); {
		case err != nil && !known:
			t.Errorf("error %v of no kind", err)
		case err == nil && !json.Valid(res.JSON):
			t.Errorf("result %q", res.JSON)
		}
		d, err := mcpDescriptor(b)
		if err == nil && !json.Valid(d) {
			t.Errorf("descriptor %q", d)
		}
	})
}
