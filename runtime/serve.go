package runtime

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/server"
	"github.com/hermes-runtime/hermes/runtime/server/api"
	"github.com/hermes-runtime/hermes/runtime/server/openai"
	"github.com/hermes-runtime/hermes/runtime/server/route"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// sweepEvery is how often what has expired is deleted.
const sweepEvery = 10 * time.Minute

// Serve listens, serves, watches and sweeps until ctx ends; then it stops taking
// requests, lets runs finish within the shutdown timeout, and returns. A signal on
// hup reloads. Call Load first.
func (s *System) Serve(ctx context.Context, hup <-chan os.Signal) error {
	if s.holder.Number() == 0 {
		return fault.New(fault.Unavailable, "nothing is loaded: call Load before Serve")
	}
	srv := s.server()
	address := s.o.Listen
	if address == "" {
		address = s.Config().Server.Listen
	}
	listener, err := srv.Listen(ctx, address)
	if err != nil {
		return err
	}
	if err := s.lock.SetAddress(s.url(listener.Addr())); err != nil {
		return errors.Join(fmt.Errorf("recording the address: %w", err), listener.Close())
	}
	s.log.Info("serving", "address", s.url(listener.Addr()), "project", s.paths.Project, "config", s.paths.ConfigDir,
		"tools", strings.Join(s.Config().Paths.ToolsDirs, ", "), "state", s.paths.State, "generation", s.holder.Number(), "version", s.o.Version)

	attending, leave := context.WithCancel(ctx)
	defer leave()
	attended, err := s.loop.Attend(attending, func() store.Replica {
		return store.Replica{Address: s.url(listener.Addr()), Generation: s.holder.Number(), Inputs: s.live().Inputs}
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	g, running := errgroup.WithContext(ctx)
	g.Go(func() error { <-attended; return nil })
	g.Go(func() error { return s.watchEvents(running) })
	g.Go(func() error { return srv.Serve(listener) })
	g.Go(func() error { return s.reloader.Run(running) })
	g.Go(func() error { s.sweep(running); return nil })
	g.Go(func() error { s.reloadOn(running, hup); return nil })
	g.Go(func() error {
		<-running.Done()
		s.log.Info("stopping", "runs", s.loop.Load())
		// Runs end first, so that the streams that follow them end whole.
		s.endRuns()
		shutdown, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return srv.Shutdown(shutdown)
	})
	return g.Wait()
}

func (s *System) server() *server.Server {
	routes := append(openai.Routes(openai.Options{
		Holder: s.holder, Loop: s.loop, Hub: s.hub, Sessions: s.db, Log: s.log,
	}), api.Routes(api.Options{
		Holder: s.holder, Loop: s.loop, Hub: s.hub, Store: s.db, History: s.history, Approvals: s.desk, Dispatch: s.dispatch, Artifacts: s.results,
		Reloader: s.reloader, Checks: s.checks, Compiling: s.provision.Compiling, Guests: s.guests, Metrics: s.metrics, Version: s.o.Version, Started: s.started, Log: s.log,
	})...)
	return server.New(server.Options{Holder: s.holder, Routes: routes, Log: s.log})
}

// url is the address a client of this machine uses.
func (s *System) url(addr net.Addr) string {
	scheme := "http"
	if s.Config().Server.TLSCert != "" {
		scheme = "https"
	}
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return scheme + "://" + addr.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

// sweep deletes what has expired now and then.
func (s *System) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if n, err := s.db.Sweep(ctx, time.Now()); err != nil && ctx.Err() == nil {
			s.log.Error("sweeping expired sessions", "err", err)
		} else if n > 0 {
			s.log.Info("expired sessions deleted", "sessions", n)
		}
		if _, err := s.desk.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("sweeping old approvals", "err", err)
		}
		if err := s.sweepResults(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("sweeping stored results", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s *System) reloadOn(ctx context.Context, hup <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-hup:
			if !ok {
				hup = nil // no more signals will come
				continue
			}
			if _, err := s.reloader.Reload(ctx, "signal"); err != nil && ctx.Err() == nil {
				s.log.Error("reloading", "trigger", "signal", "err", err)
			}
		}
	}
}

// Config is the live configuration; before the first generation an empty one.
func (s *System) Config() *config.Config { return s.live().Config }

// Routes is the route table, for documentation; its handlers are not to be called.
func Routes() []route.Route {
	return append(openai.Routes(openai.Options{}), api.Routes(api.Options{})...)
}
