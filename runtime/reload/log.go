package reload

import (
	"log/slog"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/runtime/generation"
)

// log says what a reload changed: the swap, what is newly withheld, and what is not
// withheld any more. What it said of an earlier candidate it does not repeat.
// Every line has the generation that is live afterwards.
func (r *Reloader) log(s *settlement, before []Stale, out Outcome) {
	l := lines{r.o.Log.With("generation", out.Generation), r.o.Load.Paths.Project}
	if s.next != nil {
		counts := s.counts()
		l.Info("generation swapped", "trigger", out.Trigger,
			"added", counts[Added], "changed", counts[Changed], "removed", counts[Deleted],
			"definitions", out.Diff.Summary().Definitions, "stale", len(out.Stale), "duration", out.Duration)
		l.capabilities(s, out.Diff)
	}
	for _, d := range s.warnings {
		if s.next != nil {
			l.Warn("configuration warning", l.attrs(d)...)
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
			l.stale(st)
		}
	}
	if beside > 0 {
		l.Warn("changes withheld", "with", relative(s.with, l.project), "changes", beside)
	}
	l.refused(before, out.Stale)
	for _, path := range sortedKeys(was) {
		l.Info("change no longer withheld", "path", path)
	}
}

// lines writes the lines of one reload.
type lines struct {
	*slog.Logger
	project string
}

// capabilities tells what tools may do since this generation, and may do no more, and
// which agents have other tools than before. Of the first generation that ever was, all
// is news, and none is told.
func (l lines) capabilities(s *settlement, d *generation.Diff) {
	if s.parent == 0 {
		return
	}
	told := map[string]bool{} // tools that come to be or go with this generation
	for _, c := range d.Changes {
		if name, ok := strings.CutPrefix(c.Object, "tool."); ok && c.Action != generation.Changed {
			told[name] = true
		}
	}
	for _, c := range d.Changes {
		name, ok := strings.CutPrefix(c.Object, "tool.")
		if !ok {
			l.access(c, told)
			continue
		}
		for _, gained := range c.Gained {
			l.Info("capability gained", "tool", name, "capability", gained)
		}
		for _, lost := range c.Lost {
			l.Info("capability lost", "tool", name, "capability", lost)
		}
	}
}

// maxTools is how many tools a line names.
const maxTools = 20

// access tells which tools an agent was given and which were taken from it, without those
// that are told of already.
func (l lines) access(c generation.Change, told map[string]bool) {
	agent, ok := strings.CutPrefix(c.Object, "agent.")
	if !ok || c.Action != generation.Changed {
		return
	}
	if gained := others(c.Gained, told); len(gained) > 0 {
		l.Info("agent gained tools", "agent", agent, "count", len(gained), "tools", gained[:min(len(gained), maxTools)])
	}
	if lost := others(c.Lost, told); len(lost) > 0 {
		l.Info("agent lost tools", "agent", agent, "count", len(lost), "tools", lost[:min(len(lost), maxTools)])
	}
}

// others are the tools among capabilities of an agent that are not told of.
func others(named []string, told map[string]bool) []string {
	var out []string
	for _, capability := range named {
		if name, ok := strings.CutPrefix(capability, "tool "); ok && !told[name] {
			out = append(out, name)
		}
	}
	return out
}

// stale warns of one withheld change, a line for each reason.
func (l lines) stale(st Stale) {
	for _, d := range st.Diagnostics {
		l.Warn("change withheld", append([]any{"path", st.Path, "change", string(st.Change)}, l.attrs(d)...)...)
	}
}

// refused warns of a candidate that was refused as a whole, unless it was before,
// for the same reasons.
func (l lines) refused(before, now []Stale) {
	i := slices.IndexFunc(now, func(s Stale) bool { return s.Refused })
	if i < 0 || slices.ContainsFunc(before, func(b Stale) bool { return b.Refused && sameReasons(b, now[i]) }) {
		return
	}
	for _, d := range now[i].Diagnostics {
		l.Warn("candidate refused", append([]any{"changes", len(now)}, l.attrs(d)...)...)
	}
}

// attrs are the place and text of a diagnostic.
func (l lines) attrs(d *hcl.Diagnostic) []any {
	o := report(hcl.Diagnostics{d}, l.project)[0]
	out := []any{"summary", o.Summary, "detail", o.Detail}
	if o.Path != "" {
		out = append(out, "file", o.Path, "line", o.Line)
	}
	return out
}

func sameReasons(a, b Stale) bool {
	return a.With == b.With && a.Refused == b.Refused && slices.Equal(a.Report, b.Report)
}
