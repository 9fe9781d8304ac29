package runtime

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	goruntime "runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/generation"
	"github.com/hermes-runtime/hermes/runtime/reload"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/store/lock"
	"github.com/hermes-runtime/hermes/wasmtools"
)

// loadForm is how much load there is.
type loadForm struct {
	runs, edits int
	over        time.Duration
	seed        uint64
}

// loadFormOf reads the form from the environment: HERMES_LOAD=runs,edits,duration[,seed],
// for example 200,1000,4m.
func loadFormOf(t *testing.T) loadForm {
	t.Helper()
	f := loadForm{runs: 200, edits: 120, over: 15 * time.Second, seed: 1}
	if testing.Short() {
		f = loadForm{runs: 24, edits: 40, over: 5 * time.Second, seed: 1}
	}
	given := os.Getenv("HERMES_LOAD")
	if given == "" {
		return f
	}
	parts := strings.Split(given+",1", ",")
	var errs [4]error
	if len(parts) < 4 {
		t.Fatalf("HERMES_LOAD=%s: want runs,edits,duration[,seed]", given)
	}
	f.runs, errs[0] = strconv.Atoi(parts[0])
	f.edits, errs[1] = strconv.Atoi(parts[1])
	f.over, errs[2] = time.ParseDuration(parts[2])
	f.seed, errs[3] = strconv.ParseUint(parts[3], 10, 64)
	for _, err := range errs {
		if err != nil {
			t.Fatalf("HERMES_LOAD=%s: %v", given, err)
		}
	}
	return f
}

// TestReloadsUnderLoad edits a project at random, for good and for bad, while runs with
// tool calls follow each other without a pause. No run may fail for any reason but the
// removal of its agent, no call for any but that of its tool; no step may see the
// description of one edit and the handler of another; and nothing may be left.
func TestReloadsUnderLoad(t *testing.T) {
	form := loadFormOf(t)
	w := newWorld(t)
	e := newEditor(t, w, form.seed)
	sys, base, stop := serveWorld(t, w)
	defer stop()
	y := newTally()

	work(t, sys, base, w, y, form, func(context.Context) { time.Sleep(form.over / 10) }) // what is made once is made
	before, idle := quiesce(t, sys, w), readMemory(0)
	log := &sampler{rest: func() func() {
		w.busy.Lock()
		w.disconnect()
		quiesce(t, sys, w)
		return w.busy.Unlock
	}}
	work(t, sys, base, w, y, form, func(ctx context.Context) {
		samples := log.during(ctx, form.over)
		pause := form.over / time.Duration(form.edits)
		for range form.edits {
			begin := time.Now()
			w.busy.RLock()
			e.step()
			w.busy.RUnlock()
			time.Sleep(pause - time.Since(begin))
		}
		<-samples
	})
	if n := w.nonces.mixed.Load(); n > 0 {
		y.fault("%d calls saw another nonce than their handler's", n)
	}
	e.mendAll()
	out, err := sys.Reloader().Reload(t.Context(), reload.TriggerAPI)
	if err != nil || len(out.Stale) > 0 {
		t.Errorf("the mended project: %v, stale %+v", err, out.Stale)
	}
	after := quiesce(t, sys, w)
	steadyInHistory(t, sys, y)
	y.report(t)
	t.Logf("edits %v; generation %d", e.counts, out.Generation)
	t.Logf("before %+v, memory %v; after %+v, memory %v", before, idle, after, readMemory(form.over))
	if diff := cmp.Diff(definitionsOf(t, sys), freshDefinitions(t, w)); diff != "" {
		t.Errorf("live and a fresh load differ (-live +fresh):\n%s", diff)
	}
	after.compare(t, before)
	log.judge(t)
}

// steadyInHistory finds every generation in which something is gone that is never taken
// away, also one that no run met.
func steadyInHistory(t *testing.T, sys *System, y *tally) {
	t.Helper()
	for before := int64(0); ; {
		page, err := sys.Store().ListGenerations(t.Context(), before, 100)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			return
		}
		for _, g := range page {
			before = g.Number
			steadyIn(t, sys, y, g)
		}
	}
}

func steadyIn(t *testing.T, sys *System, y *tally, g store.Generation) {
	t.Helper()
	var diff generation.Diff
	if err := json.Unmarshal(g.Diff, &diff); err != nil {
		t.Fatal(err)
	}
	for _, c := range diff.Changes {
		kind, name, _ := strings.Cut(c.Object, ".")
		if c.Action != generation.Removed || kind == "tool" && !isSteady(name) || kind != "tool" && c.Object == "agent.passing" {
			continue
		}
		inputs, err := sys.Store().GenerationInputs(t.Context(), g.Number)
		if err != nil {
			t.Fatal(err)
		}
		var files []string
		for _, in := range inputs {
			files = append(files, fmt.Sprintf("%s %d", in.Path, in.Size))
		}
		y.fault("%s is gone in generation %d (%s), made of %q", c.Object, g.Number, g.Trigger, files)
	}
}

// serveWorld serves the project of w in this process.
func serveWorld(t *testing.T, w *world) (sys *System, base string, stop func()) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(loadLog(t), nil))
	sys = loaded(t, Options{
		ConfigDir: w.dir, Listen: "127.0.0.1:0", State: filepath.Join(w.dir, "state") + "?synchronous=normal",
		HostFuncs: []hostfuncs.Func{w.nonces.function()}, Log: log,
	})
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- sys.Serve(ctx, nil) }()
	for base == "" {
		select {
		case err := <-served:
			t.Fatalf("serving: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
		if owner, ok := lock.Owner(sys.Paths().State); ok {
			base = owner.Address
		}
	}
	return sys, base, func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serving: %v", err)
		}
		sys.Close()
		if n := w.nonces.live.Load(); n != 0 {
			t.Errorf("%d handlers were not closed", n)
		}
	}
}

// loadLog is where the daemon's log goes: a file that HERMES_LOAD_LOG names, or nowhere.
func loadLog(t *testing.T) *os.File {
	t.Helper()
	name := os.Getenv("HERMES_LOAD_LOG")
	if name == "" {
		name = os.DevNull
	}
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// work keeps form.runs runs going while edit edits.
func work(t *testing.T, sys *System, base string, w *world, y *tally, form loadForm, edit func(context.Context)) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: form.runs}}
	defer client.CloseIdleConnections()
	w.disconnect = client.CloseIdleConnections
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for i := range form.runs {
		wg.Go(func() {
			r := &runner{
				sys: sys, base: base, w: w, tally: y, http: client,
				rnd: rand.New(rand.NewPCG(form.seed, uint64(1+i))),
			}
			r.runs(ctx)
		})
	}
	edit(ctx)
	cancel()
	wg.Wait()
}

// stock is what a quiet daemon holds.
type stock struct {
	goroutines, descriptors, handlers, draining int
	guests                                      wasmtools.Stats
}

// quiesce waits until nothing is going on, and takes stock.
func quiesce(t *testing.T, sys *System, w *world) stock {
	t.Helper()
	var s, last stock
	for still := 0; still < 5; {
		time.Sleep(50 * time.Millisecond)
		goruntime.GC()
		s = stock{
			goroutines: goruntime.NumGoroutine(), handlers: int(w.nonces.live.Load()), draining: len(sys.Holder().Draining()), guests: sys.guests(),
		}
		s.descriptors = len(descriptors())
		if still++; s != last {
			still = 0
		}
		last = s
	}
	return s
}

// descriptors are what the process has open, where the system tells, without those of
// the database: it keeps a bounded number of connections, and opens them when there is
// a crowd.
func descriptors() []string {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil
	}
	out := make([]string, 0, len(entries))
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name())); err == nil && !strings.Contains(to, "hermes.db") {
			out = append(out, to)
		}
	}
	slices.Sort(out)
	return out
}

// compare fails the test for what is there and was not before.
func (s stock) compare(t *testing.T, before stock) {
	t.Helper()
	for _, c := range []struct {
		what        string
		now, before int
	}{
		{"goroutines", s.goroutines, before.goroutines}, {"descriptors", s.descriptors, before.descriptors}, {"handlers", s.handlers, before.handlers},
		{"draining generations", s.draining, 0}, {"modules", s.guests.Modules, before.guests.Modules}, {"running guests", s.guests.Running, 0},
	} {
		if c.now > c.before {
			t.Errorf("%s: %d, before the edits %d; open are %q", c.what, c.now, c.before, descriptors())
		}
	}
}

// definitionsOf are the definitions of every agent, as bytes.
func definitionsOf(t *testing.T, sys *System) map[string]string {
	t.Helper()
	lease, release, err := sys.Holder().Acquire()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	out := map[string]string{}
	for name, a := range lease.Agents {
		var b strings.Builder
		for _, d := range a.View.Definitions() {
			b.Write(d.JSON)
			b.WriteByte('\n')
		}
		out[name] = b.String()
	}
	return out
}

// freshDefinitions are those of a daemon that starts on a copy of the project.
func freshDefinitions(t *testing.T, w *world) map[string]string {
	t.Helper()
	nonces := &nonceFunc{}
	sys := loaded(t, Options{ConfigDir: w.copyProject(t), NoWatch: true, HostFuncs: []hostfuncs.Func{nonces.function()}})
	defer sys.Close()
	return definitionsOf(t, sys)
}

// sample is the memory of the process at a time.
type sample struct {
	at             time.Duration
	heap, resident float64 // MiB
}

// sampler samples memory over the last third, ten times where that is long enough to judge.
// For each sample new runs and edits wait, those under way end, and the clients' idle
// connections are closed: what all these hold differs more from one moment to the next than
// a leak would add in a minute.
type sampler struct {
	rest    func() (resume func())
	samples []sample
}

// during samples until the time is over; the channel is closed then.
func (l *sampler) during(ctx context.Context, over time.Duration) <-chan struct{} {
	done := make(chan struct{})
	begin, n := time.Now(), 10
	if over < judged {
		n = 2
	}
	go func() {
		defer close(done)
		for i := range n {
			due := over*2/3 + over*time.Duration(i)/time.Duration(3*n)
			select {
			case <-time.After(due - time.Since(begin)):
			case <-ctx.Done():
				return
			}
			resume := l.rest()
			l.samples = append(l.samples, readMemory(time.Since(begin)))
			resume()
		}
	}()
	return done
}

// judged is how long the work has to take for its memory to be judged.
const judged = 2 * time.Minute

// readMemory collects, and reads what is left.
func readMemory(at time.Duration) sample {
	debug.FreeOSMemory()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	s := sample{at: at, heap: float64(m.HeapAlloc) / (1 << 20)}
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return s
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(raw), &size, &resident); err == nil {
		s.resident = float64(resident) * float64(os.Getpagesize()) / (1 << 20)
	}
	return s
}

// String shows a sample.
func (s sample) String() string {
	return fmt.Sprintf("%.0fs %.1f/%.1f", s.at.Seconds(), s.heap, s.resident)
}

// judge bounds how fast memory grows, where there was time to see it.
func (l *sampler) judge(t *testing.T) {
	t.Helper()
	heap, resident := slope(l.samples, func(s sample) float64 { return s.heap }), slope(l.samples, func(s sample) float64 { return s.resident })
	t.Logf("memory over the last third: heap %+.2f MiB a minute, resident %+.2f MiB a minute; %s", heap, resident, l.samples)
	if len(l.samples) < 10 {
		return
	}
	if heap > 1 || resident > 1 {
		t.Errorf("memory grows: heap %.2f, resident %.2f MiB a minute", heap, resident)
	}
}

// slope is that of the line through the samples with the least squares, a minute.
func slope(samples []sample, of func(sample) float64) float64 {
	var n, x, y, xx, xy float64
	for _, s := range samples {
		at := s.at.Minutes()
		n, x, y, xx, xy = n+1, x+at, y+of(s), xx+at*at, xy+at*of(s)
	}
	if d := n*xx - x*x; d != 0 {
		return (n*xy - x*y) / d
	}
	return 0
}
