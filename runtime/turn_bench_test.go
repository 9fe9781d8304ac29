package runtime

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/run"
)

// BenchmarkTurn is one turn without tools, committed, of a model that answers at once over
// HTTP: alone, and with many at once.
func BenchmarkTurn(b *testing.B) {
	states := map[string]func() string{
		"normal": func() string { return filepath.Join(b.TempDir(), "state") + "?synchronous=normal" },
		"full":   func() string { return filepath.Join(b.TempDir(), "state") },
	}
	for name, state := range states {
		b.Run(name, func(b *testing.B) {
			sys := benchSystem(b, state())
			turn := func() {
				r, err := sys.Loop().Start(b.Context(), agent.Turn{
					Agent: "a", Principal: principal.Local(), Hidden: true, Input: []chat.Message{{Role: chat.User, Content: "go"}},
				})
				if err != nil {
					b.Error(err)
					return
				}
				if o, err := r.Wait(b.Context()); err != nil || o.Status != run.Completed {
					b.Errorf("%+v, %v", o, err)
				}
			}
			b.Run("alone", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					turn()
				}
			})
			b.Run("16 at once", func(b *testing.B) {
				b.ReportAllocs()
				b.SetParallelism(8)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						turn()
					}
				})
			})
		})
	}
}

// benchSystem is a daemon with an agent whose model answers at once.
func benchSystem(b *testing.B, state string) *System {
	b.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, piece := range []string{`{"role":"assistant","content":"Hello, "}`, `{"content":"this is an answer."}`} {
			fmt.Fprintf(w, `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":%s,"finish_reason":null}]}`+"\n\n", piece)
			w.(http.Flusher).Flush()
		}
		fmt.Fprint(w, `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	}))
	b.Cleanup(srv.Close)
	dir := b.TempDir()
	config := fmt.Sprintf(`
provider "openai" "default" {
  base_url = %q
}
model "m" {
  provider       = "openai.default"
  context_window = 128000
}
agent "a" {
  model        = "m"
  instructions = "Answer."
}
runtime {
  max_runs = 1000
}
`, srv.URL)
	if err := os.WriteFile(filepath.Join(dir, "main.hcl"), []byte(config), 0o600); err != nil {
		b.Fatal(err)
	}
	sys, err := New(Options{ConfigDir: dir, State: state, NoWatch: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(sys.Close)
	if diags, err := sys.Load(b.Context()); err != nil {
		b.Fatal(err, diags)
	}
	return sys
}
