package reload

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
)

// log says what a reload changed: the swap, what is newly withheld, and what is not
// withheld any more. What it said of an earlier candidate it does not repeat.
func (r *Reloader) log(s *settlement, before []Stale, out Outcome) {
	if s.next != nil {
		counts := s.counts()
		r.o.Log.Info("generation swapped", "generation", out.Generation, "trigger", out.Trigger,
			"added", counts[Added], "changed", counts[Changed], "removed", counts[Deleted],
			"stale", len(out.Stale), "duration", out.Duration)
	}
	for _, d := range s.warnings {
		if s.next != nil {
			r.o.Log.Warn("configuration warning", r.attrs(d)...)
		}
	}
	was := map[string]Stale{}
	for _, b := range before {
		was[b.Path] = b
	}
	beside := 0
	for _, st := range out.Stale {
		b, known := was[st.Path]
		delete(was, st.Path)
		switch {
		case known && sameReasons(b, st), st.Refused:
		case st.With != "":
			beside++
		default:
			r.logStale(st)
		}
	}
	if beside > 0 {
		r.o.Log.Warn("changes withheld", "with", relative(s.with, r.o.Load.Paths.Project), "changes", beside)
	}
	r.logRefused(before, out.Stale)
	for _, path := range sortedKeys(was) {
		r.o.Log.Info("change no longer withheld", "path", path)
	}
}

// logStale warns of one withheld change, a line for each reason.
func (r *Reloader) logStale(st Stale) {
	for _, d := range st.Diagnostics {
		r.o.Log.Warn("change withheld", append([]any{"path", st.Path, "change", string(st.Change)}, r.attrs(d)...)...)
	}
}

// logRefused warns of a candidate that was refused as a whole, unless it was before,
// for the same reasons.
func (r *Reloader) logRefused(before, now []Stale) {
	i := slices.IndexFunc(now, func(s Stale) bool { return s.Refused })
	if i < 0 || slices.ContainsFunc(before, func(b Stale) bool { return b.Refused && sameReasons(b, now[i]) }) {
		return
	}
	for _, d := range now[i].Diagnostics {
		r.o.Log.Warn("candidate refused", append([]any{"changes", len(now)}, r.attrs(d)...)...)
	}
}

// attrs are the place and text of a diagnostic.
func (r *Reloader) attrs(d *hcl.Diagnostic) []any {
	o := report(hcl.Diagnostics{d}, r.o.Load.Paths.Project)[0]
	out := []any{"summary", o.Summary, "detail", o.Detail}
	if o.Path != "" {
		out = append(out, "file", o.Path, "line", o.Line)
	}
	return out
}

func sameReasons(a, b Stale) bool {
	return a.With == b.With && a.Refused == b.Refused && slices.Equal(a.Report, b.Report)
}
