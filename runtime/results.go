package runtime

import (
	"context"
	"time"

	"github.com/hermes-runtime/hermes/runtime/dispatch"
)

// retention is for how long, and how much of, results are kept from now on: as the live
// configuration says, or as the last one did once nothing is live any more.
func (s *System) retention() dispatch.Retention {
	lease, release, err := s.holder.AcquireFor("storing a result")
	if err != nil {
		if last := s.kept.Load(); last != nil {
			return *last
		}
		return dispatch.Retention{}
	}
	defer release()
	keep := dispatch.Retention{TTL: lease.Config.Runtime.Results.TTL, Quota: lease.Config.Runtime.Results.Quota}
	s.kept.Store(&keep)
	return keep
}

// sweepResults deletes the results that have expired, and the files that no result names. A
// file that is being stored has no row yet and stays.
func (s *System) sweepResults(ctx context.Context) error {
	n, err := s.db.ExpireResults(ctx, time.Now())
	if err != nil {
		return err
	}
	if n > 0 {
		s.log.Info("expired results deleted", "results", n)
	}
	return s.results.KeepOnly(ctx, func(ctx context.Context) (map[string]bool, error) {
		digests, err := s.db.ResultDigests(ctx)
		wanted := make(map[string]bool, len(digests))
		for _, d := range digests {
			wanted[d] = true
		}
		return wanted, err
	})
}
