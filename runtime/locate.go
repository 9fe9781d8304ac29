package runtime

import (
	"net/url"
	"path/filepath"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/secret"
	"github.com/hermes-runtime/hermes/runtime/store/sqlite"
)

// State says where the state is kept, beside the state directory.
type State struct {
	// Synchronous says how safely the SQLite database in the state directory is written.
	Synchronous sqlite.Synchronous
	// Postgres is the address of a PostgreSQL database that several servers share; empty: the
	// state is in the directory alone. It may hold a password.
	Postgres secret.Value
}

// shared says whether other servers may have the state too.
func (s State) shared() bool { return !s.Postgres.Empty() }

// Locate finds the directories of a project from what an operator gave (empty: the
// defaults), and where the state is. A state that is a directory may end in
// ?synchronous=normal|full. One that is the address of a PostgreSQL database,
// postgres://…, may have a parameter local=DIR: the directory for what stays on this
// machine (caches, the history of its configuration).
func Locate(configDir string, toolsDirs []string, state string) (config.Paths, State, error) {
	if configDir == "" {
		configDir = "agents"
	}
	paths, err := config.Find(configDir)
	if err != nil {
		return paths, State{}, err
	}
	for _, dir := range toolsDirs {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return paths, State{}, fault.Wrap(fault.Invalid, err, "the tools directory %q has no absolute path", dir)
		}
		paths.ToolsDirs = append(paths.ToolsDirs, abs)
	}
	dir, st, err := parseState(state)
	if err == nil && dir != "" {
		if paths.State, err = filepath.Abs(dir); err != nil {
			err = fault.Wrap(fault.Invalid, err, "the state directory %q has no absolute path", dir)
		}
	}
	return paths, st, err
}

// parseState reads --state: the directory, if one is named, and the rest.
func parseState(state string) (dir string, st State, err error) {
	st.Synchronous = sqlite.Full
	dir, query, _ := strings.Cut(state, "?")
	scheme, _, isAddress := strings.Cut(dir, "://")
	switch {
	case isAddress && scheme != "postgres" && scheme != "postgresql":
		// The rest may hold a password.
		return "", st, fault.New(fault.Invalid, "--state %s://…: the state is kept in a directory, or in PostgreSQL: give a path, or postgres://user@host/database", fault.Cut(scheme, 32))
	case isAddress:
		return parsePostgres(state)
	case query != "":
		st.Synchronous, err = parseSynchronous(query)
	}
	return dir, st, err
}

// parsePostgres takes our parameter out of an address.
func parsePostgres(address string) (local string, st State, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", st, fault.New(fault.Invalid, "--state: the address of the database cannot be read: write postgres://user@host/database, with special characters of a password as %%XX")
	}
	values := u.Query()
	local = values.Get("local")
	values.Del("local")
	u.RawQuery = values.Encode()
	st.Postgres = secret.New(u.String())
	return local, st, nil
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
