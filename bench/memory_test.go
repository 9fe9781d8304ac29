package bench

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// BenchmarkMemory measures what an idle instance takes of the process's own memory, after
// calls: it makes many instances, and compares with one. Code, and what instances share,
// are not in it.
func BenchmarkMemory(b *testing.B) {
	if runtime.GOOS != "linux" {
		b.Skip("measuring memory needs /proc")
	}
	for _, v := range variants() {
		if !v.pooled {
			continue
		}
		b.Run(v.String(), func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(instances)) // as many calls at once
			do, idle := v.open(b)
			one(b, do)
			base, few := privateDirty(b), idle()
			crowd(b, do, idle)
			kib := float64(privateDirty(b)-base) / float64(idle()-few)
			for b.Loop() {
				one(b, do)
			}
			b.ReportMetric(kib, "KiB/instance")
		})
	}
}

// instances is the number that crowd makes, at least.
const instances = 12

func one(b *testing.B, do caller) {
	b.Helper()
	must(b, right(context.Background(), do, want()))
}

// crowd makes calls at the same time until there are enough idle instances.
func crowd(b *testing.B, do caller, idle func() int) {
	b.Helper()
	for range 200 {
		var all sync.WaitGroup
		for range 4 * instances {
			all.Go(func() {
				for range 5 {
					if err := right(context.Background(), do, want()); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		if all.Wait(); idle() > instances {
			return
		}
	}
	b.Fatalf("only %d instances", idle())
}

// privateDirty is the memory, in KiB, that this process has for itself and has written to.
func privateDirty(b *testing.B) int {
	b.Helper()
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/smaps_rollup")
	must(b, err)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "Private_Dirty:"); ok {
			kib, err := strconv.Atoi(strings.Fields(rest)[0])
			must(b, err)
			return kib
		}
	}
	b.Fatal("no Private_Dirty in smaps_rollup")
	return 0
}
