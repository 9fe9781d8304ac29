package server

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

func TestRateRefills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := []config.Key{{Name: "k", Rate: tool.Rate{Calls: 5, Per: time.Second}}}
		l := newRates()
		allowed := func(n int) (ok int) {
			for range n {
				if l.take(&keys[0], keys) == nil {
					ok++
				}
			}
			return ok
		}
		if n := allowed(10); n != 5 {
			t.Errorf("%d at once, want 5", n)
		}
		err := l.take(&keys[0], keys)
		var re *rateError
		if !errors.As(err, &re) || fault.KindOf(err) != fault.Exhausted || re.wait <= 0 || re.wait > 200*time.Millisecond {
			t.Fatalf("refusal: %v", err)
		}
		time.Sleep(re.wait)
		if n := allowed(10); n != 1 {
			t.Errorf("%d after the wait that was named, want 1", n)
		}
		time.Sleep(time.Hour)
		if n := allowed(10); n != 5 {
			t.Errorf("%d after an hour, want 5: the bucket is bounded", n)
		}
		keys[0].Rate.Calls = 1
		time.Sleep(time.Hour)
		if n := allowed(10); n != 1 {
			t.Errorf("%d under the new rate, want 1", n)
		}
		others := []config.Key{{Name: "other", Rate: keys[0].Rate}}
		if err := l.take(&others[0], others); err != nil || len(l.buckets) > 2 {
			t.Errorf("%v, %d buckets", err, len(l.buckets))
		}
		if err := l.take(nil, nil); err != nil {
			t.Error(err)
		}
	})
}
