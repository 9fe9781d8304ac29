package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"sync"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/reload"
	"github.com/hermes-runtime/hermes/runtime/server/api"
)

// recorder is a [config.Source] that remembers the files it gave.
type recorder struct {
	config.Source

	mu    sync.Mutex        // guards below
	files map[string][]byte // by absolute path
}

func newRecorder() *recorder {
	return &recorder{Source: config.DirSource(), files: map[string][]byte{}}
}

// ReadFile reads a file and remembers it, if it could be read.
func (r *recorder) ReadFile(path string) ([]byte, error) {
	content, err := r.Source.ReadFile(path)
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.files[path] = content
	}
	return content, err
}

// within gives the files of a project by their path in it, with slashes, and the paths
// of those that lie elsewhere.
func (r *recorder) within(project string) (inside map[string][]byte, outside []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	inside = map[string][]byte{}
	for path, content := range r.files {
		rel, err := filepath.Rel(project, path)
		if err != nil || !filepath.IsLocal(rel) {
			outside = append(outside, path)
			continue
		}
		inside[filepath.ToSlash(rel)] = content
	}
	slices.Sort(outside)
	return inside, outside
}

// files are what a server needs to plan with this project instead of its own: whatever a
// load of it reads. Mistakes in it are the server's to report.
func (a *app) files(ctx context.Context, paths config.Paths) (map[string][]byte, error) {
	r := newRecorder()
	if _, _, err := a.loadFrom(ctx, r); err != nil {
		return nil, err
	}
	inside, outside := r.within(paths.Project)
	for _, path := range outside {
		a.note("%s lies outside the project: the server plans with its own file of that path", path)
	}
	return inside, nil
}

// planFiles asks a server to plan with files: first by their digests, then with the
// content of those that it lacks.
func (c *client) planFiles(ctx context.Context, files map[string][]byte) (reload.Plan, error) {
	body := api.PlanBody{Inputs: []api.PlannedFile{}}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		sum := sha256.Sum256(files[path])
		body.Inputs = append(body.Inputs, api.PlannedFile{Path: path, SHA256: hex.EncodeToString(sum[:])})
	}
	var plan reload.Plan
	err := c.call(ctx, http.MethodPost, "/api/plan", body, &plan)
	missing, ok := missingOf(err)
	if !ok {
		return plan, err
	}
	wanted := map[string]bool{}
	for _, path := range missing {
		wanted[path] = true
	}
	for i, in := range body.Inputs {
		if wanted[in.Path] {
			body.Inputs[i].Content = files[in.Path]
		}
	}
	err = c.call(ctx, http.MethodPost, "/api/plan", body, &plan)
	if fault.KindOf(err) == fault.TooLarge {
		err = fault.Wrap(fault.TooLarge, err, "the files that the server lacks are too many to send (%s): copy the project to the server, and plan there", explain(err))
	}
	return plan, err
}

// missingOf gives the files whose content a server said that it lacks.
func missingOf(err error) ([]string, bool) {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Detail == nil {
		return nil, false
	}
	raw, merr := json.Marshal(f.Detail)
	var detail api.Missing
	if merr != nil || json.Unmarshal(raw, &detail) != nil {
		return nil, false
	}
	return detail.Missing, len(detail.Missing) > 0
}
