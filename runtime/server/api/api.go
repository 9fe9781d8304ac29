// Package api is the native HTTP API below /api: what is declared, what is stored, what
// runs, and the operation of the server.
//
// It decides nothing about any of them: it checks who may see what, asks the package
// that knows, and encodes the answer.
//
// # Invariants
//
// A principal with role user sees its own rows, its agents and the tools that these
// have; everything else is to it as if it did not exist. Unknown fields and parameters
// are refused.
package api

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/approval"
	"github.com/hermes-runtime/hermes/runtime/check"
	"github.com/hermes-runtime/hermes/runtime/dispatch"
	"github.com/hermes-runtime/hermes/runtime/events"
	"github.com/hermes-runtime/hermes/runtime/provision"
	"github.com/hermes-runtime/hermes/runtime/reload"
	"github.com/hermes-runtime/hermes/runtime/server/route"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/wasmtools"
)

// Reloader loads what is on disk, and says what that would change; *reload.Reloader is one.
type Reloader interface {
	Reload(ctx context.Context, trigger string) (reload.Outcome, error)
	// Apply is Reload of what was planned, as a whole or not at all.
	Apply(ctx context.Context, trigger, by string, e reload.Expect) (reload.Outcome, error)
	// Plan is of the server's disk, or with files of those instead.
	Plan(ctx context.Context, files map[string][]byte) (reload.Plan, error)
	// Bodies gives the content of the live inputs by their digest.
	Bodies() map[string][]byte
	Status() reload.Status
}

// Dispatcher runs single calls; *dispatch.Dispatcher is one.
type Dispatcher interface {
	Dispatch(ctx context.Context, r dispatch.Request) dispatch.Outcome
}

// Artifacts gives the content of stored results; *artifact.Store is one.
type Artifacts interface {
	Open(digest string) (io.ReadSeekCloser, error)
}

// Checks gives the last answers of checks; *check.Cache is one.
type Checks interface {
	Peek(s check.Spec) (check.State, bool)
}

// Options are what the routes work with. The caller owns and closes all of it.
type Options struct {
	Holder    *snapshot.Holder
	Loop      *agent.Loop
	Hub       *events.Hub
	Store     store.Store
	History   Generations // of this server's configuration
	Approvals *approval.Desk
	Dispatch  Dispatcher
	Artifacts Artifacts
	Reloader  Reloader
	Checks    Checks
	Log       *slog.Logger
	// Compiling lists the modules being compiled now; nil: none ever are.
	Compiling func() []provision.Compile
	// Guests gives the figures of the WASM runtime; nil: there is none.
	Guests func() wasmtools.Stats
	// Metrics answers a scrape; nil: no metrics are kept.
	Metrics http.Handler
	// Version is the program's; Started when it was started.
	Version string
	Started time.Time
}

// handler answers below /api.
type handler struct{ Options }

// Routes are the entries of the server's table.
func Routes(o Options) []route.Route {
	if o.Compiling == nil {
		o.Compiling = func() []provision.Compile { return []provision.Compile{} }
	}
	if o.Guests == nil {
		o.Guests = func() wasmtools.Stats { return wasmtools.Stats{} }
	}
	h := &handler{o}
	return slices.Concat(h.healthRoutes(), h.planRoutes(), h.generationRoutes(), h.declaredRoutes(), h.toolRoutes(), h.sessionRoutes(), h.runRoutes(), h.resultRoutes(), h.approvalRoutes(), []route.Route{{
		Method: http.MethodGet, Pattern: "/api/openapi.json", Access: route.User, Handle: h.openapi,
		Doc: route.Doc{Summary: "Describes this API."},
	}})
}
