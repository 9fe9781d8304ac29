package module_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/wasmtools/module"
	enc "github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
)

// TestCheckCalls: the counter is the last global, whatever there was, and nothing else
// of the module changes.
func TestCheckCalls(t *testing.T) {
	check := func(global, charge byte) []byte {
		return []byte{
			0x23, global, 0x41, charge, 0x6b, 0x24, global, // left -= charge
			0x23, global, 0x41, 0, 0x4c, 0x04, 0x40, // if left <= 0
			0x41, 0xc0, 0x84, 0x3d, 0x24, global, // left = 1000000
			0x03, 0x40, 0x0b, 0x0b, // loop end, end
		}
	}
	counter := []byte{0x7f, 1, 0x41, 0xc0, 0x84, 0x3d, 0x0b}
	constant := []byte{0x7f, 0, 0x41, 7, 0x0b}
	for name, globals := range map[string][][]byte{"none": nil, "two": {constant, constant}} {
		m := enc.Module{Funcs: []enc.Func{{Export: "_start", Body: enc.Call(1)}, {Locals: enc.Vec([]byte{2, 0x7e}), Body: enc.Forever(make([]byte, 64)...)}}, Pages: 1, Data: "x"}
		if globals != nil {
			m.Globals = enc.Vec(globals...)
		}
		got := module.CheckCalls(m.Bytes())
		m.Globals = enc.Vec(append(globals, counter)...)
		for i := range m.Funcs {
			m.Funcs[i].Body = append(check(byte(len(globals)), []byte{1, 3}[i]), m.Funcs[i].Body...)
		}
		if diff := cmp.Diff(m.Bytes(), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if _, err := module.Parse(got, module.DefaultLimits()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
