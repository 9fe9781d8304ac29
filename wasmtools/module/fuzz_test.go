package module_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hermes-runtime/hermes/wasmtools/binary"
	"github.com/hermes-runtime/hermes/wasmtools/module"
	enc "github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
)

// The most that Parse allocates: a multiple of the file, and what a report takes.
const (
	allocTimes = 32
	allocMore  = 64 << 10
)

// parse checks a module and what checking it allocated.
func parse(t testing.TB, wasm []byte) (module.Report, error) {
	t.Helper()
	var rep module.Report
	var err error
	n := allocated(func() { rep, err = module.Parse(wasm, module.DefaultLimits()) })
	if most := uint64(allocMore + allocTimes*len(wasm)); n > most {
		t.Errorf("checking %d bytes allocated %d, more than %d", len(wasm), n, most)
	}
	return rep, err
}

// mutate changes a module at a few places: most changes are to code, and many are still
// valid.
func mutate(r *rand.Rand, wasm []byte) []byte {
	out := slices.Clone(wasm)
	for range 1 + r.IntN(3) {
		i := binary.Header + r.IntN(len(out)-binary.Header)
		switch r.IntN(6) {
		case 0:
			out = slices.Delete(out, i, min(len(out), i+1+r.IntN(3)))
		case 1:
			out = slices.Insert(out, i, byte(r.UintN(256)))
		case 2:
			j := binary.Header + r.IntN(len(out)-binary.Header)
			out[i], out[j] = out[j], out[i]
		case 3:
			out[i] += byte(r.IntN(5) - 2)
		default:
			out[i] = byte(r.UintN(256))
		}
	}
	return out
}

// TestMutated: of modules that are almost valid, the engine compiles every one that is
// accepted, and most that are refused are refused by the engine too.
func TestMutated(t *testing.T) {
	compile := engine(t)
	rounds := uint64(4000)
	if testing.Short() {
		rounds = 500
	}
	accepted, stricter := 0, 0
	for seed := range rounds {
		r := rand.New(rand.NewPCG(seed, 1))
		s := shape(seed)
		s.Size = 1 + s.Size%6
		wasm := mutate(r, enc.Random(seed%500, s))
		_, err := parse(t, wasm)
		theirs := compile(wasm)
		switch {
		case err == nil && theirs == nil:
			accepted++
		case err == nil:
			t.Errorf("seed %d: accepted, and the engine refuses it: %v", seed, theirs)
		case theirs == nil && reason(err) == "":
			stricter++
			if stricter < 20 {
				t.Logf("seed %d: refused, and the engine takes it: %v", seed, err)
			}
		}
	}
	t.Logf("of %d mutated modules %d are accepted, %d refused by us alone", rounds, accepted, stricter)
	if accepted < int(rounds/100) {
		t.Error("hardly any mutated module is valid: the test shows nothing")
	}
}

// FuzzParse: nothing panics, nothing allocates much, and what is accepted compiles.
func FuzzParse(f *testing.F) {
	f.Add(small().Bytes())
	for seed := range uint64(16) {
		s := shape(seed)
		s.Size = 1 + s.Size%4
		f.Add(enc.Random(seed, s))
	}
	compile := engine(f)
	f.Fuzz(func(t *testing.T, wasm []byte) {
		_, err := parse(t, wasm)
		if err != nil {
			return
		}
		if err := compile(wasm); err != nil {
			t.Errorf("accepted, and the engine refuses it: %v", err)
		}
	})
}
