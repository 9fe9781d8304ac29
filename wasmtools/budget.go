package wasmtools

import (
	"math"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

// Bounds of the memory budget that is derived from the machine, in bytes. Where its size
// cannot be found out, the budget is defaultMachine's.
const (
	minBudget      = 256 << 20
	defaultMachine = 4 << 30
)

// budget bounds the memory that all guests of a Runtime have together: their linear
// memories, the images they start from, and what the host keeps for them. Memory is
// reserved before it is mapped, by its size and not by what is touched of it, so that no
// guest can take later what another was promised.
type budget struct {
	limit int64
	// evict frees the memory of one idle instance and says whether there was one. It is
	// called without mu.
	evict func() bool

	mu   sync.Mutex // guards what follows
	used int64
	peak int64
	// refused counts reservations that found no room.
	refused int64
}

// reserve takes n bytes; it lets go of idle instances for them if it must. It never
// waits: without room it says no.
func (b *budget) reserve(n int64) bool {
	for !b.take(n) {
		if b.evict == nil || !b.evict() {
			b.mu.Lock()
			b.refused++
			b.mu.Unlock()
			return false
		}
	}
	return true
}

func (b *budget) take(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.limit-b.used {
		return false
	}
	b.used += n
	b.peak = max(b.peak, b.used)
	return true
}

// release gives n reserved bytes back.
func (b *budget) release(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	if b.used < 0 {
		panic("wasmtools: more memory released than reserved")
	}
}

// machineBudget is half of the memory that this process may use.
func machineBudget() int64 { return max(minBudget, memoryOf(os.ReadFile, runtime.GOOS)/2) }

// memoryOf is the memory of the machine, or the limit of the control group if that is
// lower.
func memoryOf(read func(string) ([]byte, error), goos string) int64 {
	if goos != "linux" {
		return defaultMachine
	}
	total := int64(defaultMachine)
	if b, err := read("/proc/meminfo"); err == nil {
		total = memTotal(string(b), total)
	}
	for _, file := range groupLimits(read) {
		if b, err := read(file); err == nil {
			total = min(total, number(string(b), total))
		}
	}
	return total
}

// memTotal reads the first line of /proc/meminfo, which counts in KiB.
func memTotal(text string, otherwise int64) int64 {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kib := number(strings.TrimSuffix(strings.TrimSpace(rest), "kB"), otherwise>>10)
			return min(kib, math.MaxInt64>>10) << 10
		}
	}
	return otherwise
}

// groupLimits are the files that may hold a limit of this process: of its own group and
// those above it, in version 2 of the interface, and of the group in version 1.
func groupLimits(read func(string) ([]byte, error)) []string {
	const root = "/sys/fs/cgroup"
	files := []string{root + "/memory.max", root + "/memory/memory.limit_in_bytes"}
	b, err := read("/proc/self/cgroup")
	if err != nil {
		return files
	}
	for line := range strings.Lines(string(b)) {
		group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::/")
		if !ok {
			continue
		}
		for dir := path.Clean(group); dir != "." && dir != "/"; dir = path.Dir(dir) {
			files = append(files, path.Join(root, dir, "memory.max"))
		}
	}
	return files
}

// number reads a number above zero; anything else, "max" for example, is otherwise.
func number(text string, otherwise int64) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n <= 0 {
		return otherwise
	}
	return n
}

// figures are the bytes reserved, the most there ever were, and the number of refusals.
func (b *budget) figures() (used, peak, refused int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used, b.peak, b.refused
}
