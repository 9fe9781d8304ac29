package runtime

import (
	"context"
	"io"
	"path/filepath"
	"time"

	"github.com/hermes-runtime/hermes/runtime/artifact"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/store/postgres"
	"github.com/hermes-runtime/hermes/runtime/store/sqlite"
)

// openTimeout bounds reaching a database that is elsewhere.
const openTimeout = 30 * time.Second

// content keeps the bytes of stored results: in files, or, for servers that share their
// state, in the database.
type content interface {
	Hold(ctx context.Context, b []byte) (digest string, size int64, release func(), err error)
	Open(digest string) (io.ReadSeekCloser, error)
	KeepOnly(ctx context.Context, wanted func(context.Context) (map[string]bool, error)) error
}

// History is what the configuration of one server was.
type History interface {
	store.Generations
	store.GenerationWriter
}

var (
	_ content = (*artifact.Store)(nil)
	_ content = (*postgres.DB)(nil)
)

// openStore opens what the state is in. What concerns this machine alone, the history of its
// configuration and the modules of the last that was live, stays in the state directory.
func (s *System) openStore() error {
	local := sqlite.Options{Synchronous: s.state.Synchronous, Log: s.log}
	if !s.state.shared() {
		local.OnCommit = s.o.onCommit
	}
	db, err := sqlite.Open(context.Background(), filepath.Join(s.paths.State, "hermes.db"), local)
	if err != nil {
		return err
	}
	s.onClose(func() { s.report("closing database", db.Close()) })
	s.db, s.history = db, db
	if s.modules, err = artifact.Open(filepath.Join(s.paths.State, "modules")); err != nil {
		return err
	}
	s.onClose(func() { s.report("closing kept modules", s.modules.Close()) })
	if s.state.shared() {
		return s.openShared()
	}
	results, err := artifact.Open(filepath.Join(s.paths.State, "results"))
	if err != nil {
		return err
	}
	s.results = results
	s.onClose(func() { s.report("closing stored results", results.Close()) })
	return nil
}

// openShared opens the database that several servers share.
func (s *System) openShared() error {
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	db, err := postgres.Open(ctx, s.state.Postgres.Open(), postgres.Options{Log: s.log, OnCommit: s.o.onCommit})
	if err != nil {
		return err
	}
	s.onClose(func() { s.report("closing database", db.Close()) })
	s.db, s.results, s.watch = db, db, db.Watch
	return nil
}

// watchEvents passes on what other servers append to runs, until ctx ends.
func (s *System) watchEvents(ctx context.Context) error {
	if s.watch == nil {
		return nil
	}
	err := s.watch(ctx, func(run string, _ int64) { s.hub.Notify(run) })
	if ctx.Err() != nil {
		return nil
	}
	return err
}
