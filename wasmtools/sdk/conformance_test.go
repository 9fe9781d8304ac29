package sdk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/egress"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/store/sqlite"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/wasmtools"
	"github.com/hermes-runtime/hermes/wasmtools/module"
	"github.com/hermes-runtime/hermes/wasmtools/sdk"
	"github.com/hermes-runtime/hermes/wasmtools/sdk/sdktest"
)

// guests runs a test with the conformance module of each language. The modules have the
// same tools: what they answer must be the same.
func guests(t *testing.T, f func(t *testing.T, g *guest)) {
	t.Helper()
	if testing.Short() {
		t.Skip("compiling modules under the race detector takes minutes")
	}
	for _, l := range sdk.Languages() {
		if l == sdk.Native {
			continue
		}
		t.Run(string(l), func(t *testing.T) { f(t, open(t, l)) })
	}
}

// guest is one compiled conformance module.
type guest struct {
	language sdk.Language
	module   *wasmtools.Module
	log      *bytes.Buffer
	host     host
}

// host runs the calls that guests make: a tool that doubles a text, and reports.
type host struct{ reports []tool.Progress }

func (h *host) Invoke(_ context.Context, in tool.Invocation) (tool.Result, error) {
	var args struct{ Text string }
	if err := json.Unmarshal(in.Arguments, &args); err != nil {
		return tool.Result{}, err
	}
	if args.Text == "" {
		return tool.Result{}, fault.New(fault.Invalid, "text: %q is too short", args.Text)
	}
	return tool.JSON([]any{string(in.Tool), args.Text + args.Text, json.Number("1.50")})
}

func (h *host) Progress(_ context.Context, p tool.Progress) { h.reports = append(h.reports, p) }

func open(t *testing.T, l sdk.Language) *guest {
	t.Helper()
	g := &guest{language: l, log: &bytes.Buffer{}}
	g.compile(t, build(t, l))
	return g
}

// compile takes the module into a runtime that ends with the test.
func (g *guest) compile(t *testing.T, wasm []byte) {
	t.Helper()
	guard := egress.New(egress.Options{})
	t.Cleanup(guard.Close)
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "state.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	rt, err := wasmtools.Open(wasmtools.Options{
		CacheDir: cache(t), CompileTimeout: time.Hour, Egress: guard, KV: db,
		Log: slog.New(slog.NewTextHandler(g.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if g.module, err = rt.Compile(t.Context(), wasm); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.module.Release)
}

// shared holds what the tests of this package share, so that each module is built and
// compiled once. It is set by TestMain.
var shared struct{ dir string }

func cache(t *testing.T) string {
	t.Helper()
	return filepath.Join(shared.dir, "cache")
}

// build gives the conformance module in a language.
func build(t *testing.T, l sdk.Language) []byte {
	t.Helper()
	built := filepath.Join(shared.dir, string(l)+".wasm")
	if wasm, err := os.ReadFile(built); err == nil {
		return wasm
	}
	source, err := os.ReadFile(filepath.Join("testdata/conformance", sdktest.Source(l)))
	if err != nil {
		t.Fatal(err)
	}
	wasm := sdktest.Build(t, l, string(source))
	if err := os.WriteFile(built, wasm, 0o600); err != nil {
		t.Fatal(err)
	}
	return wasm
}

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "sdk")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		shared.dir = dir
		return m.Run()
	}())
}

// call calls one tool of the module with what spec grants.
func (g *guest) call(t *testing.T, name string, args any, spec wasmtools.Spec) (string, error) {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(args); err != nil {
		t.Fatal(err)
	}
	spec.Name, spec.InModule, spec.Optional = "conformance", name, true
	tl, err := g.module.Bind(spec)
	if err != nil {
		t.Fatal(err)
	}
	defer tl.Close()
	res, err := tl.Call(t.Context(), &tool.Call{
		ID: "call-1", Tool: "conformance", Arguments: b.Bytes(), Agent: "an agent", Session: "s", Run: "r", IdempotencyKey: "r/1",
		Principal: principal.Local(), Room: 1, Host: &g.host,
	})
	return string(res.JSON), err
}

type object = map[string]any

func TestDescribe(t *testing.T) {
	guests(t, func(t *testing.T, g *guest) {
		rep := g.module.Report()
		if rep.ABI != module.Reactor || rep.DescriptorErr != nil || rep.Descriptor == nil {
			t.Fatalf("abi %s, descriptor %v, %v", rep.ABI, rep.Descriptor, rep.DescriptorErr)
		}
		want := []module.Capability{module.HTTP, module.KV, module.Progress, module.Tools}
		if diff := cmp.Diff(want, rep.Capabilities); diff != "" {
			t.Error(diff)
		}
		d := rep.Descriptor
		if d.Name != "conformance" || d.Version != "1.2.3" || len(d.Tools) != 11 || d.Tools[0].Description != "The tool echo." {
			t.Errorf("descriptor %+v", d)
		}
		if string(d.Tools[0].InputSchema) != `{"type":"object"}` {
			t.Errorf("schema %s", d.Tools[0].InputSchema)
		}
		if len(d.Wants) != 1 || d.Wants[0].Capability != module.HTTP || cmp.Diff([]string{"https://a.example"}, d.Wants[0].Hosts) != "" {
			t.Errorf("wants %+v", d.Wants)
		}
	})
}

func TestCall(t *testing.T) {
	guests(t, func(t *testing.T, g *guest) {
		got, err := g.call(t, "info", object{}, wasmtools.Spec{})
		if err != nil || !same(t, got, `{"id":"call-1","agent":"an agent","key":"r/1"}`) {
			t.Errorf("info: %s, %v", got, err)
		}
		for _, text := range []string{"no such city: \"Ås\"\n", "100 %s of it"} {
			_, err = g.call(t, "fail", object{"text": text}, wasmtools.Spec{})
			if fault.KindOf(err) != fault.Invalid || fault.Message(err) != strings.TrimSpace(text) {
				t.Errorf("fail: %v", err)
			}
		}
		if got, err = g.call(t, "log", object{"text": "written by the guest"}, wasmtools.Spec{}); err != nil || got != "null" {
			t.Errorf("log: %s, %v", got, err)
		}
		if _, err = g.call(t, "crash", object{}, wasmtools.Spec{}); fault.KindOf(err) != fault.Internal {
			t.Errorf("crash: %v", err)
		}
		if _, err = g.call(t, "nothing", object{}, wasmtools.Spec{}); fault.KindOf(err) != fault.Invalid {
			t.Errorf("an unknown tool: %v", err)
		}
		for _, text := range []string{`level=WARN msg="guest log"`, "written by the guest", "crashed on purpose"} {
			if !strings.Contains(g.log.String(), text) {
				t.Errorf("the log does not say %q:\n%s", text, g.log)
			}
		}
		_, err = g.call(t, "echo", object{"v": strings.Repeat("x", 100)}, wasmtools.Spec{Limits: wasmtools.Limits{Output: 50}})
		if fault.KindOf(err) != fault.TooLarge {
			t.Errorf("a result over its limit: %v", err)
		}
	})
}

func TestEcho(t *testing.T) {
	values := []string{
		`null`, `true`, `0`, `-0`, `12345678901234567890.123456789e-7`, `""`, `"\"\\\/\b\f\n\r\t\u0000\u001f\u007f"`,
		`"åß∂ 😀 \ud83d\ude00 \ufeff"`, `[]`, `{}`, `[[],{},[{}]]`, `{"":"","a\u0062":1,"\"":{"\u00e5":[1,"2",null,false]}}`,
		`{"a":1,"a":2}`, strings.Repeat("[", 400) + strings.Repeat("]", 400), strings.Repeat(`{"a":`, 400) + "1" + strings.Repeat("}", 400),
	}
	guests(t, func(t *testing.T, g *guest) {
		for _, v := range values {
			got, err := g.call(t, "echo", json.RawMessage(`{"v":`+v+`}`), wasmtools.Spec{})
			if err != nil || !same(t, got, v) {
				t.Errorf("%.100s: got %.100s, %v", v, got, err)
			}
		}
		large := make([]string, 20000)
		for i := range large {
			large[i] = fmt.Sprintf("%d å \" \x01", i)
		}
		want, err := json.Marshal(large)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := g.call(t, "echo", object{"v": large}, wasmtools.Spec{}); err != nil || !same(t, got, string(want)) {
			t.Errorf("a large value: %d bytes, %v", len(got), err)
		}
	})
}

// hostile are texts that a reader could get wrong, right ones and wrong ones.
var hostile = []string{
	``, ` `, `nul`, `nulll`, `True`, `'a'`, `"a`, `"`, `"\`, `"\u`, `"\u12`, `"\u12g4"`, `"\x"`, `"\U0041"`, "\"\x01\"", "\"\n\"", "\"\x7f\"",
	`-`, `+1`, `01`, `-01`, `1.`, `.1`, `1.e1`, `1e`, `1e+`, `1e+1`, `0x1`, `1_0`, `NaN`, `Infinity`, `-Infinity`, `1E400`, `-0.0e-0`,
	`[`, `]`, `[1`, `[1,`, `[1,]`, `[,1]`, `[1 2]`, `[1}`, `{`, `}`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{,}`, `{a:1}`, `{"a" 1}`,
	`{"a":1 "b":2}`, `{1:2}`, `{"a":1]`, `{"a":}`, `[[]`, `[]]`, `{}{}`, `1 2`, `null,`, "\u00a01", "\ufeff1", `[1]//`, `/**/1`,
	` [ 1 , 2 ] `, "\t{\r\n\"a\" : [ ] }\n", `"\ud800"`, `"\udc00"`, `"\ud800\ud800\udc00"`, `"\ud800x"`, `"\ud800\n"`, `"\ud800\u0041"`, `"\uD83D\uDE00"`,
	`"\u0000"`, `{"\u0000":1}`, `"\/"`, "\"\u2028\"", "\"\x00\"", "[1]\x00", "\x00", "1\x00", `{"a":{"a":{"a":[[[{}]]]}}}`, `[1,[2,[3,[4,{"a":[]}]]]]`,
	`"a"b`, `""""`, `[""`, `["\"]`, `[tru]`, `[true`, `-a`, `--1`, `1-1`, `[-]`, `{"a":-}`,
}

// TestReader holds the readers of JSON against that of Go's standard library, on hostile texts
// and on mutations of them.
func TestReader(t *testing.T) {
	texts := append([]string{}, hostile...)
	r := rand.New(rand.NewPCG(1, 2)) // the same texts every time
	alphabet := []rune("{}[]\",:\\u0d8eE+-. tfn\x00å😀")
	for range 4000 {
		text := []rune(hostile[r.IntN(len(hostile))])
		for range 1 + r.IntN(3) {
			i := r.IntN(len(text) + 1)
			switch c := alphabet[r.IntN(len(alphabet))]; {
			case r.IntN(2) == 0 || i == len(text):
				text = append(text[:i:i], append([]rune{c}, text[i:]...)...)
			case r.IntN(2) == 0:
				text[i] = c
			default:
				text = append(text[:i:i], text[i+1:]...)
			}
		}
		texts = append(texts, string(text))
	}
	guests(t, func(t *testing.T, g *guest) {
		out, err := g.call(t, "parse", object{"texts": texts}, wasmtools.Spec{})
		if err != nil {
			t.Fatal(err)
		}
		var got []struct {
			OK    bool            `json:"ok"`
			Value json.RawMessage `json:"value"`
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil || len(got) != len(texts) {
			t.Fatalf("%d of %d answers, %v", len(got), len(texts), err)
		}
		valid := 0
		for i, text := range texts {
			if want := json.Valid([]byte(text)); got[i].OK != want {
				t.Errorf("%q: accepted %v, want %v", text, got[i].OK, want)
			} else if want {
				valid++
				if !same(t, string(got[i].Value), text) {
					t.Errorf("%q: read as %s", text, got[i].Value)
				}
			}
		}
		t.Logf("%d texts, %d of them right", len(texts), valid)
	})
}

// TestDepth: how deep a text may go is bounded, on either side of the bound.
func TestDepth(t *testing.T) {
	nested := func(n int, open, closed string) string { return strings.Repeat(open, n) + strings.Repeat(closed, n) }
	guests(t, func(t *testing.T, g *guest) {
		if g.language == sdk.Go { // the standard library has a bound of its own
			return
		}
		for text, want := range map[string]bool{
			nested(509, "[", "]"): true, nested(513, "[", "]"): false, nested(512, `{"a":[`, "]}"): false,
			nested(254, `{"a":[`, "]}"): true, strings.Repeat("[", 100000): false, strings.Repeat(`{"a":`, 50000): false,
		} {
			got, err := g.call(t, "parse", object{"texts": []string{text}}, wasmtools.Spec{})
			if err != nil || strings.HasPrefix(got, `[{"ok":true`) != want {
				t.Errorf("%.20s of %d bytes: %.50s, %v, want %v", text, len(text), got, err, want)
			}
		}
	})
}

func TestNumbers(t *testing.T) {
	numbers := []struct{ text, integer, double string }{
		{"0", "0", "0"},
		{"-0", "0", "0"},
		{"-1", "-1", "-1"},
		{"9007199254740993", "9007199254740993", "9007199254740992"},
		{"9223372036854775807", "9223372036854775807", "9223372036854775807"},
		{"9223372036854775808", "null", "9223372036854775808"},
		{"-9223372036854775808", "-9223372036854775808", "-9223372036854775808"},
		{"-9223372036854775809", "null", "-9223372036854775809"},
		{"123456789012345678901234567890", "null", "123456789012345678901234567890"},
		{"5.0", "5", "5"},
		{"1e3", "1000", "1000"},
		{"-2.5E1", "-25", "-25"},
		{"0.1", "null", "0.1"},
		{"2.5", "null", "2.5"},
		{"1e-7", "null", "1e-7"},
		{"1.7976931348623157e308", "null", "1.7976931348623157e308"},
		{"5e-324", "null", "5e-324"},
		{"1e400", "null", "null"},
		{"-1e400", "null", "null"},
	}
	list := make([]json.Number, 0, len(numbers))
	for _, n := range numbers {
		list = append(list, json.Number(n.text))
	}
	guests(t, func(t *testing.T, g *guest) {
		out, err := g.call(t, "numbers", object{"numbers": list}, wasmtools.Spec{})
		if err != nil {
			t.Fatal(err)
		}
		var got []struct{ Int, Double json.RawMessage }
		if err := json.Unmarshal([]byte(out), &got); err != nil || len(got) != len(numbers) {
			t.Fatalf("%s, %v", out, err)
		}
		for i, n := range numbers {
			if string(got[i].Int) != n.integer {
				t.Errorf("%s as an integer: %s, want %s", n.text, got[i].Int, n.integer)
			}
			if !equalDoubles(t, string(got[i].Double), n.double) {
				t.Errorf("%s: %s, want %s", n.text, got[i].Double, n.double)
			}
		}
	})
}

func equalDoubles(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y *float64
	if err := json.Unmarshal([]byte(a), &x); err != nil {
		t.Errorf("%s: %v", a, err)
		return false
	}
	if err := json.Unmarshal([]byte(b), &y); err != nil {
		t.Fatal(err)
	}
	return (x == nil) == (y == nil) && (x == nil || *x == *y)
}

func TestHTTP(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var b bytes.Buffer
		_, _ = b.ReadFrom(r.Body)
		w.Header().Set("Content-Type", "text/x-test")
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(w, "%s %s %s %s\xff", r.Method, r.URL.Path, r.Header.Get("X-Test"), &b)
	}))
	t.Cleanup(server.Close)
	guests(t, func(t *testing.T, g *guest) {
		spec := wasmtools.Spec{HTTP: []wasmtools.HTTPGrant{{Hosts: []string{server.URL}, Methods: []string{"PUT", "GET"}, AllowPrivate: true}}}
		for _, body := range []string{"", "b", "bo", "bod", "body \"å\""} {
			args := object{"url": server.URL + "/path", "method": "PUT", "headers": object{"X-Test": "yes"}, "text": body}
			got, err := g.call(t, "http", args, spec)
			want, _ := json.Marshal(object{"status": 418, "body": "PUT /path yes " + body + "\ufffd", "type": "text/x-test"})
			if err != nil || !same(t, got, string(want)) {
				t.Errorf("got %s, %v, want %s", got, err, want)
			}
		}
		got, err := g.call(t, "http", object{"url": "https://other.example/"}, spec)
		if err != nil || !strings.Contains(got, `"kind":"denied"`) {
			t.Errorf("a host that is not granted: %s, %v", got, err)
		}
	})
}

func TestKV(t *testing.T) {
	guests(t, func(t *testing.T, g *guest) {
		grant := &wasmtools.KVGrant{Namespace: "n", Mode: wasmtools.ReadWrite, Quota: 200}
		for _, c := range []struct{ args, want string }{
			{`{"op":"get","key":"k"}`, `{"found":false,"value":""}`},
			{`{"op":"put","key":"k","value":"\u0000 \"å\" 😀"}`, `{}`},
			{`{"op":"get","key":"k"}`, `{"found":true,"value":"\u0000 \"å\" 😀"}`},
			{`{"op":"put","key":"empty","value":""}`, `{}`},
			{`{"op":"get","key":"empty"}`, `{"found":true,"value":""}`},
			{`{"op":"put","key":"kå","value":"12"}`, `{}`},
			{`{"op":"list"}`, `{"keys":[{"key":"empty","size":0},{"key":"k","size":11},{"key":"kå","size":2}],"more":false}`},
			{`{"op":"list","prefix":"k","limit":1}`, `{"keys":[{"key":"k","size":11}],"more":true}`},
			{`{"op":"list","prefix":"k","after":"k","limit":1}`, `{"keys":[{"key":"kå","size":2}],"more":false}`},
			{`{"op":"list","prefix":"none"}`, `{"keys":[],"more":false}`},
			{`{"op":"delete","key":"k"}`, `{"found":true}`},
			{`{"op":"delete","key":"k"}`, `{"found":false}`},
		} {
			got, err := g.call(t, "kv", json.RawMessage(c.args), wasmtools.Spec{KV: grant})
			if err != nil || !same(t, got, c.want) {
				t.Errorf("%s: got %s, %v, want %s", c.args, got, err, c.want)
			}
		}
		for args, kind := range map[string]string{
			`{"op":"put","key":"large","value":"` + strings.Repeat("x", 300) + `"}`: "too_large", `{"op":"get","key":""}`: "invalid",
		} {
			if got, err := g.call(t, "kv", json.RawMessage(args), wasmtools.Spec{KV: grant}); err != nil || !strings.Contains(got, `"kind":"`+kind+`"`) {
				t.Errorf("%.40s: got %s, %v, want %s", args, got, err, kind)
			}
		}
		got, err := g.call(t, "kv", object{"op": "put", "key": "k", "value": "v"}, wasmtools.Spec{KV: &wasmtools.KVGrant{Namespace: "n"}})
		if err != nil || !strings.Contains(got, `"kind":"denied"`) {
			t.Errorf("writing with a grant to read: %s, %v", got, err)
		}
	})
}

func TestCallTool(t *testing.T) {
	guests(t, func(t *testing.T, g *guest) {
		spec := wasmtools.Spec{Tools: &wasmtools.ToolsGrant{Allow: []tool.Name{"double"}}}
		for _, c := range []struct{ tool, text, want string }{
			{"double", "å\"", `{"result":["double","å\"å\"",1.50]}`},
			{"double", "", `{"kind":"invalid","error":"text: \"\" is too short"}`},
			{"other", "x", `{"kind":"denied","error":"the tool \"other\" is not among those that this tool may call"}`},
		} {
			got, err := g.call(t, "tools", object{"tool": c.tool, "arguments": object{"text": c.text}}, spec)
			if err != nil || !same(t, got, c.want) {
				t.Errorf("%s: got %s, %v, want %s", c.tool, got, err, c.want)
			}
		}
	})
}

func TestProgress(t *testing.T) {
	guests(t, func(t *testing.T, g *guest) {
		got, err := g.call(t, "progress", object{"text": "half of \"it\"", "done": 1.5, "total": 3}, wasmtools.Spec{Progress: true})
		if err != nil || got != "{}" {
			t.Errorf("got %s, %v", got, err)
		}
		if diff := cmp.Diff([]tool.Progress{{Message: "half of \"it\"", Done: 1.5, Total: 3}}, g.host.reports); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestNotGranted: a capability without a grant is an error of the library, not a crash.
func TestNotGranted(t *testing.T) {
	guests(t, func(t *testing.T, g *guest) {
		for name, args := range map[string]object{
			"http": {"url": "https://a.example"}, "kv": {"op": "get", "key": "k"}, "tools": {"tool": "x", "arguments": object{}}, "progress": {"text": "half", "done": 1},
		} {
			got, err := g.call(t, name, args, wasmtools.Spec{})
			if err != nil || !strings.Contains(got, `"kind":"not_granted"`) {
				t.Errorf("%s: %s, %v", name, got, err)
			}
		}
	})
}

// same says whether two JSON texts have the same value; numbers by their text.
func same(t *testing.T, got, want string) bool {
	t.Helper()
	decode := func(text string) (v any) {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Errorf("%.100s: %v", text, err)
		}
		return v
	}
	return reflect.DeepEqual(decode(got), decode(want)) // cmp takes exponential time on deep values
}
