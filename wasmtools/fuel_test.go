package wasmtools

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/hermes-runtime/hermes/runtime/fault"
	enc "github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
)

// TestFuelIsExact: the same call uses the same fuel, in every instance and isolation, and
// a limit of just that much is enough.
func TestFuelIsExact(t *testing.T) {
	m := reactor(spin(300_000), enc.Const(0))
	r := open(t, Options{})
	used := func(s Spec) (int64, error) {
		tl := bind(t, r, m.Bytes(), s)
		_, err := invoke(t.Context(), t, tl, `{}`)
		check(t, err)
		before := tl.Stats().Fuel
		_, err = invoke(t.Context(), t, tl, `{}`)
		return tl.Stats().Fuel - before, err
	}
	want, err := used(Spec{Isolation: Fresh})
	if err != nil || want < 1_500_000 { // two refills at least
		t.Fatalf("%d units, %v", want, err)
	}
	for _, s := range []Spec{{Isolation: Snapshot}, {Isolation: Snapshot, Limits: Limits{Fuel: want}}, {Isolation: Fresh, Limits: Limits{Fuel: want}}} {
		if got, err := used(s); got != want || err != nil {
			t.Errorf("%+v: %d units instead of %d, %v", s, got, want, err)
		}
	}
	tl := bind(t, r, m.Bytes(), Spec{Limits: Limits{Fuel: want - 1}})
	_, err = invoke(t.Context(), t, tl, `{}`)
	wantFault(t, err, fault.Exhausted, fmt.Sprintf("used more than %d units of fuel", want-1))
}

// TestRefill: the account is exact for charges larger than a quantum, and never above the
// limit.
func TestRefill(t *testing.T) {
	for _, c := range []struct{ left, granted, limit, wantLeft, wantGranted int64 }{
		{0, 0, 0, quantum, quantum},
		{-5, quantum, 0, quantum, 2*quantum + 5},
		{-3 * quantum, quantum, 0, quantum, 5 * quantum},
		{0, 0, 10, 10, 10},
		{-4, 10, 14, 0, 14},
		{-4, 10, 15, 1, 15},
		{-4, 10, 13, -4, -1},
		{-1, math.MaxInt64 - 10, math.MaxInt64, 9, math.MaxInt64},
	} {
		g := global(c.left)
		f := fuel{left: &g, granted: c.granted, limit: c.limit}
		ok := f.refill()
		if ok != (c.wantGranted >= 0) || ok && (int64(g) != c.wantLeft || f.granted != c.wantGranted) {
			t.Errorf("%+v: left %d, granted %d, %v", c, int64(g), f.granted, ok)
		}
	}
}

// global is a mutable global outside of any module.
type global int64

func (g *global) Get() uint64  { return uint64(*g) }
func (g *global) Set(v uint64) { *g = global(v) }

// TestTurns: a guest that ran for a while lets others run.
func TestTurns(t *testing.T) {
	c := &call{}
	c.yield()
	if c.resumed.IsZero() {
		t.Error("the turn has no beginning")
	}
	later := time.Now().Add(time.Hour)
	c.resumed = later
	c.yield()
	if c.resumed != later {
		t.Error("yielded within its turn")
	}
	begun := time.Now()
	c.resumed = begun.Add(-2 * turn)
	c.yield()
	if c.resumed.Before(begun) {
		t.Error("did not yield")
	}
}

// TestEndDeepInRecursion: the end of a guest that has recursed deeply does not pass by
// every frame, and no guest that called another one ends with it.
func TestEndDeepInRecursion(t *testing.T) {
	r := open(t, Options{})
	deep := reactor(enc.Call(2), enc.Const(0))
	deep.Funcs = append(deep.Funcs, enc.Func{Body: slices.Concat(spin(1), enc.Call(2))})
	inner := bind(t, r, deep.Bytes(), Spec{Name: "inner", Limits: Limits{Fuel: 3_000_000}})
	c := newCall(t.Context(), inner, inner.module.program)
	defer c.end()
	_, err := c.invoke("hermes_call")
	if err == nil || strings.Contains(err.Error(), "wasm stack trace") || r.aborted() == nil {
		t.Errorf("ended with %v", err)
	}
	wantFault(t, c.ended(), fault.Exhausted, "3000000 units")

	outer := bind(t, r, reactor(enc.Const(42)).Bytes(), Spec{Name: "outer"})
	o := newCall(t.Context(), outer, outer.module.program)
	defer o.end()
	check(t, o.run(func(api.Module) error {
		_, err := invoke(o.ctx, t, inner, `{}`)
		wantFault(t, err, fault.Exhausted, "3000000 units")
		return nil
	}))
	wantCode(t, outer, 42)
}
