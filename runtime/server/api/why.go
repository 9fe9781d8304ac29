package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/generation"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/reload"
	"github.com/hermes-runtime/hermes/runtime/server/route"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// historyPage is how many generations are read at a time.
const historyPage = 100

func (h *handler) why(w http.ResponseWriter, r *http.Request) error {
	q := route.QueryOf(r, whyParams)
	if err := q.Err(); err != nil {
		return err
	}
	lease, release, err := h.Holder.AcquireFor(r.Pattern)
	if err != nil {
		return err
	}
	defer release()
	p := principal.From(r.Context())
	ag, err := agent.Authorize(lease.Snapshot, p, q.String("agent"))
	if err != nil {
		return err
	}
	name := tool.Name(q.String("tool"))
	if !p.IsAdmin() && !visible(lease.Snapshot, p, name) {
		return noTool(name)
	}
	e := ag.View.Why(name)
	e.Reasons = append(e.Reasons, registry.WhyPolicies(lease.Policies.For([]string{ag.Name}, name))...)
	if p.IsAdmin() {
		// What is on disk and in the history is the operator's.
		lost, err := h.whyLost(r.Context(), e)
		if err != nil {
			return err
		}
		e.Reasons = slices.Concat(e.Reasons, whyWaiting(lease.Snapshot, e, h.Reloader.Status()), lost)
	}
	return route.WriteJSON(w, http.StatusOK, e)
}

// whyLost finds the generation that took the tool away, if the agent does not have it.
func (h *handler) whyLost(ctx context.Context, e registry.Explanation) ([]registry.Reason, error) {
	absent := e.Is("unknown")
	if !absent && e.Given() {
		return nil, nil
	}
	for before := int64(0); ; {
		page, err := h.History.ListGenerations(ctx, before, historyPage)
		if err != nil {
			return nil, err
		}
		for _, g := range page {
			reason, decided, err := lostIn(g, e, absent)
			if err != nil || decided {
				return reason, err
			}
			before = g.Number
		}
		if len(page) == 0 {
			return nil, nil
		}
	}
}

// lostIn looks for what one generation did to the tool, or to the agent's use of it.
// decided says that older ones do not matter.
func lostIn(g store.Generation, e registry.Explanation, absent bool) (reasons []registry.Reason, decided bool, err error) {
	var d generation.Diff
	if len(g.Diff) > 0 {
		if err := json.Unmarshal(g.Diff, &d); err != nil {
			return nil, false, fmt.Errorf("reading diff of generation %d: %w", g.Number, err)
		}
	}
	for _, c := range d.Changes {
		var what string
		switch {
		case absent && c.Object == "tool."+e.Tool && c.Action == generation.Removed:
			what = fmt.Sprintf("tool %q was removed", e.Tool)
		case !absent && c.Object == "agent."+e.Agent && slices.Contains(c.Lost, "tool "+e.Tool):
			what = fmt.Sprintf("agent %q lost it", e.Agent)
		case absent && c.Object == "tool."+e.Tool, !absent && c.Object == "agent."+e.Agent && slices.Contains(c.Gained, "tool "+e.Tool):
			return nil, true, nil
		default:
			continue
		}
		return []registry.Reason{{
			Rule: "removed", Pos: c.Pos,
			Detail: fmt.Sprintf("%s in generation %d (hermes generations show %d)", what, g.Number, g.Number),
		}}, true, nil
	}
	return nil, false, nil
}

// whyWaiting lists the changes on disk that are not in force and could be why: of files
// that decide as they are, or that declare a tool that is not there.
func whyWaiting(s *snapshot.Snapshot, e registry.Explanation, st reload.Status) []registry.Reason {
	decide := deciding(s, e)
	var out []registry.Reason
	for _, stale := range st.Stale {
		if decide(stale.Path) {
			out = append(out, withheld(stale, e.Offered))
		}
	}
	for _, path := range st.Pending {
		if decide(path) {
			out = append(out, registry.Reason{
				Rule: "pending", Offers: e.Offered, Pos: path,
				Detail: "a change of this file is not loaded; hermes reload loads it",
			})
		}
	}
	return out
}

func withheld(stale reload.Stale, offered bool) registry.Reason {
	r := registry.Reason{Rule: "withheld", Offers: offered, Pos: stale.Path}
	var why string
	switch {
	case len(stale.Report) > 0:
		d := stale.Report[0]
		why = ": " + d.Summary
		if d.Path != "" {
			r.Pos = fmt.Sprintf("%s:%d", d.Path, d.Line)
		}
	case stale.With != "":
		why = ", with that of " + stale.With
	}
	r.Detail = fmt.Sprintf("the file %s is %s on disk, and that is withheld%s; hermes status says more", stale.Path, stale.Change, why)
	return r
}

// deciding says of a file whether it is one that the explanation points at, that of the
// agent, the module of the tool, or, if the tool is not there, one that declares it.
func deciding(s *snapshot.Snapshot, e registry.Explanation) func(path string) bool {
	files := map[string]bool{}
	note := func(pos string) {
		if i := strings.LastIndexByte(pos, ':'); i > 0 {
			files[pos[:i]] = true
		}
	}
	for _, r := range e.Reasons {
		note(r.Pos)
		for _, step := range r.Steps {
			note(step.Pos)
		}
	}
	if a := s.Agents[e.Agent]; a != nil {
		note(string(a.Pos))
	}
	t, ok := s.Registry.Tool(tool.Name(e.Tool))
	if ok {
		note(t.Pos)
		files[t.Source] = true
		return func(path string) bool { return files[path] }
	}
	declares := regexp.MustCompile(`(?m)^\s*tool\s+"` + regexp.QuoteMeta(e.Tool) + `"`)
	return func(path string) bool { return files[path] || declares.MatchString(text(s.Config, path)) }
}

// text is the beginning of a file of declarations as it is on disk; "" if it cannot be
// read: then it declares nothing.
func text(c *config.Config, path string) string {
	if !strings.HasSuffix(path, ".hcl") {
		return ""
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(c.Paths.Project, path)
	}
	out, err := start(path, maxUnloaded)
	if err != nil {
		return ""
	}
	return out
}
