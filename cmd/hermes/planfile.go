package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/generation"
)

// planVersion is the version of plan files that this program writes and reads.
const planVersion = 1

// maxPlanFile bounds, in bytes, a plan file that is read.
const maxPlanFile = 64 << 20

// planFile is a plan as kept: what apply needs to know that nothing moved since.
type planFile struct {
	Version int       `json:"version"`
	Created time.Time `json:"created"`
	// Server and Project are where it was made, for people.
	Server  string `json:"server"`
	Project string `json:"project"`
	// Generation was live, built from inputs with the digest Live.
	Generation int64  `json:"generation"`
	Live       string `json:"live"`
	// Inputs is the digest of the files planned, Changed how they differ from the live ones.
	Inputs  string                   `json:"inputs"`
	Changed []generation.InputChange `json:"changed"`
}

// writePlan writes a plan file for its owner alone: it names files.
func writePlan(path string, p planFile) error {
	raw, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding plan: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600) //nolint:gosec // the operator's own path
	if err == nil {
		_, err = f.Write(append(raw, '\n'))
		err = errors.Join(err, f.Chmod(0o600), f.Close()) // it may have been there, for others too
	}
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "the plan cannot be written to %s: %s", path, reason(err))
	}
	return nil
}

// readPlan reads a plan file.
func readPlan(path string) (planFile, error) {
	var p planFile
	info, err := os.Stat(path)
	if err != nil {
		return p, fault.Wrap(fault.Invalid, err, "the plan %s cannot be read: %s", path, reason(err))
	}
	if !info.Mode().IsRegular() || info.Size() > maxPlanFile {
		return p, fault.New(fault.Invalid, "%s is no plan: write one with hermes plan --out FILE", path)
	}
	raw, err := os.ReadFile(path) //nolint:gosec // the operator's own path
	if err != nil {
		return p, fault.Wrap(fault.Invalid, err, "the plan %s cannot be read: %s", path, reason(err))
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return p, fault.Wrap(fault.Invalid, err, "%s is no plan: write one with hermes plan --out FILE", path)
	}
	switch {
	case p.Version == 0 || p.Inputs == "" || p.Generation == 0:
		return p, fault.New(fault.Invalid, "%s is no plan: write one with hermes plan --out FILE", path)
	case p.Version != planVersion:
		return p, fault.New(fault.Invalid, "the plan %s has version %d, and this program reads version %d: plan again", path, p.Version, planVersion)
	}
	return p, nil
}
