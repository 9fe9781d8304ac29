package agent

import (
	"context"
	"time"

	"github.com/hermes-runtime/hermes/runtime/dispatch"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// maxShown is how many bytes of arguments of a call below another an event shows; those
// of a model's calls are in its messages anyway.
const maxShown = 4 << 10

// watch makes run events of what happens inside a call. Calls below it are kept like its
// own events; progress is for those who follow the run now. An event that cannot be stored
// fails the next event of the turn, so its error is that one's.
type watch struct {
	turn       *turn
	generation int64
}

var _ dispatch.Watcher = watch{}

// Started implements dispatch.Watcher.
func (w watch) Started(ctx context.Context, parent string, c *tool.Call) {
	d := toolData{Call: c.ID, Parent: parent, Tool: string(c.Tool)}
	if len(c.Arguments) <= maxShown {
		d.Arguments = string(c.Arguments)
	}
	w.post(ctx, run.ToolStarted, d, false)
}

// Finished implements dispatch.Watcher.
func (w watch) Finished(ctx context.Context, parent string, c *tool.Call, took time.Duration, err error) {
	w.post(ctx, run.ToolFinished, toolData{
		Call: c.ID, Parent: parent, Tool: string(c.Tool), Failed: err != nil, Milliseconds: took.Milliseconds(),
	}, false)
}

// Progress implements dispatch.Watcher.
func (w watch) Progress(ctx context.Context, c *tool.Call, p tool.Progress) {
	w.post(ctx, run.ToolProgress, progressData{Call: c.ID, Tool: string(c.Tool), Progress: p}, true)
}

func (w watch) post(ctx context.Context, t run.EventType, data any, passing bool) {
	if err := w.turn.stream.Post(ctx, t, w.generation, data, passing); err != nil && ctx.Err() == nil {
		w.turn.o.Log.Warn("event of a call not stored", "run", w.turn.run.ID, "generation", w.generation, "err", err)
	}
}

type progressData struct {
	Call string `json:"call"`
	Tool string `json:"tool"`
	tool.Progress
}
