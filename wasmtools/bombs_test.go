package wasmtools

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hermes-runtime/hermes/runtime/egress"
	"github.com/hermes-runtime/hermes/runtime/fault"
)

// bomb is a module that is out to harm its host, and how hermes is to end it.
type bomb struct {
	name string
	// make makes the module and its declaration.
	make func(t *testing.T) ([]byte, Spec)
	// refused is what the error of compiling or binding says; empty: the module is taken.
	refused string
	// kinds are those that the error of a call may have; empty: the call may succeed.
	kinds []fault.Kind
	says  string // the error, in part
	// attackers run at once; 0: 2.
	attackers int
	fuse      time.Duration // the least deadline of a call; 0: fuse
	// grows is how much the process may grow meanwhile, in MiB; 0: 128.
	grows int64
}

const (
	// bombEnv names the bomb that a child process is to set off.
	bombEnv = "HERMES_TEST_BOMB"
	// fuse is the deadline of a call to a bomb that it may end.
	fuse = 300 * time.Millisecond
	// patience is far more than any call may take beyond its deadline, and far less than
	// those took that nothing ended.
	patience = 20 * time.Second
)

// TestBombs sets off each bomb in a process of its own, since the worst of them end it.
// Meanwhile and afterwards another tool must answer, and nothing may be left behind.
func TestBombs(t *testing.T) {
	all := bombs()
	if name := os.Getenv(bombEnv); name != "" {
		for _, b := range all {
			if b.name == name {
				b.explode(t)
				return
			}
		}
		t.Fatalf("no bomb %q", name)
	}
	for i, b := range all {
		if raced && i%4 != 0 { // the detector has little to find in one guest, and takes a minute for it
			continue
		}
		t.Run(b.name, func(t *testing.T) { inChild(t, b.name) })
	}
}

// inChild runs the bomb in a child and passes on what it logs.
func inChild(t *testing.T, name string) {
	exe, err := os.Executable()
	check(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe, "-test.run=^TestBombs$", "-test.v", "-test.timeout=100s")
	cmd.Env = append(os.Environ(), bombEnv+"="+name)
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "_test.go:") {
			t.Log(strings.TrimSpace(line))
		}
	}
	if err != nil {
		t.Errorf("the process ended with %v", err)
		if !strings.Contains(string(out), "--- FAIL") {
			t.Logf("%.4000s", out) // it was killed, or died
		}
	}
}

// explode sets the bomb off in this process.
func (b bomb) explode(t *testing.T) {
	quiet := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, quiet) }) // after those of the bomb
	before := takeStock(t)
	guard := egress.New(egress.Options{})
	defer guard.Close()
	r, err := Open(Options{CacheDir: t.TempDir(), Egress: guard})
	check(t, err)
	bystander := bind(t, r, answer(0), Spec{Name: "bystander"})
	stop := keepServing(t, bystander)
	tl, err := b.load(t, r)
	if b.refused != "" {
		if err == nil || !strings.Contains(err.Error(), b.refused) {
			t.Errorf("loading: %v; want …%s…", err, b.refused)
		}
	} else if err != nil {
		t.Errorf("loading: %v", err)
	}
	if tl != nil {
		b.attack(t, tl)
		check(t, tl.Close())
	}
	served, stall := stop()
	if served == 0 {
		t.Error("the other tool did not answer meanwhile")
	}
	if _, err := invoke(t.Context(), t, bystander, `{}`); err != nil {
		t.Errorf("the other tool, afterwards: %v", err)
	}
	check(t, bystander.Close())
	check(t, r.Close(t.Context()))
	after := takeStock(t)
	t.Logf("%d other calls served; worst collection %s; %s", served, stall.Round(100*time.Microsecond), after.since(before))
	b.compare(t, before, after)
}

func (b bomb) load(t *testing.T, r *Runtime) (*Tool, error) {
	wasm, s := b.make(t)
	begun := time.Now()
	m, err := r.Compile(t.Context(), wasm)
	if took := time.Since(begun); took > patience {
		t.Errorf("compiling took %s", took)
	}
	if err != nil {
		return nil, err
	}
	defer m.Release()
	if s.Name == "" {
		s.Name = "bomb"
	}
	return m.Bind(s)
}

// attack calls the bomb, several times at once and once more.
func (b bomb) attack(t *testing.T, tl *Tool) {
	n := b.attackers
	if n == 0 {
		n = 2
	}
	var all sync.WaitGroup
	for range n {
		all.Go(func() { b.call(t, tl) })
	}
	all.Wait()
	b.call(t, tl)
}

func (b bomb) call(t *testing.T, tl *Tool) {
	limit := max(b.fuse, fuse)
	if !slices.Contains(b.kinds, fault.Timeout) {
		limit = max(limit, patience) // it ends by itself, as slowly as a busy machine makes it
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	begun := time.Now()
	got, err := invoke(ctx, t, tl, `{}`)
	took := time.Since(begun)
	t.Logf("%s: %q, %v", took.Round(time.Millisecond), got, err)
	if took > limit+patience {
		t.Errorf("the call took %s", took)
	}
	if len(b.kinds) == 0 {
		if err != nil {
			t.Errorf("the call: %v", err)
		}
		return
	}
	for _, k := range b.kinds {
		if err != nil && fault.KindOf(err) == k && strings.Contains(fault.Message(err), b.says) {
			return
		}
	}
	t.Errorf("the call: %v (%s); want %v: …%s…", err, fault.KindOf(err), b.kinds, b.says)
}

// keepServing calls the tool, and collects garbage, until it is stopped. It then says how
// many calls were answered and how long the longest collection took.
func keepServing(t *testing.T, tl *Tool) (stop func() (served int, stall time.Duration)) {
	done, ended := make(chan struct{}), make(chan struct{})
	served, stall := 0, time.Duration(0)
	go func() {
		defer close(ended)
		for {
			if _, err := invoke(t.Context(), t, tl, `{}`); err != nil {
				t.Errorf("the other tool: %v", err)
			}
			served++
			begun := time.Now()
			runtime.GC()
			stall = max(stall, time.Since(begun))
			select {
			case <-done:
				return
			default:
				runtime.Gosched()
			}
		}
	}()
	return func() (int, time.Duration) {
		close(done)
		<-ended
		return served, stall
	}
}

// stock is what a process holds.
type stock struct{ resident, peak, descriptors int64 } // memory in MiB

// takeStock counts it, after what is free was given back.
func takeStock(t *testing.T) stock {
	t.Helper()
	peak := status(t, "VmHWM:")
	debug.FreeOSMemory()
	return stock{resident: status(t, "VmRSS:"), peak: peak, descriptors: int64(descriptors(t))}
}

// status reads a size of this process in MiB.
func status(t *testing.T, name string) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	check(t, err)
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == name {
			kib, err := strconv.ParseInt(f[1], 10, 64)
			check(t, err)
			return kib / 1024
		}
	}
	t.Fatalf("no %s in /proc/self/status", name)
	return 0
}

func (s stock) since(before stock) string {
	return fmt.Sprintf("memory %+d MiB, at most %+d MiB; descriptors %+d",
		s.resident-before.resident, s.peak-before.peak, s.descriptors-before.descriptors)
}

func (b bomb) compare(t *testing.T, before, after stock) {
	if grew := after.resident - before.resident; grew > 48 && !raced {
		t.Errorf("%d MiB are left", grew)
	}
	allowed := b.grows
	if allowed == 0 {
		allowed = 128
	}
	if grew := after.peak - before.peak; grew > allowed && !raced {
		t.Errorf("the process grew by %d MiB; at most %d are allowed", grew, allowed)
	}
	// The network poller of Go's runtime takes two and keeps them.
	if more := after.descriptors - before.descriptors; more > 3 {
		t.Errorf("%d descriptors are left", more)
	}
}
