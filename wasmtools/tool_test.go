package wasmtools

import (
	"testing"
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

func TestResults(t *testing.T) {
	each(t, Spec{}, func(t *testing.T, tl *Tool) {
		for _, v := range []string{`""`, `false`, `0`, `null`, `[]`, `{}`, `{"b":1,"a":[1.50,9007199254740993]}`, `"é😀"`} {
			got, err := invoke(t, t.Context(), tl, `{"do":"echo","value":`+v+`}`)
			if err != nil || got != v {
				t.Errorf("echo of %s: %s, %v", v, got, err)
			}
		}
	})
}
