package agent

import (
	"context"
	"time"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/events"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// commitment is what a step commits in one transaction: a message, the output by which the
// step is remembered, and the event that tells of it. Output and event know the number of
// the message.
type commitment struct {
	step       string
	generation int64
	message    chat.Message
	output     func(seq int64) any // nil: the step is not remembered
	event      run.EventType       // empty: none
	data       func(seq int64) any
}

// commit puts a commitment in line. Messages get their numbers in the order of their
// commits; the message counts as said from here on, and the run fails if the commit does.
func (t *turn) commit(ctx context.Context, c commitment) (session.Message, events.Pending, error) {
	t.order.Lock()
	defer t.order.Unlock()
	seq := t.transcript.next()
	m := session.Message{
		Session: t.run.Session, Seq: seq, Owner: t.owner, Run: t.run.ID, Step: c.step, Generation: c.generation,
		Message: c.message.Clean(), Created: time.Now().UTC(),
	}
	b := events.Batch{Messages: []session.Message{m}, Event: c.event, Generation: c.generation}
	if c.data != nil {
		b.Data = c.data(seq)
	}
	if t.memory != nil && c.output != nil {
		var err error
		if b.Steps, err = t.memory.commits(c.step, c.output(seq)); err != nil {
			return m, events.Pending{}, err
		}
	}
	pending, err := t.stream.Begin(ctx, b)
	if err == nil {
		t.transcript.add(m)
	}
	return m, pending, err
}

// commitNow commits and waits for it.
func (t *turn) commitNow(ctx context.Context, c commitment) (session.Message, error) {
	m, pending, err := t.commit(ctx, c)
	if err != nil {
		return m, err
	}
	return m, pending.Wait(ctx)
}

// remembers gives the steps of a run, from the store if it has begun elsewhere.
func (l *Loop) remembers(ctx context.Context, row store.Run, resumed bool) (run.Steps, *memory, error) {
	if l.o.Steps != nil {
		return l.o.Steps(row.ID), nil, nil
	}
	var known []store.Step
	if resumed {
		var err error
		if known, err = l.o.Store.Steps(ctx, row.ID); err != nil {
			return nil, nil, err
		}
	}
	m := newMemory(known)
	return m, m, nil
}
