package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// memory is what a run remembers of its steps. The output of a step that commits a message
// is stored with it, in one transaction; that of any other waits for the next commit of the
// run: until then nothing came of it that the step would not do again. Outputs pass through
// JSON all the same, so that nothing but a step's output reaches the next one.
type memory struct {
	mu      sync.Mutex // guards below
	known   map[string]json.RawMessage
	waiting []store.Step
}

var _ run.Steps = (*memory)(nil)

func newMemory(steps []store.Step) *memory {
	m := &memory{known: make(map[string]json.RawMessage, len(steps))}
	for _, s := range steps {
		m.known[s.Key] = s.Output
	}
	return m
}

// Do implements run.Steps; a canceled context starts nothing.
func (m *memory) Do(ctx context.Context, key string, out any, fn func(context.Context) (any, error)) error {
	output, known := m.of(key)
	if !known {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		v, err := fn(ctx)
		if err != nil {
			return err
		}
		if output, err = m.keep(key, v); err != nil {
			return err
		}
	}
	if err := json.Unmarshal(output, out); err != nil {
		return fmt.Errorf("decoding output of step %s: %w", key, err)
	}
	return nil
}

func (m *memory) of(key string) (json.RawMessage, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	output, ok := m.known[key]
	return output, ok
}

// keep remembers an output, unless the step itself has committed it.
func (m *memory) keep(key string, v any) (json.RawMessage, error) {
	output, err := encodeOutput(key, v)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.known[key]; ok {
		return known, nil
	}
	m.known[key] = output
	m.waiting = append(m.waiting, store.Step{Key: key, Output: output})
	return output, nil
}

// commits gives what is to be stored with the output v of a step that commits: those that
// wait, and its own.
func (m *memory) commits(key string, v any) ([]store.Step, error) {
	output, err := encodeOutput(key, v)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known[key] = output
	steps := append(m.waiting, store.Step{Key: key, Output: output})
	m.waiting = nil
	return steps, nil
}

func encodeOutput(key string, v any) (json.RawMessage, error) {
	output, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding output of step %s: %w", key, err)
	}
	return output, nil
}
