package runtime

import (
	"net/url"
	"path/filepath"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/store/sqlite"
)

// Locate finds the directories of a project from what an operator gave (empty: the
// defaults), and how safely the state is to be written: a state may end in
// ?synchronous=normal|full.
func Locate(configDir string, toolsDirs []string, state string) (config.Paths, sqlite.Synchronous, error) {
	if configDir == "" {
		configDir = "agents"
	}
	paths, err := config.Find(configDir)
	if err != nil {
		return paths, "", err
	}
	for _, dir := range toolsDirs {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return paths, "", fault.Wrap(fault.Invalid, err, "the tools directory %q has no absolute path", dir)
		}
		paths.ToolsDirs = append(paths.ToolsDirs, abs)
	}
	synchronous := sqlite.Full
	dir, query, _ := strings.Cut(state, "?")
	if scheme, _, ok := strings.Cut(dir, "://"); ok {
		// The rest may hold a password.
		return paths, "", fault.New(fault.Invalid, "--state %s://…: this version keeps its state in a directory: give a path", fault.Cut(scheme, 32))
	}
	if dir != "" {
		if paths.State, err = filepath.Abs(dir); err != nil {
			return paths, "", fault.Wrap(fault.Invalid, err, "the state directory %q has no absolute path", dir)
		}
	}
	if query != "" {
		if synchronous, err = parseSynchronous(query); err != nil {
			return paths, "", err
		}
	}
	return paths, synchronous, nil
}

func parseSynchronous(query string) (sqlite.Synchronous, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", fault.Wrap(fault.Invalid, err, "--state: the part after ? cannot be read: write synchronous=normal or synchronous=full")
	}
	for key := range values {
		if key != "synchronous" {
			return "", fault.New(fault.Invalid, "--state: unknown option %q: only synchronous can be set", key)
		}
	}
	switch v := sqlite.Synchronous(strings.ToUpper(values.Get("synchronous"))); v {
	case sqlite.Full, sqlite.Normal:
		return v, nil
	default:
		return "", fault.New(fault.Invalid, "--state: synchronous is full or normal, not %q", values.Get("synchronous"))
	}
}
