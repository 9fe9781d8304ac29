package openai_test

import (
	"testing"

	"github.com/hermes-runtime/hermes/runtime/model/modeltest"
	"github.com/hermes-runtime/hermes/runtime/model/openai"
)

func canned(t testing.TB) *openai.Provider {
	t.Helper()
	p, err := openai.New(openai.Options{Model: "m", Transport: modeltest.Canned(chunkOf("ok") + stopChunk + doneLine)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestToolsAreCopiedOnce(t *testing.T) { modeltest.RunToolCost(t, canned(t)) }

func BenchmarkTools(b *testing.B) { modeltest.BenchmarkTools(b, canned(b)) }
