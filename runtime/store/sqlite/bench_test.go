package sqlite

import (
	"fmt"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/store/storetest"
)

func sessionOf(id string) session.Session { return session.Session{ID: id, Owner: "ann", Agent: "a"} }

func BenchmarkAppend(b *testing.B) {
	for _, sync := range []Synchronous{Full, Normal} {
		b.Run(string(sync), func(b *testing.B) {
			d := openTest(b, Options{Synchronous: sync})
			if err := d.CreateSession(b.Context(), sessionOf("s")); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				say(b, d, "s", i, "a message of a few words")
			}
		})
	}
}

// BenchmarkAppendEvents is the commit of one group of deltas.
func BenchmarkAppendEvents(b *testing.B) {
	for _, size := range []int{1, 16, 256} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			d := openTest(b, Options{})
			if err := d.CreateSession(b.Context(), sessionOf("s")); err != nil {
				b.Fatal(err)
			}
			if err := storetest.Begin(b.Context(), d, store.Run{ID: "r", Session: "s", Owner: "ann"}); err != nil {
				b.Fatal(err)
			}
			var seq int64
			group := make([]store.Event, size)
			b.ReportAllocs()
			for b.Loop() {
				for i := range group {
					seq++
					group[i] = store.Event{Run: "r", Seq: seq, Delta: true, Body: []byte(`{"type":"message.delta","data":{"text":"a few words","attempt":0}}`)}
				}
				if err := storetest.AppendEvents(b.Context(), d, group); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(size)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

func BenchmarkMessages(b *testing.B) {
	d := openTest(b, Options{Synchronous: Normal})
	if err := d.CreateSession(b.Context(), sessionOf("s")); err != nil {
		b.Fatal(err)
	}
	for i := range 100 {
		say(b, d, "s", i, "a message of a few words")
	}
	b.ReportAllocs()
	for b.Loop() {
		if list, err := d.Messages(b.Context(), all(), "s", 0, 0); err != nil || len(list) != 100 {
			b.Fatal(len(list), err)
		}
	}
}

// BenchmarkGeneration prepares and confirms one changed input among so many.
func BenchmarkGeneration(b *testing.B) {
	for _, size := range []int{10, 2000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			d := openTest(b, Options{})
			makeLive(b, d, wide(size))
			var n int64 = 1
			b.ReportAllocs()
			for b.Loop() {
				n++
				makeLive(b, d, oneChange(n, int(n)%size))
			}
		})
	}
}

// BenchmarkGenerationInputs reads the set of a generation of 2,000 inputs, after so many
// later ones.
func BenchmarkGenerationInputs(b *testing.B) {
	for _, later := range []int64{0, 1000} {
		b.Run(fmt.Sprint(later), func(b *testing.B) {
			d := openTest(b, Options{Synchronous: Normal})
			makeLive(b, d, wide(2000))
			for n := int64(2); n <= later; n++ {
				makeLive(b, d, oneChange(n, int(n)))
			}
			b.ReportAllocs()
			for b.Loop() {
				if list, err := d.GenerationInputs(b.Context(), 1); err != nil || len(list) != 2000 {
					b.Fatal(len(list), err)
				}
			}
		})
	}
}

// BenchmarkFirstGeneration prepares and confirms 2,000 inputs and objects.
func BenchmarkFirstGeneration(b *testing.B) {
	c := wide(2000)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		d := openTest(b, Options{})
		b.StartTimer()
		makeLive(b, d, c)
	}
}
