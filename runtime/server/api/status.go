package api

import (
	"cmp"
	"context"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hermes-runtime/hermes/runtime/check"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/provision"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/reload"
	"github.com/hermes-runtime/hermes/runtime/server/route"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
	"github.com/hermes-runtime/hermes/wasmtools"
)

// maxWalk bounds how many files of the tools directories status looks at.
const maxWalk = 20_000

// Status is the answer of GET /api/status.
type Status struct {
	Version string    `json:"version"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	// Project, Config and ToolsDirs are the directories of the project, of its
	// configuration and of its tools.
	Project   string              `json:"project"`
	Config    string              `json:"config"`
	ToolsDirs []string            `json:"tools_dirs"`
	Stopping  bool                `json:"stopping"`
	Load      Load                `json:"load"`
	Reload    reload.Status       `json:"reload"`
	Draining  []snapshot.Draining `json:"draining"`
	Agents    []AgentStatus       `json:"agents"`
	// Tools are those whose handler is not ready.
	Tools  []ToolStatus  `json:"tools"`
	Checks []CheckStatus `json:"checks"`
	// Compiling are the modules that a reload or a start is compiling now.
	Compiling []provision.Compile `json:"compiling"`
	// Guests are figures of the WASM runtime, in bytes where they are of memory.
	Guests wasmtools.Stats `json:"guests"`
	// Replicas are the servers that share the state, this one among them.
	Replicas []ReplicaStatus `json:"replicas"`
	// Undeclared are modules in the tools directories that no file names, relative to
	// the project.
	Undeclared []string `json:"undeclared"`
}

// Load is what is under way.
type Load struct {
	Runs int `json:"runs"`
	// Waiting are turns that wait for their session or for runtime.max_runs.
	Waiting int `json:"waiting"`
}

// ReplicaStatus is one of the servers that share the state.
type ReplicaStatus struct {
	ID         string    `json:"id"`
	Address    string    `json:"address,omitempty"`
	Generation int64     `json:"generation"`
	Beat       time.Time `json:"beat"` // when it last said that it is alive
	Self       bool      `json:"self,omitempty"`
	// Differs says that its live generation was built from other files than this server's.
	Differs bool `json:"differs,omitempty"`
}

// silent is how long a replica may be silent and is still shown.
const silent = 10 * time.Second

func (h *handler) replicas(ctx context.Context, inputs string) ([]ReplicaStatus, error) {
	rows, err := h.Store.Replicas(ctx, silent)
	if err != nil {
		return nil, err
	}
	out := []ReplicaStatus{}
	for _, r := range rows {
		self := r.ID == h.Loop.Replica()
		out = append(out, ReplicaStatus{r.ID, r.Address, r.Generation, r.Beat, self, !self && r.Inputs != inputs})
	}
	return out, nil
}

// AgentStatus is one agent with the model it uses.
type AgentStatus struct {
	Name  string `json:"name"`
	Model string `json:"model"`
	Tools int    `json:"tools"` // given, whatever their checks say
}

// ToolStatus is the health of one tool.
type ToolStatus struct {
	Name   string          `json:"name"`
	Health registry.Health `json:"health"`
	Reason string          `json:"reason,omitempty"`
	Pos    string          `json:"pos,omitempty"`
}

// CheckStatus is the last answer of one check.
type CheckStatus struct {
	Kind  check.Kind `json:"kind"`
	Pos   string     `json:"pos,omitempty"`
	Asked bool       `json:"asked"`
	OK    bool       `json:"ok"`
	At    time.Time  `json:"at,omitzero"`
	Error string     `json:"error,omitempty"`
}

func (h *handler) status(w http.ResponseWriter, r *http.Request) error {
	lease, release, err := h.Holder.AcquireFor(r.Pattern)
	if err != nil {
		return err
	}
	defer release()
	st := h.Reloader.Status()
	st.Stale, st.Pending, st.RestartOnly = list(st.Stale), list(st.Pending), list(st.RestartOnly)
	waiting := unloaded(lease.Config.Paths.Project, st)
	replicas, err := h.replicas(r.Context(), lease.Inputs)
	if err != nil {
		return err
	}
	return route.WriteJSON(w, http.StatusOK, Status{
		Version: h.Version, PID: os.Getpid(), Started: h.Started, Project: lease.Config.Paths.Project, Config: lease.Config.Paths.ConfigDir, ToolsDirs: list(lease.Config.Paths.ToolsDirs), Stopping: h.Loop.Closing(), Load: Load{h.Loop.Load(), h.Loop.Waiting()},
		Reload: st, Draining: list(h.Holder.Draining()), Agents: agentStatus(lease.Snapshot),
		Tools: toolStatus(lease.Registry), Checks: h.checkStatus(lease.Registry), Compiling: h.Compiling(), Guests: h.Guests(), Replicas: replicas, Undeclared: undeclared(lease.Config, waiting),
	})
}

func agentStatus(s *snapshot.Snapshot) []AgentStatus {
	out := []AgentStatus{}
	for _, name := range agentNames(s) {
		out = append(out, AgentStatus{name, s.Agents[name].Agent.Model, s.Agents[name].View.Len()})
	}
	return out
}

func toolStatus(reg *registry.Registry) []ToolStatus {
	out := []ToolStatus{}
	for _, name := range reg.Names() {
		t, _ := reg.Tool(name)
		if state, why := t.State(); state != registry.Ready {
			out = append(out, ToolStatus{string(name), state, why, t.Pos})
		}
	}
	return out
}

// checkStatus lists every distinct check, without probing.
func (h *handler) checkStatus(reg *registry.Registry) []CheckStatus {
	var specs []check.Spec
	for _, name := range reg.Names() {
		t, _ := reg.Tool(name)
		specs = append(specs, t.Checks...)
	}
	for _, name := range reg.Toolsets() {
		if set, ok := reg.Set(name); ok {
			specs = append(specs, set.Checks...)
		}
	}
	out, seen := []CheckStatus{}, map[string]bool{}
	for _, s := range specs {
		if seen[s.Key()] {
			continue
		}
		seen[s.Key()] = true
		state, asked := h.Checks.Peek(s)
		out = append(out, CheckStatus{Kind: s.Kind, Pos: s.Pos, Asked: asked, OK: state.OK, At: state.At, Error: state.Err})
	}
	return out
}

// maxUnloaded bounds what status reads of one file that is not loaded.
const maxUnloaded = 1 << 20

// unloaded is the text of the files that are not in force: a module that one of them names
// is not forgotten. Files that are gone name nothing.
func unloaded(project string, st reload.Status) []string {
	paths := slices.Clone(st.Pending)
	for _, s := range st.Stale {
		paths = append(paths, s.Path)
	}
	var out []string
	for _, path := range paths {
		if !filepath.IsAbs(path) {
			path = filepath.Join(project, path)
		}
		if text, err := start(path, maxUnloaded); err == nil {
			out = append(out, text)
		}
	}
	return out
}

// start reads the first bytes of a regular file: a pipe could be waited for without end.
func start(path string, most int64) (string, error) {
	if i, err := os.Stat(path); err != nil || !i.Mode().IsRegular() {
		return "", cmp.Or(err, fs.ErrInvalid)
	}
	f, err := os.Open(path) //nolint:gosec // a file of the project, which the reload reads too
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, most))
	return string(b), err
}

// undeclared finds modules that lie in a tools directory and belong to no tool, nor by name
// to the text of a file that waits to be loaded, which is what a forgotten file looks like. Directories that cannot be read are left out:
// the reload reports them.
func undeclared(c *config.Config, waiting []string) []string {
	known := map[string]bool{}
	for _, t := range c.Tools {
		if t.Wasm != nil {
			known[t.Wasm.Module] = true
		}
	}
	out, left := []string{}, maxWalk
	for _, dir := range c.Paths.ToolsDirs {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if left--; left < 0 {
				return filepath.SkipAll
			}
			if err == nil && !d.IsDir() && strings.HasSuffix(path, ".wasm") && !known[path] && !namedIn(waiting, filepath.Base(path)) {
				out = append(out, relative(c.Paths.Project, path))
			}
			return nil
		})
	}
	slices.Sort(out)
	return out
}

func namedIn(texts []string, name string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, name) })
}

func relative(project, path string) string {
	if rel, err := filepath.Rel(project, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}
