package postgres

import (
	"errors"
	"fmt"
	"testing"

	"github.com/hermes-runtime/hermes/internal/pgtest"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/store/storetest"
)

// benchServers are one that writes as in production, and that of the tests.
func benchServers(b *testing.B, run func(b *testing.B, s *pgtest.Server)) {
	durable := pgtest.New(pgtest.Options{Fsync: true})
	defer func() {
		if err := durable.Close(); err != nil {
			b.Error(err)
		}
	}()
	for name, s := range map[string]*pgtest.Server{"fsync": durable, "nosync": server} {
		b.Run(name, func(b *testing.B) { run(b, s) })
	}
}

func benchRun(b *testing.B, d *DB, id string) {
	b.Helper()
	if err := errors.Join(d.CreateSession(b.Context(), sessionOf(id)), storetest.Begin(b.Context(), d, store.Run{ID: id, Session: id, Owner: "ann"})); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkAppend(b *testing.B) {
	benchServers(b, func(b *testing.B, s *pgtest.Server) {
		d := reopen(b, s.Database(b), Options{})
		benchRun(b, d, "s")
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, err := d.Append(b.Context(), "s", message("r", fmt.Sprint(i), "a message of a few words")); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkAppendEvents is the commit of one group of deltas.
func BenchmarkAppendEvents(b *testing.B) {
	benchServers(b, func(b *testing.B, s *pgtest.Server) {
		for _, size := range []int{1, 16, 256} {
			b.Run(fmt.Sprint(size), func(b *testing.B) {
				d := reopen(b, s.Database(b), Options{})
				benchRun(b, d, "r")
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
	})
}
