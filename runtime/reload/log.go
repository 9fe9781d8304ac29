package reload

import (
	"log/slog"

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
	for _, st := range out.Stale {
		if b, ok := was[st.Path]; !ok || !sameReasons(b, st) {
			r.logStale(st)
		}
		delete(was, st.Path)
	}
	for _, path := range sortedKeys(was) {
		r.o.Log.Info("change no longer withheld", "path", path)
	}
}

// logStale warns of one withheld change, a line for each reason.
func (r *Reloader) logStale(st Stale) {
	if st.With != "" {
		r.o.Log.Warn("change withheld", "path", st.Path, "change", string(st.Change), "with", st.With)
	}
	for _, d := range st.Diagnostics {
		attrs := append([]any{"path", st.Path, "change", string(st.Change), "refused", st.Refused}, r.attrs(d)...)
		r.o.Log.Warn("change withheld", attrs...)
	}
}

// attrs are the place and text of a diagnostic.
func (r *Reloader) attrs(d *hcl.Diagnostic) []any {
	o := report(hcl.Diagnostics{d}, r.o.Load.Paths.Project)[0]
	out := []any{"summary", o.Summary, "detail", o.Detail}
	if o.Path != "" {
		out = append(out, slog.String("file", o.Path), slog.Int("line", o.Line))
	}
	return out
}

func sameReasons(a, b Stale) bool {
	if a.With != b.With || a.Refused != b.Refused || len(a.Report) != len(b.Report) {
		return false
	}
	for i := range a.Report {
		if a.Report[i] != b.Report[i] {
			return false
		}
	}
	return true
}
