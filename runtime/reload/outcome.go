package reload

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/runtime/generation"
)

// Result says in one word what a reload came to.
type Result string

// The results.
const (
	Swapped   Result = "swapped"   // all changes went live
	Partial   Result = "partial"   // some went live, or all, and others stay withheld
	Refused   Result = "refused"   // none went live
	Unchanged Result = "unchanged" // there was nothing to do
)

// Results lists them all.
func Results() []Result { return []Result{Swapped, Partial, Refused, Unchanged} }

// Triggers lists all triggers.
func Triggers() []string {
	return []string{TriggerStart, TriggerFile, TriggerPoll, TriggerSignal, TriggerAPI}
}

// Outcome is what a reload came to.
type Outcome struct {
	// Generation is the number of the live one afterwards; 0 if there is none.
	Generation int64 `json:"generation"`
	// Changed says that this reload made it.
	Changed  bool          `json:"changed"`
	Result   Result        `json:"result"`
	Trigger  string        `json:"trigger"`
	Duration time.Duration `json:"-"`
	Millis   int64         `json:"duration_ms"` // Duration, ready to encode
	// Diagnostics are the errors of what is withheld and the warnings of what is live,
	// by file and line; Report is the same, ready to encode.
	Diagnostics hcl.Diagnostics `json:"-"`
	Report      []Diagnostic    `json:"diagnostics"`
	Stale       []Stale         `json:"stale"`
	// Diff is how the new generation differs from the one before; nil if there is none. Of
	// a start it is from the last recorded one.
	Diff *generation.Diff `json:"diff,omitempty"`
	// RestartOnly are settings whose change waits for a restart, for example
	// "server.listen".
	RestartOnly []string `json:"restart_only"`
}

// Stale is a change on disk that is not in force.
type Stale struct {
	// Path is relative to the project where the file is inside.
	Path   string    `json:"path"`
	Change Change    `json:"change"`
	Since  time.Time `json:"since"`
	// Diagnostics say why; empty if the change itself is not to blame, see With.
	Diagnostics hcl.Diagnostics `json:"-"`
	Report      []Diagnostic    `json:"diagnostics"`
	// With is the change of the config directory beside which this one was withheld.
	With string `json:"with,omitempty"`
	// Refused says that the error is blamed on no change, and all were refused.
	Refused bool `json:"refused,omitempty"`
}

// Status is the state of reloading.
type Status struct {
	Generation   int64     `json:"generation"`
	Since        time.Time `json:"since"` // when the generation went live
	Inputs       int       `json:"inputs"`
	InputsDigest string    `json:"inputs_digest"`
	// LastGood is the newest generation that is recorded as having been live; 0: none.
	// Unrecorded says why the live one is not recorded, empty if it is: a full disk, for
	// example. It is tried again with every reload and poll.
	LastGood   int64  `json:"last_good"`
	Unrecorded string `json:"unrecorded,omitempty"`
	// Lenient says which files are in force as an earlier generation had them, since they
	// did not load at the start; nil: none.
	Lenient *Lenient `json:"lenient,omitempty"`
	// Watching is fsnotify, poll (the system gives no events) or off (only explicit
	// triggers reload).
	Watching string  `json:"watching"`
	Stale    []Stale `json:"stale"`
	// Pending are changes on disk that no reload has looked at, relative to the project.
	Pending     []string `json:"pending"`
	LastReload  Outcome  `json:"last_reload"`
	RestartOnly []string `json:"restart_only"`
}

// Status gives the present state; the slices are the caller's to read.
func (r *Reloader) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := Status{
		Watching: "off", Lenient: r.lenient, Stale: list(r.stale), Pending: list(r.pending), LastReload: r.last, RestartOnly: list(r.restart),
	}
	st.LastGood, st.Unrecorded = r.journal.state()
	if r.live.config == nil {
		return st
	}
	st.Generation, st.Since, st.InputsDigest = r.live.snapshot.Number, r.live.snapshot.Time, r.live.digest()
	for _, in := range r.live.config.Inputs {
		if !in.Absent {
			st.Inputs++
		}
	}
	if r.watches() && r.watcher != "" {
		st.Watching = r.watcher
	}
	return st
}

// Lenient is what a start made do with.
type Lenient struct {
	Generation int64    `json:"generation"` // whose version of the files is in force
	Paths      []string `json:"paths"`      // relative to the project where they are inside
}

// now is l without the paths that are in force as they are on disk; nil if none is left.
// What breaks after that is no more than stale.
func (l *Lenient) now(stale []Stale) *Lenient {
	if l == nil {
		return nil
	}
	left := &Lenient{Generation: l.Generation}
	for _, path := range l.Paths {
		if slices.ContainsFunc(stale, func(s Stale) bool { return s.Path == path }) {
			left.Paths = append(left.Paths, path)
		}
	}
	if len(left.Paths) == 0 {
		return nil
	}
	return left
}

// Diagnostic is a diagnostic ready to encode.
type Diagnostic struct {
	Severity string `json:"severity"` // error | warning
	Path     string `json:"path,omitempty"`
	Line     int    `json:"line,omitempty"`
	Column   int    `json:"column,omitempty"`
	Summary  string `json:"summary"`
	Detail   string `json:"detail,omitempty"`
}

// report makes diagnostics ready to encode, with paths relative to project.
func report(diags hcl.Diagnostics, project string) []Diagnostic {
	out := make([]Diagnostic, 0, len(diags))
	for _, d := range diags {
		o := Diagnostic{Severity: "warning", Summary: d.Summary, Detail: d.Detail}
		if d.Severity == hcl.DiagError {
			o.Severity = "error"
		}
		if d.Subject != nil {
			o.Path, o.Line, o.Column = relative(d.Subject.Filename, project), d.Subject.Start.Line, d.Subject.Start.Column
		}
		out = append(out, o)
	}
	return out
}

// relative names a path as seen from the project, if it is inside.
func relative(path, project string) string {
	if !under(path, project) {
		return path
	}
	rel, err := filepath.Rel(project, path)
	if err != nil {
		return path
	}
	return rel
}

// ordered sorts by file, then by place.
func ordered(diags hcl.Diagnostics) hcl.Diagnostics {
	slices.SortStableFunc(diags, func(a, b *hcl.Diagnostic) int {
		if a.Subject == nil || b.Subject == nil {
			return cmp.Compare(boolInt(a.Subject != nil), boolInt(b.Subject != nil))
		}
		return cmp.Or(cmp.Compare(a.Subject.Filename, b.Subject.Filename), cmp.Compare(a.Subject.Start.Byte, b.Subject.Start.Byte))
	})
	return diags
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// sortedKeys gives the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// list copies a list; one without elements encodes as [] and not as null.
func list[V any](l []V) []V { return append([]V{}, l...) }
