package wasmtools

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/secret"
	"github.com/hermes-runtime/hermes/wasmtools/module"
)

var goPlugin = sync.OnceValues(func() ([]byte, error) {
	return buildGuest("./testdata/extism/goplugin", "-buildmode=c-shared")
})

// buildPlugin compiles a plug-in in C. It needs no C library.
func buildPlugin(t testing.TB, name string) []byte {
	t.Helper()
	clang, err := exec.LookPath("clang")
	if err != nil {
		t.Skip("plug-ins in C need clang and lld: apt-get install clang lld")
	}
	out := filepath.Join(t.TempDir(), name+".wasm")
	cmd := exec.Command(clang, "--target=wasm32", "-O2", "-nostdlib", "-fno-builtin", "-Wl,--no-entry", "-Wl,--strip-all",
		"-o", out, filepath.Join("testdata", "extism", name+".c"))
	if msg, err := cmd.CombinedOutput(); err != nil {
		if strings.Contains(string(msg), "wasm-ld") {
			t.Skip("linking plug-ins in C needs lld: apt-get install lld")
		}
		t.Fatalf("building %s.c: %v\n%s", name, err, msg)
	}
	wasm, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

// step is one call of a plug-in and what comes of it.
type step struct {
	args string
	want string // the result, or a part of the error text
	kind fault.Kind
	fail bool
}

func (s step) run(t *testing.T, tl *Tool) {
	t.Helper()
	got, err := invoke(t.Context(), t, tl, s.args)
	switch {
	case s.fail:
		wantFault(t, err, s.kind, s.want)
	case err != nil || got != s.want:
		t.Errorf("%s: %s, %v; want %s", s.args, got, err, s.want)
	}
}

// TestGoPlugin runs a plug-in in standard Go: every call finds it as it was initialised.
func TestGoPlugin(t *testing.T) {
	wasm, err := goPlugin()
	check(t, err)
	var l logs
	r := open(t, Options{Log: l.logger()})
	tl := bind(t, r, wasm, Spec{Optional: true, Env: map[string]secret.Value{"UNITS": secret.New("metric")}})
	long := strings.Repeat("0123456789", 20_000)
	for _, s := range []step{
		{args: `{"do":"echo","value":{"a":[1,"x"]}}`, want: `{"a":[1,"x"]}`},
		{args: `{"do":"echo","value":"` + long + `"}`, want: `"` + long + `"`},
		{args: `{"do":"calls"}`, want: `1`},
		{args: `{"do":"calls"}`, want: `1`},
		{args: `{"do":"count","text":"banane"}`, want: `{"vowels":3}`},
		{args: `{"do":"config","text":"UNITS"}`, want: `"metric"`},
		{args: `{"do":"config","text":"HOME"}`, want: `null`},
		{args: `{"do":"config","text":""}`, want: `null`},
		{args: `{"do":"vars","times":3}`, want: `[null,"3",null]`},
		{args: `{"do":"vars","times":3000}`, want: `[null,"3000",null]`},
		{args: `{"do":"log","text":"careful"}`, want: `1`},
		{args: `{"do":"fail","text":"no such city"}`, want: "cannot: no such city", fail: true, kind: fault.Invalid},
		{args: `{"do":"other"}`, want: `cannot do "other"`, fail: true, kind: fault.Invalid},
		{args: `{"do":"panic","text":"oh no"}`, want: "oh no", fail: true, kind: fault.Internal},
		{args: `{"do":"calls"}`, want: `1`},
		{args: `{"do":"grow","times":1000000}`, want: `true`},
		{args: `{"do":"grow","times":1000000000}`, want: "limit of 64 MiB", fail: true, kind: fault.Exhausted},
	} {
		s.run(t, tl)
	}
	if s := l.String(); !strings.Contains(s, `level=WARN msg="guest log" tool=probe call=call-1 run=r generation=3 text=careful`) {
		t.Error(s)
	}
}

// TestCPlugin runs the exports of a plug-in in C as tools.
func TestCPlugin(t *testing.T) {
	wasm := buildPlugin(t, "plain")
	var l logs
	r := open(t, Options{Log: l.logger()})
	env := map[string]secret.Value{"greeting": secret.New(`{"hello":"world"}`)}
	for _, c := range []struct {
		in string
		step
		env map[string]secret.Value
	}{
		{"echo", step{args: `{"a":1}`, want: `{"a":1}`}, nil},
		{"count_vowels", step{args: `{"text":"education"}`, want: `{"count":6}`}, nil},
		{"count_calls", step{args: `{}`, want: `{"calls":10}`}, nil},
		{"greet", step{args: `{}`, want: `{"hello":"world"}`}, env},
		{"greet", step{args: `{}`, want: "greeting is not configured", fail: true, kind: fault.Invalid}, nil},
		{"part", step{args: `{}`, want: `{"part":1}`}, nil},
		{"quiet", step{args: `{}`, want: `"quiet"`}, nil},
	} {
		t.Run(c.in, func(t *testing.T) {
			tl := bind(t, r, wasm, Spec{InModule: c.in, Env: c.env})
			if rep := tl.module.Report(); rep.ABI != module.Extism || len(rep.Capabilities) > 0 {
				t.Errorf("ABI %s, capabilities %v", rep.ABI, rep.Capabilities)
			}
			c.run(t, tl)
			c.run(t, tl) // nothing stays from the call before
		})
	}
	if s := l.String(); !strings.Contains(s, `level=INFO msg="guest log" tool=probe call=call-1 run=r generation=3 text=greeting`) {
		t.Error(s)
	}
}

// TestHyperPlugins runs plug-ins with the interfaces of hyper-mcp.
func TestHyperPlugins(t *testing.T) {
	r := open(t, Options{})
	first := buildPlugin(t, "hyper1")
	step{args: `{"text":"hi <you>"}`, want: `"HI\nYOU"`}.run(t, bind(t, r, first, Spec{InModule: "shout"}))
	step{args: `{}`, want: `"here:\n[image, image/png, 8 bytes]"`}.run(t, bind(t, r, first, Spec{Name: "draw"}))
	other := bind(t, r, first, Spec{InModule: "other"})
	if w := other.Warnings(); len(w) != 1 || !strings.Contains(w[0], `shout, draw, but not "other"`) {
		t.Error(w)
	}
	step{args: `{}`, want: "no such tool", fail: true, kind: fault.Invalid}.run(t, other)

	var l logs
	r = open(t, Options{Log: l.logger()})
	second := buildPlugin(t, "hyper2")
	step{args: `{}`, want: `{"roots":0}`}.run(t, bind(t, r, second, Spec{}))
	step{args: `{}`, want: `{"roots":1}`}.run(t, bind(t, r, second, Spec{Files: []FilesGrant{{Path: t.TempDir(), Mount: "/data"}}}))
	for _, want := range []string{`level=WARN msg="guest log" tool=probe call=call-1 run=r generation=3 text="look out" logger=c`, `level=DEBUG msg="guest log" tool=probe call=call-1 run=r generation=3 text="{\"n\":1}"`} {
		if s := l.String(); !strings.Contains(s, want) {
			t.Errorf("no %s in:\n%s", want, s)
		}
	}
}

// TestPluginHTTP: requests go where a grant allows, at every hop, and nowhere else.
func TestPluginHTTP(t *testing.T) {
	wasm, err := goPlugin()
	check(t, err)
	var seen []string
	forbidden := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen = append(seen, "forbidden") }))
	defer forbidden.Close()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		seen = append(seen, req.Method+" "+req.URL.Path+" "+req.Header.Get("X-Own")+req.Header.Get("Authorization"))
		switch req.URL.Path {
		case "/away":
			http.Redirect(w, req, forbidden.URL, http.StatusFound)
		case "/large":
			_, _ = w.Write(make([]byte, 5000))
		case "/missing":
			http.NotFound(w, req)
		case "/empty":
		default:
			w.Header().Set("X-Answer", "yes")
			_, _ = w.Write([]byte("hello"))
		}
	}))
	defer srv.Close()
	r := open(t, Options{})
	granted := Spec{HTTP: []HTTPGrant{{Hosts: []string{srv.URL}, Methods: []string{"GET", "POST"}, AllowPrivate: true, MaxResponse: 4096,
		Headers: map[string]secret.Value{"Authorization": secret.New("key")}}}}
	tl := bind(t, r, wasm, granted)
	for _, c := range []struct{ path, want, deny string }{
		{`"url":"/ok","headers":{"X-Own":"a","Authorization":"mine"}`, `{"body":"hello",`, ""},
		{`"url":"/ok","method":"post","text":"body"`, `"x-answer":"yes"`, ""},
		{`"url":"/missing"`, `"status":404`, ""},
		{`"url":"/empty"`, `{"body":"",`, ""},
		{`"url":"/away"`, "", "denied"},
		{`"url":"/large"`, "", "too_large"},
		{`"url":"/ok","method":"DELETE"`, "", "denied"},
	} {
		args := `{"do":"http",` + strings.Replace(c.path, `"url":"`, `"url":"`+srv.URL, 1) + `}`
		got, err := invoke(t.Context(), t, tl, args)
		if kind := fault.KindOf(err).String(); err != nil && kind != c.deny || err == nil && (c.deny != "" || !strings.Contains(got, c.want)) {
			t.Errorf("%s: %s, %v", c.path, got, err)
		}
	}
	if want := "GET /ok akey, POST /ok key, GET /missing key, GET /empty key, GET /away key, GET /large key"; strings.Join(seen, ", ") != want {
		t.Errorf("requests: %v", seen)
	}
	step{args: `{"do":"http","url":"` + forbidden.URL + `"}`, want: "", fail: true, kind: fault.Denied}.run(t, tl)
}

// TestPluginWithoutHTTP: importing the request is wanting the capability.
func TestPluginWithoutHTTP(t *testing.T) {
	wasm := buildPlugin(t, "reach")
	var l logs
	r := open(t, Options{Log: l.logger()})
	m, err := r.Compile(t.Context(), wasm)
	check(t, err)
	defer m.Release()
	_, err = m.Bind(Spec{Name: "reach"})
	wantBind(t, err, "", `imports extism:host/env.http_request, which needs the capability "http"`)
	wantBind(t, err, "", `grant "http" {`)
	tl := bind(t, r, wasm, Spec{Optional: true})
	step{args: `{"url":"https://a.example"}`, want: `capability "http", which is not granted`, fail: true, kind: fault.Denied}.run(t, tl)
	if s := l.String(); !strings.Contains(s, `msg="capability refused" tool=probe audit=true call=call-1 principal=ann agent=a run=r generation=3 capability=http`) {
		t.Error(s)
	}
	if w := bind(t, r, wasm, Spec{HTTP: []HTTPGrant{{Hosts: []string{"a.example"}}}}).Warnings(); w != nil {
		t.Error(w)
	}
}

// TestPluginsAtOnce: calls of one plug-in at the same time have nothing in common.
func TestPluginsAtOnce(t *testing.T) {
	wasm, err := goPlugin()
	check(t, err)
	tl := bind(t, open(t, Options{}), wasm, Spec{Optional: true})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 10 {
				want := fmt.Sprintf(`"%d of %d"`, j, i)
				got, err := invoke(t.Context(), t, tl, `{"do":"echo","value":`+want+`}`)
				if err != nil || got != want {
					t.Errorf("%s: %s, %v", want, got, err)
				}
				if got, err := invoke(t.Context(), t, tl, `{"do":"calls"}`); err != nil || got != "1" {
					t.Errorf("calls: %s, %v", got, err)
				}
			}
		})
	}
	wg.Wait()
}
