package wasmtools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/secret"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/wasmtools/module"
	enc "github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
)

// each runs a test with the probe as a reactor and as a command.
func each(t *testing.T, s Spec, f func(t *testing.T, tl *Tool)) {
	t.Helper()
	r := open(t, Options{})
	for name, wasm := range map[string][]byte{"reactor": built.reactor, "command": built.command} {
		t.Run(name, func(t *testing.T) {
			s := s
			s.Optional = true
			f(t, bind(t, r, wasm, s))
		})
	}
}

// logs collects log records as text.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logs) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// wantFault holds an error against kind and text, and against what must not be in it.
func wantFault(t *testing.T, err error, k fault.Kind, text string) {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Kind != k || !strings.Contains(f.Message, text) {
		t.Errorf("got %v (%s); want %s: …%s…", err, fault.KindOf(err), k, text)
	}
	for _, leak := range []string{"/work", "/root", "/tmp", "goroutine", ".go:", "wazero"} {
		if strings.Contains(fault.Message(err), leak) {
			t.Errorf("the message has %q: %s", leak, fault.Message(err))
		}
	}
}

func TestResults(t *testing.T) {
	each(t, Spec{}, func(t *testing.T, tl *Tool) {
		for _, v := range []string{`""`, `false`, `0`, `null`, `[]`, `{}`, `{"b":1,"a":[1.50,9007199254740993]}`, `"é😀<&>"`, `1e400`} {
			got, err := invoke(t.Context(), t, tl, `{"do":"echo","value":`+v+`}`)
			if err != nil || got != v {
				t.Errorf("echo of %s: %s, %v", v, got, err)
			}
		}
	})
}

func TestValue(t *testing.T) {
	for in, want := range map[string]string{
		"":                 `""`,
		"\n":               `"\n"`,
		"plain text\n":     `"plain text\n"`,
		" {\"a\":1} \n":    `{"a":1}`,
		"12 apples":        `"12 apples"`,
		"{\"a\":1}{}":      `"{\"a\":1}{}"`,
		"\xff\"":           `"` + "\ufffd" + `\""`,
		"\"a\xffb\"":       `"a` + "\ufffd" + `b"`,
		"NaN":              `"NaN"`,
		"9007199254740993": `9007199254740993`,
	} {
		if got := string(value([]byte(in)).JSON); got != want {
			t.Errorf("value of %q: %s; want %s", in, got, want)
		}
	}
}

func TestErrors(t *testing.T) {
	each(t, Spec{}, func(t *testing.T, tl *Tool) {
		_, err := invoke(t.Context(), t, tl, `{"do":"fail","text":"city: unknown\nTry Oslo."}`)
		wantFault(t, err, fault.Invalid, "city: unknown\nTry Oslo.")
		_, err = invoke(t.Context(), t, tl, `{"do":"fail","text":"`+strings.Repeat("é", 3000)+`"}`)
		wantFault(t, err, fault.Invalid, "éé")
		_, err = invoke(t.Context(), t, tl, `{"do":"fail","text":""}`)
		wantFault(t, err, fault.Invalid, "the tool")
		_, err = invoke(t.Context(), t, tl, "") // no arguments are no malformed ones
		wantFault(t, err, fault.Invalid, `cannot do ""`)
		_, err = invoke(t.Context(), t, tl, `{"do":5}`)
		wantFault(t, err, fault.Invalid, "the arguments do not fit")
	})
}

// TestCrashes: a guest that ends itself, in every way, is an error of that call.
func TestCrashes(t *testing.T) {
	r := open(t, Options{})
	command, reactor := bind(t, r, built.command, Spec{Optional: true}), bind(t, r, built.reactor, Spec{Optional: true})
	for _, c := range []struct {
		args, command, reactor string
		kind                   fault.Kind // of the command
	}{
		{`{"do":"stderr","text":"disk full"}`, "disk full", "exit code 3: disk full", fault.Invalid},
		{`{"do":"exit","n":4}`, "exit code 4", "exit code 4", fault.Invalid},
		{`{"do":"panic","text":"boom"}`, "panic: boom", "hermes_call returned 2", fault.Invalid},
		{`{"do":"goexit","text":"boom"}`, "panic: boom", "panic: boom", fault.Invalid},
	} {
		_, err := invoke(t.Context(), t, command, c.args)
		wantFault(t, err, c.kind, c.command)
		_, err = invoke(t.Context(), t, reactor, c.args)
		wantFault(t, err, fault.Internal, c.reactor)
	}
	// proc_exit(0) is success for a command, and no answer from a reactor.
	if got, err := invoke(t.Context(), t, command, `{"do":"exit","n":0}`); got != `""` || err != nil {
		t.Errorf("exit with 0: %s, %v", got, err)
	}
	_, err := invoke(t.Context(), t, reactor, `{"do":"exit","n":0}`)
	wantFault(t, err, fault.Internal, "exit code 0")
}

func TestIsolationBetweenCalls(t *testing.T) {
	each(t, Spec{}, func(t *testing.T, tl *Tool) {
		for range 3 {
			if got, err := invoke(t.Context(), t, tl, `{"do":"count"}`); got != "1" || err != nil {
				t.Fatalf("count: %s, %v", got, err)
			}
		}
	})
}

func TestCallInput(t *testing.T) {
	tl := bind(t, open(t, Options{}), built.reactor, Spec{Optional: true})
	got, err := invoke(t.Context(), t, tl, `{"do":"call"}`)
	want := `{"id":"call-1","agent":"a","session":"s","run":"r","deadline_ms":0,"idempotency_key":"r/1"}`
	if got != want || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	got, err = invoke(ctx, t, tl, `{"do":"call"}`)
	var c struct {
		DeadlineMS int64 `json:"deadline_ms"`
	}
	if json.Unmarshal([]byte(got), &c) != nil || c.DeadlineMS < 1 || c.DeadlineMS > 3_600_000 {
		t.Errorf("deadline: %s, %v", got, err)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("HOST_SECRET", "leaked")
	each(t, Spec{Name: "renamed", InModule: "inner", Env: map[string]secret.Value{"UNITS": secret.New("metric"), "EMPTY": secret.New("")}}, func(t *testing.T, tl *Tool) {
		got, err := invoke(t.Context(), t, tl, `{"do":"env"}`)
		want := `["EMPTY=","HERMES_ABI=1","HERMES_CALL_ID=call-1","HERMES_TOOL=inner","UNITS=metric"]`
		if tl.report.ABI == module.Reactor { // it may keep its environment from call to call
			want = `["EMPTY=","HERMES_ABI=1","HERMES_TOOL=inner","UNITS=metric"]`
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Error(diff, err)
		}
		got, err = invoke(t.Context(), t, tl, `{"do":"args"}`)
		if got != `["inner"]` || err != nil {
			t.Errorf("argv: %s, %v", got, err)
		}
	})
}

func TestClocksAndRandomAreReal(t *testing.T) {
	each(t, Spec{}, func(t *testing.T, tl *Tool) {
		type real struct {
			Time int64
			Rand string
		}
		var a, b real
		before := time.Now().UnixMilli()
		for _, v := range []*real{&a, &b} {
			got, err := invoke(t.Context(), t, tl, `{"do":"real"}`)
			if err != nil || json.Unmarshal([]byte(got), v) != nil {
				t.Fatal(got, err)
			}
		}
		if a.Rand == b.Rand || a.Time < before || b.Time > time.Now().UnixMilli() {
			t.Errorf("%+v %+v", a, b)
		}
	})
}

// TestDeadlines: whatever a guest does, its call ends with its context.
func TestDeadlines(t *testing.T) {
	cause := errors.New("the user went away")
	each(t, Spec{Limits: Limits{Memory: 256 << 20}}, func(t *testing.T, tl *Tool) {
		for _, do := range []string{`{"do":"loop"}`, `{"do":"sleep","n":3600000}`} {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			_, err := invoke(ctx, t, tl, do)
			cancel()
			wantFault(t, err, fault.Timeout, "ran out")

			ctx, stop := context.WithCancelCause(t.Context())
			time.AfterFunc(50*time.Millisecond, func() { stop(cause) })
			_, err = invoke(ctx, t, tl, do)
			wantFault(t, err, fault.Canceled, "canceled")
			if !errors.Is(err, cause) {
				t.Errorf("the cause is lost: %v", err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := invoke(ctx, t, tl, `{"do":"echo","value":1}`)
		wantFault(t, err, fault.Canceled, "canceled")
	})
}

// TestCallsWithoutLoops: calls that call end with their context too, although the engine
// looks at it in loops only.
func TestCallsWithoutLoops(t *testing.T) {
	chain := []enc.Func{{Export: "_start", Body: slices.Concat(enc.Call(1), enc.Call(1))}}
	for i := range 60 {
		chain = append(chain, enc.Func{Body: slices.Concat(enc.Call(i+2), enc.Call(i+2))})
	}
	chain = append(chain, enc.Func{})
	// f(n) { if n { f(n-1); f(n-1) } }, as function i
	twice := func(i int) enc.Func {
		less := slices.Concat([]byte{0x20, 0}, enc.Const(1), []byte{0x6b, 0x10}, enc.U(i))
		return enc.Func{Params: []byte{enc.I32}, Body: slices.Concat([]byte{0x20, 0, 0x04, 0x40}, less, less, []byte{0x0b})}
	}
	// A global that is 7, or the guest traps.
	seven := slices.Concat([]byte{0x23, 0}, enc.Const(7), []byte{0x47, 0x04, 0x40, enc.Unreachable, 0x0b})
	for name, m := range map[string]enc.Module{
		"a chain":     {Funcs: chain},
		"a recursion": {Funcs: []enc.Func{{Export: "_start", Body: enc.Call(1, 80)}, twice(1)}},
		"beside imports, locals and globals": {
			Imports: []enc.Import{{Module: "wasi_snapshot_preview1", Name: "sched_yield", Results: []byte{enc.I32}}},
			Globals: enc.Vec(slices.Concat([]byte{enc.I32, 0}, enc.Const(7), []byte{0x0b})),
			Funcs: []enc.Func{
				{Export: "_start", Locals: enc.Vec(append(enc.U(300), enc.I32), append(enc.U(2), 0x7e)), Body: slices.Concat(seven, enc.Call(2, 80))},
				twice(2),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m.Pages = 1
			tl := bindNow(t, m)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err := invoke(ctx, t, tl, `{}`)
			wantFault(t, err, fault.Timeout, "ran out")
		})
	}
}

// TestSuccessAfterTheEnd: a guest that swallows the end of its sleep and answers has not
// succeeded.
func TestSuccessAfterTheEnd(t *testing.T) {
	// poll_oneoff on a clock, then return: no loop that would notice.
	m := enc.Module{
		Imports: []enc.Import{{Module: "wasi_snapshot_preview1", Name: "poll_oneoff", Params: []byte{enc.I32, enc.I32, enc.I32, enc.I32}, Results: []byte{enc.I32}}},
		Funcs:   []enc.Func{{Export: "_start", Body: append(enc.Call(0, 0, 512, 1, 1024), enc.Drop)}},
		Pages:   1,
		// subscription: userdata, tag 0 (clock), id 1 (monotonic), timeout one hour.
		Data: strings.Repeat("\x00", 16) + "\x01" + strings.Repeat("\x00", 7) + "\x00\xa0\xb8\x30\x46\x03\x00\x00" + strings.Repeat("\x00", 16),
	}
	tl := bindNow(t, m)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := invoke(ctx, t, tl, `{}`)
	wantFault(t, err, fault.Timeout, "ran out")
}

// TestLoopsOutsideOfTheEntry: the start section and _initialize are calls too.
func TestLoopsOutsideOfTheEntry(t *testing.T) {
	start := 1
	for name, m := range map[string]enc.Module{
		"start section": {Funcs: []enc.Func{{Export: "_start"}, {Body: enc.Forever()}}, Start: &start},
		"_initialize": {Funcs: []enc.Func{
			{Export: "hermes_abi_v1"}, {Export: "_initialize", Body: enc.Forever()},
			{Export: "hermes_call", Results: []byte{enc.I32}, Body: enc.Const(0)},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			tl := bindNow(t, m)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err := invoke(ctx, t, tl, `{}`)
			wantFault(t, err, fault.Timeout, "ran out")
		})
	}
}

// bindNow binds a module that would hang when asked to describe itself.
func bindNow(t *testing.T, m enc.Module) *Tool {
	t.Helper()
	m.Extra = append(m.Extra, enc.Custom("hermes.tool", []byte(`{"abi":1,"name":"x","tools":[{"name":"x"}]}`)))
	return bind(t, open(t, Options{}), m.Bytes(), Spec{})
}

// refusing is a host whose calls may not run any more.
type refusing struct{ tool.Host }

func (refusing) Allowed() error { return fault.New(fault.Unavailable, "removed in generation 2") }

// TestTakenAway: no guest begins for a call that was taken away while it waited for a slot.
func TestTakenAway(t *testing.T) {
	each(t, Spec{}, func(t *testing.T, tl *Tool) {
		made := tl.Stats().Made
		_, err := tl.Call(t.Context(), &tool.Call{ID: "c", Tool: "x", Arguments: []byte(`{"do":"echo","value":1}`), Host: refusing{}})
		wantFault(t, err, fault.Unavailable, "removed in generation 2")
		if n := tl.Stats().Made; n != made {
			t.Errorf("%d instances were made", n-made)
		}
	})
}

func TestInputLimit(t *testing.T) {
	each(t, Spec{Limits: Limits{Input: 100}}, func(t *testing.T, tl *Tool) {
		if _, err := invoke(t.Context(), t, tl, `{"do":"echo","value":1}`); err != nil {
			t.Error(err)
		}
		_, err := invoke(t.Context(), t, tl, `{"do":"echo","value":"`+strings.Repeat("x", 100)+`"}`)
		wantFault(t, err, fault.TooLarge, "accepts 100 bytes")
	})
}

// TestFloods: what a guest writes without end, ends the call at the limit.
func TestFloods(t *testing.T) {
	l := Limits{Output: 100 << 10, Logs: 50 << 10}
	each(t, Spec{Limits: l}, func(t *testing.T, tl *Tool) {
		_, err := invoke(t.Context(), t, tl, `{"do":"logs"}`)
		wantFault(t, err, fault.TooLarge, "50 KiB of logs")
		_, err = invoke(t.Context(), t, tl, `{"do":"output","n":200000}`)
		wantFault(t, err, fault.TooLarge, "100 KiB of output")
		if got, err := invoke(t.Context(), t, tl, `{"do":"output","n":90000}`); len(got) != 90002 || err != nil {
			t.Errorf("output below the limit: %d, %v", len(got), err)
		}
		_, err = invoke(t.Context(), t, tl, `{"do":"flood"}`)
		wantFault(t, err, fault.TooLarge, "KiB of ")
	})
}

func TestMemoryLimit(t *testing.T) {
	each(t, Spec{Limits: Limits{Memory: 16 << 20}}, func(t *testing.T, tl *Tool) {
		_, err := invoke(t.Context(), t, tl, `{"do":"grow"}`)
		if !strings.Contains(fault.Message(err), "more memory than its limit of 16 MiB") {
			t.Error(err)
		}
		if _, err := invoke(t.Context(), t, tl, `{"do":"echo","value":1}`); err != nil {
			t.Errorf("the next call: %v", err)
		}
	})
}

// TestGrowth: two declarations of one module have limits of their own.
func TestGrowth(t *testing.T) {
	// hermes_call grows by 100 pages and returns 0, or the error code 1 if it cannot.
	m := enc.Module{Funcs: []enc.Func{
		{Export: "hermes_abi_v1"},
		{Export: "hermes_call", Results: []byte{enc.I32}, Body: append(append(enc.Const(100), 0x40, 0), append(enc.Const(-1), 0x46)...)},
	}, Pages: 1}
	r := open(t, Options{})
	low, high := bind(t, r, m.Bytes(), Spec{Limits: Limits{Memory: 100 * 65536}}), bind(t, r, m.Bytes(), Spec{Limits: Limits{Memory: 101 * 65536}})
	if low.module != high.module {
		t.Error("equal bytes were compiled twice")
	}
	if _, err := invoke(t.Context(), t, high, `{}`); err != nil {
		t.Error(err)
	}
	if _, err := invoke(t.Context(), t, low, `{}`); err == nil {
		t.Error("grew beyond the limit")
	}
}

// TestPointers: no pointer, length or handle of a guest reaches outside of its memory.
func TestPointers(t *testing.T) {
	i32 := func(n int) []byte { return bytes.Repeat([]byte{enc.I32}, n) }
	r := open(t, Options{})
	for _, f := range []struct {
		module, name string
		params       int
		result       bool
		args         func(ptr, n int32) []int32
	}{
		{"hermes", "input_read", 3, true, func(p, n int32) []int32 { return []int32{p, 0, n} }},
		{"hermes", "output_write", 2, true, func(p, n int32) []int32 { return []int32{p, n} }},
		{"hermes", "error_set", 2, false, func(p, n int32) []int32 { return []int32{p, n} }},
		{"hermes", "log", 3, false, func(p, n int32) []int32 { return []int32{0, p, n} }},
		{"hermes_http", "fetch", 2, true, func(p, n int32) []int32 { return []int32{p, n} }},
	} {
		for _, at := range [][2]int32{{65536, 1}, {0, 65537}, {-1, 1}, {-1, -1}, {1, -1}, {-2147483648, -2147483648}, {65535, 2}} {
			im := enc.Import{Module: f.module, Name: f.name, Params: i32(f.params)}
			body := enc.Call(0, f.args(at[0], at[1])...)
			if f.result {
				im.Results = i32(1)
				body = append(body, enc.Drop)
			}
			m := enc.Module{Imports: []enc.Import{im}, Funcs: []enc.Func{{Export: "hermes_abi_v1"},
				{Export: "hermes_call", Results: i32(1), Body: append(body, enc.Const(0)...)}}, Pages: 1}
			_, err := invoke(t.Context(), t, bind(t, r, m.Bytes(), Spec{Optional: true}), `{}`)
			wantFault(t, err, fault.Internal, "pointer outside of its memory")
		}
	}
}

// TestHandles: handles that were not given are errors to the guest, offsets beyond the
// end read nothing.
func TestHandles(t *testing.T) {
	i32 := func(n int) []byte { return bytes.Repeat([]byte{enc.I32}, n) }
	imports := []enc.Import{
		{Module: "hermes", Name: "result_len", Params: i32(1), Results: i32(1)},
		{Module: "hermes", Name: "result_read", Params: i32(4), Results: i32(1)},
		{Module: "hermes", Name: "result_close", Params: i32(1)},
		{Module: "hermes", Name: "input_read", Params: i32(3), Results: i32(1)},
	}
	r := open(t, Options{})
	for name, c := range map[string]struct {
		body []byte
		want string
	}{
		"length of nothing":  {enc.Call(0, 7), "returned -8"},
		"read of nothing":    {enc.Call(1, 0, 0, 0, 0), "returned -8"},
		"negative handle":    {enc.Call(0, -1), "returned -8"},
		"close of nothing":   {append(enc.Call(2, 5), enc.Const(9)...), "returned 9"},
		"offset at the end":  {enc.Call(3, 0, 1<<30, 10), ""},
		"offset far outside": {enc.Call(3, 0, -1, 10), ""},
	} {
		m := enc.Module{Imports: imports, Funcs: []enc.Func{{Export: "hermes_abi_v1"},
			{Export: "hermes_call", Results: i32(1), Body: c.body}}, Pages: 1}
		_, err := invoke(t.Context(), t, bind(t, r, m.Bytes(), Spec{}), `{}`)
		if c.want == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.want != "" {
			wantFault(t, err, fault.Internal, c.want)
		}
	}
}

// TestTraps: what a trap says, without a stack.
func TestTraps(t *testing.T) {
	r := open(t, Options{})
	for name, c := range map[string]struct {
		body []byte
		want string
	}{
		"unreachable":   {[]byte{enc.Unreachable}, "unreachable"},
		"out of bounds": {append(enc.Const(-1), 0x28, 0, 0, enc.Drop), "out of bounds memory access"},
		"division":      {append(append(enc.Const(1), enc.Const(0)...), 0x6d, enc.Drop), "integer divide by zero"},
		"recursion":     {enc.Call(0), "stack overflow"},
	} {
		t.Run(name, func(t *testing.T) {
			var l logs
			rt := r
			if name == "unreachable" {
				rt = open(t, Options{Log: l.logger()})
			}
			tl := bind(t, rt, enc.Module{Funcs: []enc.Func{{Export: "_start", Body: c.body}}, Pages: 1}.Bytes(), Spec{})
			_, err := invoke(t.Context(), t, tl, `{}`)
			wantFault(t, err, fault.Internal, c.want)
			if name == "unreachable" && !strings.Contains(l.String(), "wasm stack trace") {
				t.Errorf("the stack is not in the log: %s", l.String())
			}
		})
	}
}

// TestStacksAreGivenBack: guests whose stacks overflowed leave nothing behind.
func TestStacksAreGivenBack(t *testing.T) {
	tl := bind(t, open(t, Options{}), enc.Module{Funcs: []enc.Func{{Export: "_start", Body: enc.Call(0)}}, Pages: 1}.Bytes(), Spec{})
	held := func() int64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapSys - m.HeapReleased)
	}
	debug.FreeOSMemory()
	before := held()
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			_, err := invoke(t.Context(), t, tl, `{}`)
			wantFault(t, err, fault.Internal, "stack overflow")
		})
	}
	calls.Wait()
	if more := held() - before; more > 48<<20 {
		t.Errorf("%d MiB more than before", more>>20)
	}
}

func TestGuestLogs(t *testing.T) {
	var l logs
	tl := bind(t, open(t, Options{Log: l.logger()}), built.reactor, Spec{Optional: true, Limits: Limits{Logs: 1000}})
	if _, err := invoke(t.Context(), t, tl, `{"do":"panic","text":"boom"}`); err == nil {
		t.Fatal("no error")
	}
	if s := l.String(); !strings.Contains(s, `level=ERROR msg="guest log" tool=probe call=call-1 run=r generation=3 text="panic: boom`) {
		t.Error(s)
	}
}

// TestTablesAreCapped: a table without a maximum cannot eat the host's memory.
func TestTablesAreCapped(t *testing.T) {
	// ref.null func; i32.const 400000000; table.grow 0; -1 means refused.
	grow := append(append([]byte{0xd0, 0x70}, enc.Const(400_000_000)...), 0xfc, 0x0f, 0)
	m := enc.Module{Tables: enc.Vec([]byte{0x70, 0, 0}), Funcs: []enc.Func{{Export: "hermes_abi_v1"},
		{Export: "hermes_call", Results: []byte{enc.I32}, Body: append(append(grow, enc.Const(-1)...), 0x47)}}}
	if _, err := invoke(t.Context(), t, bind(t, open(t, Options{}), m.Bytes(), Spec{}), `{}`); err != nil {
		t.Errorf("the table grew: %v", err)
	}
}

// TestTableLimit: a declaration is refused for a module whose tables can become larger than
// it allows, which table.grow alone makes them.
func TestTableLimit(t *testing.T) {
	grow := slices.Concat([]byte{0xd0, 0x70}, enc.Const(1), []byte{0xfc, 0x0f, 0, enc.Drop})
	r := open(t, Options{})
	for name, c := range map[string]struct {
		table, body []byte
		most        int
	}{
		"no maximum":      {[]byte{0x70, 0, 5}, grow, 100_000},
		"with a maximum":  {[]byte{0x70, 1, 5, 9}, grow, 9},
		"does not grow":   {[]byte{0x70, 0, 5}, nil, 5},
		"maximum unused":  {[]byte{0x70, 1, 5, 9}, nil, 5},
		"beyond all caps": {slices.Concat([]byte{0x70, 1, 5}, enc.U(1<<31)), grow, 100_000},
	} {
		wasm := enc.Module{Tables: enc.Vec(c.table), Funcs: []enc.Func{{Export: "_start", Body: c.body}}}.Bytes()
		rep, err := r.Inspect(wasm)
		if err != nil || rep.TableMax != c.most {
			t.Errorf("%s: can have %d elements, %v", name, rep.TableMax, err)
		}
		if err := r.Check(rep, Spec{Limits: Limits{Table: c.most}}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var bad *BindError
		if err := r.Check(rep, Spec{Limits: Limits{Table: c.most - 1}}); !errors.As(err, &bad) || bad.Attr != "limits.table" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCallAfterClose(t *testing.T) {
	r := open(t, Options{})
	m, err := r.Compile(t.Context(), built.command)
	if err != nil {
		t.Fatal(err)
	}
	tl, err := m.Bind(Spec{Name: "x", Optional: true})
	if err != nil {
		t.Fatal(err)
	}
	m.Release()
	if _, err := invoke(t.Context(), t, tl, `{"do":"count"}`); err != nil {
		t.Error(err)
	}
	if err := errors.Join(tl.Close(), tl.Close()); err != nil {
		t.Error(err)
	}
	_, err = tl.Call(t.Context(), &tool.Call{Arguments: json.RawMessage(`{}`)})
	wantFault(t, err, fault.Unavailable, "removed")
}
