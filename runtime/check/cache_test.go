package check_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/hermes-runtime/hermes/runtime/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world answers probes and counts them. fail is the text of the failure, empty for
// success.
type world struct {
	mu     sync.Mutex
	fail   string
	probes int
}

func (w *world) probe(context.Context, check.Spec) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.probes++
	if w.fail != "" {
		return errors.New(w.fail)
	}
	return nil
}

func (w *world) set(fail string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail = fail
}

func (w *world) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.probes
}

func TestTTLAndGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		c := check.New(check.Options{Probe: w.probe})
		defer c.Close()
		spec := check.Spec{Kind: check.TCP, Address: "a:1", TTL: 30 * time.Second, Grace: 60 * time.Second}
		for _, step := range []struct {
			what   string
			after  time.Duration
			fail   string
			want   check.State // what is answered at once
			settle check.State // what is answered when the refresh is done
			probes int         // since the beginning, after a second question
		}{
			{"first", 0, "", check.State{OK: true}, check.State{OK: true}, 1},
			{"fresh", 29 * time.Second, "down", check.State{OK: true}, check.State{OK: true}, 1},
			{"expired, within grace", time.Second, "down", check.State{OK: true}, check.State{OK: true, Err: "down"}, 3},
			{"not cached", time.Second, "down", check.State{OK: true, Err: "down"}, check.State{OK: true, Err: "down"}, 5},
			{"back", time.Second, "", check.State{OK: true, Err: "down"}, check.State{OK: true}, 6},
			{"past grace", 60 * time.Second, "down", check.State{OK: true}, check.State{Err: "down"}, 7},
			{"failure is cached", 29 * time.Second, "", check.State{Err: "down"}, check.State{Err: "down"}, 7},
			{"and expires", time.Second, "", check.State{Err: "down"}, check.State{OK: true}, 8},
		} {
			time.Sleep(step.after)
			w.set(step.fail)
			got := c.State(spec)
			synctest.Wait()
			settled, known := c.Peek(spec)
			ignore := cmpopts.IgnoreFields(check.State{}, "At")
			if diff := cmp.Diff(step.want, got, ignore); diff != "" {
				t.Errorf("%s: at once (-want +got):\n%s", step.what, diff)
			}
			if diff := cmp.Diff(step.settle, settled, ignore); diff != "" || !known {
				t.Errorf("%s: settled (-want +got):\n%s", step.what, diff)
			}
			if got := c.State(spec); got.OK != step.settle.OK { // probes again if nothing was cached
				t.Errorf("%s: asked again got %v", step.what, got)
			}
			synctest.Wait()
			if got := w.count(); got != step.probes {
				t.Errorf("%s: %d probes, want %d", step.what, got, step.probes)
			}
		}
	})
}

func TestExpiredEntryDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		var probes atomic.Int64
		c := check.New(check.Options{Probe: func(ctx context.Context, _ check.Spec) error {
			if probes.Add(1) == 1 {
				return nil
			}
			<-gate
			return errors.New("down")
		}})
		defer c.Close()
		spec := check.Spec{Kind: check.HTTP, URL: "http://a", Timeout: time.Hour, Grace: time.Second}
		c.State(spec)
		time.Sleep(time.Hour)
		before := time.Now()
		for range 100 {
			if !c.State(spec).OK {
				t.Fatal("the last answer was not given")
			}
		}
		if time.Now() != before {
			t.Error("asking waited for a probe")
		}
		synctest.Wait()
		if got := probes.Load(); got != 2 {
			t.Errorf("%d probes, want the first and one refresh", got)
		}
		version := c.Version()
		close(gate)
		synctest.Wait()
		if c.State(spec).OK || c.Version() == version {
			t.Error("the refresh changed neither answer nor version")
		}
	})
}

func TestEqualChecksAreProbedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		var probes atomic.Int64
		c := check.New(check.Options{Probe: func(context.Context, check.Spec) error {
			probes.Add(1)
			<-gate
			return nil
		}})
		defer c.Close()
		var wg sync.WaitGroup
		for _, pos := range []string{"a.hcl:1", "b.hcl:2", "c.hcl:3"} {
			wg.Go(func() {
				if !c.State(check.Spec{Kind: check.Env, Vars: []string{"A"}, Pos: pos}).OK {
					t.Error("not OK")
				}
			})
		}
		synctest.Wait()
		close(gate)
		wg.Wait()
		if got := probes.Load(); got != 1 {
			t.Errorf("%d probes, want 1", got)
		}
	})
}

func TestKeysTellSpecsApart(t *testing.T) {
	base := check.Spec{Kind: check.Command, Run: []string{"a", "b"}, Dir: "/d"}
	same := base
	same.Pos, same.TTL, same.Status = "x:1", check.DefaultTTL, 200
	if base.Key() != same.Key() {
		t.Error("position and defaults are part of the identity")
	}
	seen := map[string]check.Spec{base.Key(): base}
	for _, other := range []check.Spec{
		{Kind: check.Command, Run: []string{"ab"}, Dir: "/d"},
		{Kind: check.Command, Run: []string{"a b"}, Dir: "/d"},
		{Kind: check.Command, Run: []string{"a", "b"}},
		{Kind: check.Env, Vars: []string{"a", "b"}, Dir: "/d"},
		{Kind: check.File, Path: "/d"},
		{Kind: check.HTTP, URL: "/d"},
		{Kind: check.TCP, Address: "/d"},
		{Kind: check.HTTP, URL: "/d", Status: 204},
		{Kind: check.HTTP, URL: "/d", TTL: 1},
		{Kind: check.HTTP, URL: "/d", Timeout: 1},
		{Kind: check.HTTP, URL: "/d", Grace: 1},
		{Kind: check.Command, Run: []string{"1:a", ""}, Dir: "/d"},
		{Kind: check.Command, Run: []string{"", "1:a"}, Dir: "/d"},
	} {
		if twin, ok := seen[other.Key()]; ok {
			t.Errorf("%+v and %+v have one key", other, twin)
		}
		seen[other.Key()] = other
	}
}

func TestWarmProbesSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := check.New(check.Options{Probe: func(context.Context, check.Spec) error {
			time.Sleep(time.Second)
			return nil
		}})
		defer c.Close()
		var specs []check.Spec
		for name := range strings.SplitSeq("abcdefghijklmnop", "") { // as many as may run at once
			specs = append(specs, check.Spec{Kind: check.TCP, Address: name})
		}
		start := time.Now()
		c.Warm(append(specs, specs...))
		if took := time.Since(start); took != 0 {
			t.Errorf("Warm took %s", took)
		}
		synctest.Wait()
		for _, s := range specs {
			if !c.State(s).OK {
				t.Errorf("%s: not OK", s.Address)
			}
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("took %s, want 1s", took)
		}
	})
}

func TestRetainForgets(t *testing.T) {
	w := &world{}
	c := check.New(check.Options{Probe: w.probe})
	defer c.Close()
	kept, dropped := check.Spec{Kind: check.Env, Vars: []string{"A"}}, check.Spec{Kind: check.Env, Vars: []string{"B"}}
	c.State(kept)
	c.State(dropped)
	version := c.Version()
	c.Retain([]check.Spec{kept})
	if _, known := c.Peek(kept); !known {
		t.Error("what was to be kept is gone")
	}
	if _, known := c.Peek(dropped); known {
		t.Error("what was dropped is still known")
	}
	w.set("down")
	if c.State(dropped).OK || c.Version() == version {
		t.Error("a new first answer must show, and change the version")
	}
}

func TestCloseInterruptsAndForgetsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hang atomic.Bool
		c := check.New(check.Options{Probe: func(ctx context.Context, _ check.Spec) error {
			if hang.Load() {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}})
		known := check.Spec{Kind: check.Env, Vars: []string{"A"}, Timeout: time.Hour, TTL: time.Second, Grace: time.Second}
		c.State(known)
		hang.Store(true)
		time.Sleep(time.Hour)
		c.State(known) // starts a refresh that hangs
		first := make(chan check.State, 1)
		go func() { first <- c.State(check.Spec{Kind: check.Env, Vars: []string{"B"}, Timeout: time.Hour}) }()
		synctest.Wait()
		c.Close()
		if got := <-first; got.OK || got.Err == "" {
			t.Errorf("an interrupted first probe gave %v", got)
		}
		if !c.State(known).OK {
			t.Error("an interrupted refresh was taken for a failure")
		}
		if got := c.State(check.Spec{Kind: check.Env, Vars: []string{"C"}}); got.OK || got.Err == "" {
			t.Errorf("after Close a new check gave %v", got)
		}
	})
}

func TestFlipsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		w := &world{}
		c := check.New(check.Options{Probe: w.probe, Log: slog.New(slog.NewTextHandler(&out, nil))})
		spec := check.Spec{Kind: check.Env, Pos: "a.hcl:3", TTL: time.Second, Grace: time.Second}
		for _, fail := range []string{"", "", "gone", "gone"} {
			w.set(fail)
			c.State(spec)
			time.Sleep(2 * time.Second)
		}
		c.Close()
		if got := strings.Count(out.String(), "check changed"); got != 1 || !strings.Contains(out.String(), `pos=a.hcl:3 ok=false err=gone`) {
			t.Errorf("log:\n%s", out.String())
		}
	})
}

func TestHammer(t *testing.T) {
	var flip atomic.Int64
	c := check.New(check.Options{Probe: func(context.Context, check.Spec) error {
		if flip.Add(1)%2 == 0 {
			return errors.New("down")
		}
		return nil
	}})
	var wg sync.WaitGroup
	for p := range 8 {
		wg.Go(func() {
			for i := range 500 {
				s := check.Spec{Kind: check.Env, Vars: []string{string(rune('a' + (p+i)%5))}, TTL: 1, Grace: 1}
				c.State(s)
				c.Version()
				c.Peek(s)
				if i%50 == 0 {
					c.Retain([]check.Spec{s})
					c.Warm([]check.Spec{s})
				}
				if p == 0 && i == 450 {
					c.Close()
				}
			}
		})
	}
	wg.Wait()
	c.Close()
}

func TestAskingAllocatesNothing(t *testing.T) {
	c := check.New(check.Options{Probe: func(context.Context, check.Spec) error { return nil }})
	defer c.Close()
	s := check.Spec{Kind: check.Command, Run: []string{"git", "--version"}, Dir: "/a/long/directory/name", TTL: time.Hour}
	c.State(s)
	if got := testing.AllocsPerRun(100, func() { c.State(s) }); got != 0 {
		t.Errorf("%v allocations, want 0", got)
	}
}

func BenchmarkState(b *testing.B) {
	c := check.New(check.Options{Probe: func(context.Context, check.Spec) error { return nil }})
	defer c.Close()
	s := check.Spec{Kind: check.Env, Vars: []string{"WEATHER_KEY"}, TTL: time.Hour}
	b.ReportAllocs()
	for b.Loop() {
		c.State(s)
	}
}
