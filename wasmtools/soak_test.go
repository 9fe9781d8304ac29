package wasmtools

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/tool"
	enc "github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
)

// soaker is a reactor of the size of a small C tool: it reads its input, goes over it some
// hundred times, and answers it. It traps if it finds anything of an earlier call.
func soaker() []byte {
	h := hostileGuest("hermes.input_len", "hermes.input_read", "hermes.output_write", "hermes.log")
	h.Globals = enc.Vec(slices.Concat([]byte{enc.I32, 1}, enc.Const(0), []byte{0x0b}))
	get, set := func(i byte) []byte { return []byte{0x20, i} }, func(i byte) []byte { return []byte{0x21, i} }
	trapIf := func(cond []byte) []byte { return slices.Concat(cond, []byte{0x04, 0x40, enc.Unreachable, 0x0b}) }
	add := func(i byte, n int32) []byte { return slices.Concat(get(i), enc.Const(n), []byte{0x6a}, set(i)) }
	// local 0: length; 1: round; 2: index. Byte i of the input is added to a sum at 8.
	inner := slices.Concat([]byte{0x03, 0x40},
		enc.Const(8), word(8), get(2), []byte{0x2d, 0}, enc.U(64), []byte{0x6a, 0x36, 2, 0},
		add(2, 1), get(2), get(0), []byte{0x49, 0x0d, 0, 0x0b})
	outer := slices.Concat([]byte{0x03, 0x40}, enc.Const(0), set(2), inner, add(1, 1), get(1), enc.Const(40), []byte{0x49, 0x0d, 0, 0x0b})
	h.reactor(nil)
	h.Funcs[1].Locals = enc.Vec(append(enc.U(3), enc.I32))
	h.Funcs[1].Body = slices.Concat(
		trapIf(word(8)), trapIf(word(64)), trapIf([]byte{0x23, 0}), enc.Const(1), []byte{0x24, 0},
		h.do("hermes.input_len"), set(0),
		h.drop("hermes.input_read", 64, 0, get(0)),
		outer,
		h.drop("hermes.output_write", 64, get(0)), enc.Const(0))
	return h.Bytes()
}

// TestSoak calls one tool a hundred thousand times from eight goroutines, for three
// principals, and cancels some of the calls at random. Every answer must be that of its
// own call, and nothing may be left.
func TestSoak(t *testing.T) {
	const goroutines = 8
	calls := 100_000
	if testing.Short() {
		calls = 5_000
	}
	for _, isolation := range []Isolation{Snapshot, Fresh} {
		t.Run(string(isolation), func(t *testing.T) {
			tl := bind(t, open(t, Options{}), soaker(), Spec{Isolation: isolation})
			soak(t, tl, goroutines, 2000) // what is made once is made
			settle()
			before, routines := takeStock(t), runtime.NumGoroutine()
			begun := time.Now()
			done, cut := soak(t, tl, goroutines, calls)
			took := time.Since(begun)
			settle()
			after := takeStock(t)
			t.Logf("%d calls answered, %d cut short, in %s: %.0f a second; %s", done, cut, took.Round(time.Millisecond),
				float64(done+cut)/took.Seconds(), after.since(before))
			if cut == 0 || done == 0 {
				t.Error("nothing was cut short, or all was")
			}
			if grew := after.resident - before.resident; grew > 32 && !raced {
				t.Errorf("%d MiB are left", grew)
			}
			if after.descriptors > before.descriptors {
				t.Errorf("%d descriptors before, %d after", before.descriptors, after.descriptors)
			}
			if n := runtime.NumGoroutine(); n > routines {
				t.Errorf("%d goroutines before, %d after", routines, n)
			}
		})
		if isolation == Snapshot {
			calls /= 4 // the rest is the same
		}
	}
}

// settle lets goroutines that have nothing left to do come to their end.
func settle() {
	for range 100 {
		runtime.Gosched()
	}
	runtime.GC()
}

func soak(t *testing.T, tl *Tool, goroutines, calls int) (done, cut int64) {
	var all sync.WaitGroup
	var answered, ended atomic.Int64
	for g := range goroutines {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(g)))
			for i := range calls / goroutines {
				if soakOnce(t, tl, rnd, fmt.Sprintf("%d/%d", g, i)) {
					answered.Add(1)
				} else {
					ended.Add(1)
				}
			}
		})
	}
	all.Wait()
	return answered.Load(), ended.Load()
}

// soakOnce makes one call, of which every fiftieth may end early, and says whether it was
// answered.
func soakOnce(t *testing.T, tl *Tool, rnd *rand.Rand, id string) bool {
	ctx, text := t.Context(), ""
	if rnd.IntN(50) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rnd.IntN(2000))*time.Microsecond)
		defer cancel()
		text = strings.Repeat("x", 20_000) // which takes some milliseconds
	}
	owner := principal.Principal{Name: fmt.Sprint("user-", rnd.IntN(3))}
	res, err := tl.Call(ctx, &tool.Call{ID: id, Tool: tl.name, Principal: owner, Arguments: json.RawMessage(`{"id":"` + id + `","text":"` + text + `"}`), Run: "r", IdempotencyKey: "k"})
	if err != nil {
		if k := fault.KindOf(err); k != fault.Timeout || ctx.Err() == nil {
			t.Errorf("call %s: %v", id, err)
		}
		return false
	}
	var in struct {
		Arguments struct{ ID string }
		Call      struct{ ID string }
	}
	if err := json.Unmarshal(res.JSON, &in); err != nil || in.Arguments.ID != id || in.Call.ID != id {
		t.Errorf("call %s was answered %s, %v", id, res.JSON, err)
	}
	return true
}
