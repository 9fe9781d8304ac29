package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/generation"
	"github.com/hermes-runtime/hermes/runtime/provision"
	"github.com/hermes-runtime/hermes/runtime/reload"
	"github.com/hermes-runtime/hermes/runtime/server/api"
)

// planHere plans in this process: the project's files against the last generation that
// its state remembers. Nothing is known of runs, nor of what is compiled.
func (a *app) planHere(ctx context.Context) (reload.Plan, error) {
	last, err := a.lastRemembered(ctx)
	if err != nil {
		return reload.Plan{}, err
	}
	cfg, diags, err := a.examine(ctx)
	if err != nil {
		return reload.Plan{}, err
	}
	p := reload.Plan{
		Generation: last.number, RestartOnly: []string{}, Compile: []string{}, Agents: []reload.AgentEffect{},
		Diff: generation.Diff{Changes: []generation.Change{}, Inputs: []generation.InputChange{}},
	}
	if !diags.HasErrors() {
		found, err := last.compare(cfg, &p)
		if err != nil {
			return p, err
		}
		diags = append(diags, found...)
	}
	p.Valid, p.Report = !diags.HasErrors(), reported(diags, cfg)
	return p, nil
}

// remembered is the last generation that was live with a state; number 0: none was.
type remembered struct {
	number   int64
	key      []byte
	manifest *generation.Manifest
	files    map[string]string // digests by name
}

// lastRemembered reads it, without taking the state.
func (a *app) lastRemembered(ctx context.Context) (remembered, error) {
	none := remembered{key: make([]byte, 32), files: map[string]string{}}
	if _, err := rand.Read(none.key); err != nil {
		return none, fmt.Errorf("making a key: %w", err)
	}
	db, err := a.openHistory(ctx)
	if fault.KindOf(err) == fault.NotFound {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	r, err := remember(ctx, db)
	if fault.KindOf(err) == fault.NotFound {
		r, err = none, nil
	}
	return r, errors.Join(err, db.Close())
}

// past is what is needed of a history for a plan; *sqlite.ReadOnly has it.
type past interface {
	api.Generations
	HistoryKey(ctx context.Context) ([]byte, error)
}

func remember(ctx context.Context, db past) (remembered, error) {
	r := remembered{files: map[string]string{}}
	last, _, err := db.LastGeneration(ctx)
	if err != nil && last.Number == 0 {
		return r, err // else its Meta is damaged, which no plan needs
	}
	r.number = last.Number
	if r.key, err = db.HistoryKey(ctx); err != nil {
		return r, err
	}
	if r.manifest, err = api.Remembered(ctx, db, r.number); err != nil {
		return r, err
	}
	inputs, err := db.GenerationInputs(ctx, r.number)
	for _, in := range inputs {
		if !in.Absent {
			r.files[in.Path] = in.Digest
		}
	}
	return r, err
}

// compare fills in how a configuration differs.
func (r remembered) compare(cfg *config.Config, p *reload.Plan) (hcl.Diagnostics, error) {
	reg, views, diags := provision.Describe(cfg, nil)
	if diags.HasErrors() {
		return diags, nil
	}
	m, err := generation.Of(cfg, reg, views, generation.Options{Key: r.key})
	if err != nil {
		return diags, err
	}
	files := map[string]string{}
	for path, in := range cfg.Inputs {
		if !in.Absent {
			files[provision.InputName(path, cfg.Paths.Project)] = in.Digest
		}
	}
	p.Inputs, p.Diff = provision.InputsDigest(cfg), generation.Compare(r.manifest, m)
	p.Diff.Inputs = generation.CompareInputs(r.files, files)
	return diags, nil
}

// reported are diagnostics as a server sends them.
func reported(diags hcl.Diagnostics, cfg *config.Config) []reload.Diagnostic {
	out := []reload.Diagnostic{}
	for _, d := range config.JSON(diags, cfg) {
		o := reload.Diagnostic{Severity: d.Severity, Path: d.File, Summary: d.Summary, Detail: d.Detail}
		if d.Range != nil {
			o.Line, o.Column = d.Range.Start.Line, d.Range.Start.Column
		}
		out = append(out, o)
	}
	return out
}
