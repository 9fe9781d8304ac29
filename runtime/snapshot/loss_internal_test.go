package snapshot

import (
	"fmt"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// TestLossesAreForgotten: what was taken away is remembered while a generation that had it
// is held, and no longer.
func TestLossesAreForgotten(t *testing.T) {
	only := func(n int64) *Snapshot {
		x := &registry.Tool{Name: tool.Name(fmt.Sprint("t", n))}
		return &Snapshot{Number: n, Registry: registry.Seal([]*registry.Tool{x}, nil, nil)}
	}
	h := NewHolder()
	h.Swap(only(1), 0)
	_, release, err := h.AcquireFor("step")
	if err != nil {
		t.Fatal(err)
	}
	for n := int64(2); n <= 50; n++ {
		h.Swap(only(n), 0)
	}
	if n := len(h.losses); n != 49 {
		t.Errorf("%d losses are remembered for generation 1, want 49", n)
	}
	release()
	for n := int64(51); n <= 100; n++ {
		h.Swap(only(n), 0)
	}
	if n := len(h.losses); n != 1 {
		t.Errorf("%d losses are remembered with nothing held, want that of the last swap", n)
	}
}
