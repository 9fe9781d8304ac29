package modeltest

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/model"
)

// Canned is a transport that answers every request with the same stream, without a network:
// what is measured through it is the adapter alone.
type Canned string

// RoundTrip implements http.RoundTripper.
func (c Canned) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body: io.NopCloser(strings.NewReader(string(c))), Request: r,
	}, nil
}

// Catalogue is n definitions of about a kilobyte each.
func Catalogue(n int) []chat.Definition {
	out := make([]chat.Definition, n)
	for i := range out {
		name := fmt.Sprintf("tool_%04d", i)
		out[i] = chat.Definition{Name: name, JSON: fmt.Appendf(nil,
			`{"type":"function","function":{"description":%q,"name":%q,"parameters":{"type":"object","properties":{"id":{"type":"integer","description":%q}},"required":["id"]}}}`,
			strings.Repeat("What it does. ", 40), name, strings.Repeat("Which one. ", 30))}
	}
	return out
}

// BenchmarkTools measures calls of p, which must answer them from a [Canned] stream, with
// few and with many tools.
func BenchmarkTools(b *testing.B, p model.Provider) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprintf("tools=%d", n), func(b *testing.B) {
			req := catalogued(n)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Stream(b.Context(), req, func(model.Delta) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func catalogued(n int) *model.Request {
	return &model.Request{Messages: []chat.Message{{Role: chat.User, Content: "hi"}}, Tools: Catalogue(n)}
}

// RunToolCost holds what a request of p with many tools allocates against the size of its
// tools: they are copied once, into the body, and never encoded again. p must answer from
// a [Canned] stream. Nothing else may run beside it.
func RunToolCost(t *testing.T, p model.Provider) {
	t.Helper()
	const n = 1000
	few, many := catalogued(10), catalogued(n)
	size := 0
	for _, d := range many.Tools {
		size += len(d.JSON)
	}
	allocated := func(req *model.Request) (bytes, objects int) {
		call := func() {
			if _, err := p.Stream(t.Context(), req, func(model.Delta) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		call() // what is encoded once may be now
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		call()
		runtime.ReadMemStats(&after)
		return int(after.TotalAlloc - before.TotalAlloc), int(after.Mallocs - before.Mallocs) //nolint:gosec // a few megabytes
	}
	fewBytes, fewObjects := allocated(few)
	manyBytes, manyObjects := allocated(many)
	if more := manyBytes - fewBytes; more > size*3/2 {
		t.Errorf("%d tools of %d bytes cost %d bytes more than ten: they are copied more than once", n, size, more)
	}
	if more := manyObjects - fewObjects; more > n/2 {
		t.Errorf("%d tools cost %d allocations more than ten: they are encoded for every request", n, more)
	}
}
