package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hermes-runtime/hermes/bench/workload/go/count"
)

// arguments are what every call gets, 132 bytes.
const arguments = `{"text":"The quick brown fox\njumps over \"thirteen\" lazy dogs, runs away\tand comes back again \u2014 caf\u00e9 by day, each day."}`

// want is what every call must answer.
func want() []byte {
	out, err := count.JSON([]byte(arguments))
	if err != nil {
		panic(err)
	}
	return out
}

// envelope is the input of a reactor for these arguments, as hermes writes it.
func envelope(args []byte) []byte {
	b := append([]byte(`{"tool":"count","arguments":`), args...)
	return append(b, `,"call":{"id":"call-1","agent":"bench","session":"s-1","run":"r-1","deadline_ms":3600000,"idempotency_key":"r-1/1"}}`...)
}

// caller does the work once. It is safe for concurrent use.
type caller func(ctx context.Context, args []byte) ([]byte, error)

// variant is one way of doing the work.
type variant struct {
	language string // go, c, rust, as
	name     string
	pooled   bool // instances are kept for further calls
	// open prepares the work; idle is the number of instances that are kept, nil if none are.
	open func(tb testing.TB) (do caller, idle func() int)
}

func (v variant) String() string { return v.language + "/" + v.name }

// built reads what build.sh made.
func built(tb testing.TB, name string) []byte {
	tb.Helper()
	b, err := os.ReadFile(path(name))
	if err != nil {
		tb.Fatalf("%v: run make -C bench build first", err)
	}
	return b
}

func path(name string) string { return filepath.Join("out", name) }

// within is the context of all calls: it can end, as that of any server's call can.
func within(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	tb.Cleanup(cancel)
	return ctx
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// right runs one call and holds its answer against want.
func right(ctx context.Context, do caller, expected []byte) error {
	got, err := do(ctx, []byte(arguments))
	if err != nil {
		return err
	}
	if !bytes.Equal(got, expected) {
		return fmt.Errorf("got %s; want %s", got, expected)
	}
	return nil
}

// pool is a free list of instances: as many are made as are in use at once.
type pool[T any] struct {
	mu   sync.Mutex
	free []T
	make func() (T, error)
}

func (p *pool[T]) get() (T, error) {
	p.mu.Lock()
	if n := len(p.free); n > 0 {
		v := p.free[n-1]
		p.free = p.free[:n-1]
		p.mu.Unlock()
		return v, nil
	}
	p.mu.Unlock()
	return p.make()
}

func (p *pool[T]) idle() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.free)
}

func (p *pool[T]) put(v T) {
	p.mu.Lock()
	p.free = append(p.free, v)
	p.mu.Unlock()
}
