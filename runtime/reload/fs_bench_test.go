package reload

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hermes-runtime/hermes/runtime/snapshot"
)

// stages are the times at which the steps of the last reload were done.
type stages struct {
	mu sync.Mutex // guards below
	at map[string]time.Time
}

func (s *stages) step(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at[name] = time.Now()
}

// split adds up where the time from a write to the swap went.
func (s *stages) split(wrote, begin time.Time, sum map[string]time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum["debounce"] += begin.Sub(wrote)
	last := begin
	for _, name := range []string{StepLooked, StepLoaded, StepBuilt, StepSwapped} {
		sum[name] += s.at[name].Sub(last)
		last = s.at[name]
	}
}

// BenchmarkWriteToLive is the time from a write of one file among many to the swap of the
// generation that has it, with real events; the metrics say where it goes.
func BenchmarkWriteToLive(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 2000} {
		b.Run(fmt.Sprintf("%d tools", n), func(b *testing.B) { writeToLive(b, n) })
	}
}

func writeToLive(b *testing.B, n int) {
	fs, _ := manyTools(b, n)
	st := &stages{at: map[string]time.Time{}}
	p := start(b, fs, func(o *Options) { o.OnStep = st.step })
	settleClocks(p.r.disk)
	p.run()
	edits := 0
	edit := func() *snapshot.Snapshot {
		edits++
		p.write("tools.d/t0000.hcl", manyTool(0, fmt.Sprintf("Version %d.", edits), json.RawMessage(`{"type":"object"}`)))
		return <-p.swaps
	}
	for range 3 {
		edit() // perhaps found by the look at everything that Run begins with
	}
	sum, work, times := map[string]time.Duration{}, p.r.disk.work(), 0
	for b.Loop() {
		times++
		wrote := time.Now()
		s := edit()
		st.split(wrote, s.Time, sum)
	}
	for stage, d := range sum {
		b.ReportMetric(float64(d.Microseconds())/1000/float64(times), stage+"-ms")
	}
	did := p.r.disk.work().since(work)
	b.ReportMetric(float64(did.looks)/float64(times), "looks/op")
	b.ReportMetric(float64(did.lists)/float64(times), "listings/op")
}
