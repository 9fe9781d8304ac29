package wasmtools

import (
	"encoding/binary"
	"slices"
	"testing"

	enc "github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
)

// pluginFixture is a small Extism plug-in: its exports by name, each of type () -> (i32), with
// one local of type i64.
type pluginFixture map[string][]byte

// bytes encodes a plug-in that imports every function of the host.
func (f pluginFixture) bytes() []byte { return f.module().Bytes() }

func (f pluginFixture) module() enc.Module {
	m := enc.Module{Pages: 1}
	for _, h := range hostImports() {
		m.Imports = append(m.Imports, enc.Import{Module: h.module, Name: h.name, Params: []byte(h.typ.Params), Results: []byte(h.typ.Results)})
	}
	names := make([]string, 0, len(f))
	for name := range f {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		m.Funcs = append(m.Funcs, enc.Func{Export: name, Results: []byte{enc.I32}, Body: f[name],
			Locals: enc.Vec(slices.Concat(enc.U(1), []byte(i64)))})
	}
	return m
}

type hostImport struct {
	module string
	hostFunc
}

func hostImports() []hostImport {
	var all []hostImport
	for _, h := range extismFuncs() {
		all = append(all, hostImport{"extism:host/env", h})
	}
	for _, h := range extismUserFuncs() {
		all = append(all, hostImport{"extism:host/user", h})
	}
	return all
}

// i64const encodes i64.const n.
func i64const(n uint64) []byte {
	out, v := []byte{0x42}, int64(n)
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(out, c)
		}
		out = append(out, c|0x80)
	}
}

// callHost encodes a call of a host function, after the code of its arguments.
func callHost(name string, args ...[]byte) []byte {
	i := slices.IndexFunc(hostImports(), func(h hostImport) bool { return h.name == name })
	if i < 0 {
		panic("no host function " + name)
	}
	return slices.Concat(slices.Concat(args...), []byte{0x10}, enc.U(i))
}

// The local and what is done with it.
func getLocal() []byte           { return []byte{0x20, 0} }
func setLocal(v []byte) []byte   { return slices.Concat(v, []byte{0x21, 0}) }
func addI64(a, b []byte) []byte  { return slices.Concat(a, b, []byte{0x7c}) }
func dropped(v []byte) []byte    { return append(slices.Clone(v), enc.Drop) }
func returns(n int32) []byte     { return enc.Const(n) }
func seq(parts ...[]byte) []byte { return slices.Concat(parts...) }

// newBlock encodes a new block with s in it; its offset is then in the local.
func newBlock(s string) []byte {
	out := setLocal(callHost("alloc", i64const(uint64(len(s)))))
	for i := 0; i < len(s); i += 8 {
		if len(s)-i >= 8 {
			out = append(out, callHost("store_u64", addI64(getLocal(), i64const(uint64(i))), i64const(binary.LittleEndian.Uint64([]byte(s[i:i+8]))))...)
			continue
		}
		for j := i; j < len(s); j++ {
			out = append(out, callHost("store_u8", addI64(getLocal(), i64const(uint64(j))), enc.Const(int32(s[j])))...)
		}
	}
	return out
}

// outputs encodes a function that outputs s.
func outputs(s string) []byte {
	return seq(newBlock(s), callHost("output_set", getLocal(), i64const(uint64(len(s)))), returns(0))
}

// failing encodes a function that sets an error text and returns rc.
func failing(s string, rc int32) []byte {
	return seq(newBlock(s), callHost("error_set", getLocal()), returns(rc))
}

// bindFixture binds a plug-in that calls its export run.
func bindFixture(t testing.TB, r *Runtime, f pluginFixture, s Spec) *Tool {
	t.Helper()
	s.Optional = true
	return bind(t, r, f.bytes(), s)
}
