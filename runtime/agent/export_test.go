package agent

import (
	"context"
	"time"

	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// Replay runs the body of a turn whose run and input are stored already, as an engine
// does after a crash. It neither begins nor ends the run.
func (l *Loop) Replay(ctx context.Context, runID, sessionID string, in Turn, steps run.Steps) (Outcome, error) {
	messages, err := l.o.Store.Messages(ctx, session.Scope{All: true}, sessionID, 0, 0)
	if err != nil {
		return Outcome{}, err
	}
	t := &turn{
		Loop: l, Turn: in, run: &Running{ID: runID, Session: sessionID}, owner: in.Principal.Name, started: time.Now(),
		steps: steps, stream: l.o.Hub.Open(store.Run{ID: runID, Session: sessionID, Owner: in.Principal.Name}), transcript: newTranscript(messages, runID),
	}
	defer t.stream.Close()
	defer t.unpin()
	return t.loop(ctx)
}
