package wasmtools

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/egress"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/secret"
	"github.com/hermes-runtime/hermes/wasmtools/module"
	enc "github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
)

func command(imports ...enc.Import) enc.Module {
	return enc.Module{Imports: imports, Funcs: []enc.Func{{Export: "_start"}}, Pages: 1}
}

// TestRefusedModules: what cannot be run is refused when it is loaded, with the reason.
func TestRefusedModules(t *testing.T) {
	two, one := []byte{enc.I32, enc.I32}, []byte{enc.I32}
	for _, c := range []struct {
		name string
		wasm []byte
		want string
	}{
		{"component", []byte("\x00asm\x0d\x00\x01\x00"), "is a WebAssembly component"},
		{"text", []byte("(module)"), "is WebAssembly text"},
		{"no entry", enc.Module{Funcs: []enc.Func{{Export: "run"}}}.Bytes(), "has no entry point"},
		{"marker without call", enc.Module{Funcs: []enc.Func{{Export: "hermes_abi_v1"}}}.Bytes(), "no function hermes_call"},
		{"call of another type", enc.Module{Funcs: []enc.Func{{Export: "hermes_abi_v1"}, {Export: "hermes_call", Params: one, Results: one, Body: enc.Const(0)}}}.Bytes(), "no function hermes_call"},
		{"initialisation of another type", enc.Module{Funcs: []enc.Func{{Export: "hermes_abi_v1"}, {Export: "hermes_call", Results: one, Body: enc.Const(0)}, {Export: "_initialize", Params: one}}}.Bytes(), "exports _initialize as (i32) -> ()"},
		{"unknown module", command(enc.Import{Module: "env", Name: "puts"}).Bytes(), "env.puts: a function that was declared and not found when the module was linked"},
		{"unknown function", command(enc.Import{Module: "hermes", Name: "shell"}).Bytes(), "hermes.shell: no such function"},
		{"unknown WASI function", command(enc.Import{Module: "wasi_snapshot_preview1", Name: "fork"}).Bytes(), "wasi_snapshot_preview1.fork: no such function"},
		{"unknown capability function", command(enc.Import{Module: "hermes_http", Name: "listen", Params: two, Results: one}).Bytes(), "hermes_http.listen: no such function"},
		{"wrong type", command(enc.Import{Module: "hermes", Name: "log", Params: two}).Bytes(), "hermes.log: imported as (i32, i32) -> (), but it is (i32, i32, i32) -> ()"},
		{"interface of components", command(enc.Import{Module: "wasi:cli/run@0.2.0", Name: "run"}).Bytes(), "component model"},
		{"all at once", command(enc.Import{Module: "env", Name: "a"}, enc.Import{Module: "env", Name: "b"}).Bytes(), "without --allow-undefined\n  env.b: a function"},
		{"loops that charge too many locals", manyLoops(), "a function with 101 loops and 1000 locals"},
		{"body that is not valid", enc.Module{Funcs: []enc.Func{{Export: "_start", Body: []byte{enc.Drop}}}}.Bytes(), "in function 0 (_start): drop needs an operand"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := open(t, Options{CacheDir: t.TempDir()})
			_, err := r.Compile(t.Context(), c.wasm)
			wantFault(t, err, fault.Invalid, c.want)
			if r.Cached(module.Digest(c.wasm)) {
				t.Error("a refused module is said to be cached")
			}
		})
	}
}

// TestInspectSaysWhatCannotBeMetered before anything is compiled.
func TestInspectSaysWhatCannotBeMetered(t *testing.T) {
	const want = "a function with 101 loops and 1000 locals"
	_, err := Inspect(manyLoops())
	wantFault(t, err, fault.Invalid, want)
	_, err = open(t, Options{}).Inspect(manyLoops())
	wantFault(t, err, fault.Invalid, want)
}

// manyLoops takes the compiler seconds once its loops are metered.
func manyLoops() []byte {
	loops := bytes.Repeat([]byte{0x03, 0x40, 0x0b}, 101) // loop end
	return enc.Module{Funcs: []enc.Func{{Export: "_start", Locals: enc.Vec(append(enc.U(1000), enc.I32)), Body: loops}}}.Bytes()
}

func wantBind(t *testing.T, err error, attr, text string) {
	t.Helper()
	var b *BindError
	if !errors.As(err, &b) || b.Attr != attr || b.Summary == "" || !strings.Contains(b.Detail, text) {
		t.Errorf("got %+v; want %s: …%s…", err, attr, text)
	}
}

func TestBindErrors(t *testing.T) {
	dir := t.TempDir()
	files := func(g FilesGrant) Spec {
		if g.Path == "" {
			g.Path = dir
		}
		return Spec{Files: []FilesGrant{g}}
	}
	for _, c := range []struct {
		name, attr, want string
		s                Spec
	}{
		{"negative limit", "limits.output", "above zero", Spec{Limits: Limits{Output: -1}}},
		{"negative count", "limits.open_files", "above zero", Spec{Limits: Limits{OpenFiles: -1}}},
		{"memory over what there is", "limits.memory", "at most", Spec{Limits: Limits{Memory: 1<<32 + 1}}},
		{"memory below the start", "limits.memory", "needs 64 KiB", Spec{Limits: Limits{Memory: 1 << 10}}},
		{"no hosts", "grant.http.hosts", "needs hosts", Spec{HTTP: []HTTPGrant{{}}}},
		{"bad host", "grant.http.hosts", "", Spec{HTTP: []HTTPGrant{{Hosts: []string{"ftp://x"}}}}},
		{"bad response limit", "grant.http.max_response", "above zero", Spec{HTTP: []HTTPGrant{{Hosts: []string{"a.example"}, MaxResponse: -1}}}},
		{"no such directory", "grant.files.path", "no such file or directory", files(FilesGrant{Path: filepath.Join(dir, "none"), Mount: "/d"})},
		{"relative path", "grant.files.path", "absolute", files(FilesGrant{Path: "data", Mount: "/d"})},
		{"relative mount", "grant.files.mount", "absolute", files(FilesGrant{Mount: "d"})},
		{"mount with dots", "grant.files.mount", "absolute", files(FilesGrant{Mount: "/d/../e"})},
		{"mode", "grant.files.mode", `not "rwx"`, files(FilesGrant{Mount: "/d", Mode: "rwx"})},
		{"two of a mount", "grant.files.mount", "Two", Spec{Files: []FilesGrant{{Path: dir, Mount: "/d"}, {Path: dir, Mount: "/d"}}}},
		{"variable", "grant.env.values", "cannot be", Spec{Env: map[string]secret.Value{"a=b": secret.New("")}}},
		{"reserved variable", "grant.env.values", "set by hermes", Spec{Env: map[string]secret.Value{"HERMES_TOOL": secret.New("")}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := open(t, Options{})
			m, err := r.Compile(t.Context(), command().Bytes())
			if err != nil {
				t.Fatal(err)
			}
			defer m.Release()
			_, err = m.Bind(c.s)
			wantBind(t, err, c.attr, c.want)
			rep, err := Inspect(command().Bytes())
			if err != nil {
				t.Fatal(err)
			}
			wantBind(t, r.Check(rep, c.s), c.attr, c.want)
		})
	}
}

// TestMissingGrant: the error shows the block to add, with the hosts that the module asks
// for; optional = true binds it all the same.
func TestMissingGrant(t *testing.T) {
	m, err := open(t, Options{}).Compile(t.Context(), built.reactor)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Release()
	_, err = m.Bind(Spec{Name: "probe"})
	var b *BindError
	if !errors.As(err, &b) {
		t.Fatal(err)
	}
	want := `The module imports hermes_http.fetch, which needs the capability "http". Add to the handler block:

  grant "http" {
    hosts = ["https://probe.example"]
  }

or, if the module works without, set optional = true there.`
	if diff := cmp.Diff(want, b.Detail); diff != "" {
		t.Error(diff)
	}
}

// TestGrantBlockIsLiteral: what a module says of itself is no template.
func TestGrantBlockIsLiteral(t *testing.T) {
	m := command(enc.Import{Module: "hermes_http", Name: "fetch", Params: []byte{enc.I32, enc.I32}, Results: []byte{enc.I32}})
	m.Extra = [][]byte{enc.Custom("hermes.tool", []byte(`{"abi":1,"wants":[{"capability":"http","hosts":["${env.KEY}\""]}]}`))}
	rep, err := Inspect(m.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	wantBind(t, open(t, Options{}).Check(rep, Spec{}), "", `hosts = ["$${env.KEY}\""]`)
}

// TestOptional: a call to a capability without a grant answers EACCES and is audited.
func TestOptional(t *testing.T) {
	var l logs
	r := open(t, Options{Log: l.logger()})
	tl := bind(t, r, built.reactor, Spec{Optional: true})
	_, err := invoke(t.Context(), t, tl, `{"do":"http","url":"https://probe.example"}`)
	wantFault(t, err, fault.Invalid, "not granted")
	if s := l.String(); !strings.Contains(s, `msg="capability refused" tool=probe audit=true call=call-1 principal=ann agent=a run=r generation=3 capability=http reason="there is no grant of it"`) {
		t.Error(s)
	}
	// The code is -EACCES.
	kv := enc.Module{
		Imports: []enc.Import{{Module: "hermes_kv", Name: "get", Params: []byte{enc.I32, enc.I32}, Results: []byte{enc.I32}}},
		Funcs:   []enc.Func{{Export: "hermes_abi_v1"}, {Export: "hermes_call", Results: []byte{enc.I32}, Body: enc.Call(0, 0, 0)}}, Pages: 1,
	}
	_, err = invoke(t.Context(), t, bind(t, r, kv.Bytes(), Spec{Optional: true}), `{}`)
	wantFault(t, err, fault.Internal, "returned -2")
	m, err := r.Compile(t.Context(), kv.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Release()
	_, err = m.Bind(Spec{})
	wantBind(t, err, "", "hermes_kv.get, which needs the capability \"kv\". Add to the handler block:\n\n  grant \"kv\" {\n    namespace = \"\"\n  }\n")
}

func TestWarnings(t *testing.T) {
	r := open(t, Options{})
	tl := bind(t, r, command().Bytes(), Spec{HTTP: []HTTPGrant{{Hosts: []string{"a.example"}}}})
	if w := tl.Warnings(); len(w) != 1 || !strings.Contains(w[0], "does not import hermes_http") {
		t.Error(w)
	}
	m := command()
	m.Extra = [][]byte{enc.Custom("hermes.tool", []byte(`{"abi":1,"name":"x","tools":[{"name":"a"},{"name":"b"}]}`))}
	if w := bind(t, r, m.Bytes(), Spec{InModule: "c"}).Warnings(); len(w) != 1 || !strings.Contains(w[0], `a, b, but not "c"`) {
		t.Error(w)
	}
	if w := bind(t, r, m.Bytes(), Spec{InModule: "b"}).Warnings(); w != nil {
		t.Error(w)
	}
}

func TestNoEgress(t *testing.T) {
	r, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := r.Compile(t.Context(), command().Bytes())
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Bind(Spec{HTTP: []HTTPGrant{{Hosts: []string{"a.example"}}}})
	wantBind(t, err, "grant.http", "without outgoing HTTP")
	if err := r.Close(context.Background()); err == nil {
		t.Error("closing with a module in use is no error")
	}
	m.Release()
	if err := r.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := r.Compile(t.Context(), command().Bytes()); fault.KindOf(err) != fault.Unavailable {
		t.Error(err)
	}
}

// TestDescriptors: where a description can stand, and that none is no error.
func TestDescriptors(t *testing.T) {
	section := command()
	section.Extra = [][]byte{enc.Custom("hermes.tool", []byte(`{"abi":1,"name":"section","tools":[{"name":"a"}]}`))}
	broken := command()
	broken.Extra = [][]byte{enc.Custom("hermes.tool", []byte(`{"abi":9}`))}
	r := open(t, Options{Egress: egress.New(egress.Options{})})
	for _, c := range []struct {
		name, want, err string
		wasm            []byte
	}{
		{"reactor", "probe", "", built.reactor},
		{"command", "probe", "", built.command},
		{"section", "section", "", section.Bytes()},
		{"none", "", "", command().Bytes()},
		{"broken", "", "version 9", broken.Bytes()},
		{"reactor that fails", "", "returned 7", enc.Module{Funcs: []enc.Func{{Export: "hermes_abi_v1"},
			{Export: "hermes_call", Results: []byte{enc.I32}, Body: enc.Const(0)},
			{Export: "hermes_describe", Results: []byte{enc.I32}, Body: enc.Const(7)}}}.Bytes()},
		{"reactor that traps", "", "unreachable", enc.Module{Funcs: []enc.Func{{Export: "hermes_abi_v1"},
			{Export: "hermes_call", Results: []byte{enc.I32}, Body: enc.Const(0)},
			{Export: "hermes_describe", Results: []byte{enc.I32}, Body: []byte{enc.Unreachable}}}}.Bytes()},
	} {
		t.Run(c.name, func(t *testing.T) {
			rep := bind(t, r, c.wasm, Spec{Optional: true}).module.Report()
			name, problem := "", ""
			if rep.Descriptor != nil {
				name = rep.Descriptor.Name
			}
			if rep.DescriptorErr != nil {
				problem = rep.DescriptorErr.Error()
			}
			if name != c.want || !strings.Contains(problem, c.err) || (problem == "") != (c.err == "") {
				t.Errorf("%q, %q", name, problem)
			}
		})
	}
}
