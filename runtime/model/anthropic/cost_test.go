package anthropic_test

import (
	"testing"

	"github.com/hermes-runtime/hermes/runtime/model/anthropic"
	"github.com/hermes-runtime/hermes/runtime/model/modeltest"
)

func canned(t testing.TB) *anthropic.Provider {
	t.Helper()
	p, err := anthropic.New(anthropic.Options{Model: "m", Transport: modeltest.Canned(`data: {"type":"message_start"}
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"ok"}}
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}
data: {"type":"message_stop"}
`)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestToolsAreCopiedOnce(t *testing.T) { modeltest.RunToolCost(t, canned(t)) }

func BenchmarkTools(b *testing.B) { modeltest.BenchmarkTools(b, canned(b)) }
