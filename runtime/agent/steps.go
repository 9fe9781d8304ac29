package agent

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/hermes-runtime/hermes/runtime/run"
)

// direct runs steps where they stand and remembers nothing. Outputs pass through JSON
// all the same, so that nothing but a step's output reaches the next one.
type direct struct{}

var _ run.Steps = direct{}

// steps of a run.
func (l *Loop) steps(runID string) run.Steps {
	if l.o.Steps == nil {
		return direct{}
	}
	return l.o.Steps(runID)
}

// Do runs fn; a canceled context starts nothing.
func (direct) Do(ctx context.Context, key string, out any, fn func(context.Context) (any, error)) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	v, err := fn(ctx)
	if err != nil {
		return err
	}
	encoded, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding output of step %s: %w", key, err)
	}
	if err := json.Unmarshal(encoded, out); err != nil {
		return fmt.Errorf("decoding output of step %s: %w", key, err)
	}
	return nil
}
