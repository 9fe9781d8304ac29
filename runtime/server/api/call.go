package api

import (
	"context"
	"errors"
	"fmt"

	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/dispatch"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/policy"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// directCall is a call that a client makes without a model.
type directCall struct {
	*handler
	principal principal.Principal
	id        string
	name      tool.Name
	agent     string // in whose view; empty: none
	arguments string
}

// dispatch runs the call on a generation.
func (c *directCall) dispatch(ctx context.Context, lease snapshot.Lease, view *registry.View, approved *dispatch.Ask) dispatch.Outcome {
	ctx, end := lease.Bound(ctx)
	defer end()
	var agents []string
	if c.agent != "" {
		agents = []string{c.agent}
	}
	return c.Dispatch.Dispatch(ctx, dispatch.Request{
		View: view, Call: chat.Call{ID: c.id, Name: string(c.name), Arguments: c.arguments}, Agent: c.agent,
		Step: c.id, Principal: c.principal, Generation: lease.Number, Retain: lease.Retain, Approved: approved, Ask: c.below(),
		Live: func(t *registry.Tool) error { return c.Holder.Allows(c.agent, t) },
		Policies: func(t *registry.Tool) []*policy.Rule {
			if rules, ok := c.Holder.Policies(agents, t.Name); ok {
				return rules
			}
			return lease.Policies.For(agents, t.Name)
		},
	})
}

// below asks about calls that the call makes; nil: there is nobody to ask.
func (c *directCall) below() func(context.Context, *dispatch.Ask) error {
	if c.Approvals == nil {
		return nil
	}
	return c.ask
}

// maxAsked is how often a call is asked about again because policies changed meanwhile.
const maxAsked = 3

// approved waits for an approval where the call wants one, as long as its client does, and
// runs it then on the generation that is live. It holds none while it waits.
func (c *directCall) approved(ctx context.Context, out dispatch.Outcome, agentName string) (dispatch.Outcome, error) {
	for range maxAsked {
		if out.Ask == nil || c.Approvals == nil {
			return out, nil
		}
		if err := c.ask(ctx, out.Ask); err != nil {
			return dispatch.Outcome{Tool: out.Tool, Content: string(fault.ToolJSON(err)), Failed: true, Kind: fault.KindOf(err), Duration: out.Duration}, nil
		}
		next, err := c.again(ctx, out.Ask, agentName)
		if err != nil {
			return out, err
		}
		out = next
	}
	return out, nil
}

func (c *directCall) ask(ctx context.Context, a *dispatch.Ask) error {
	row, err := c.Approvals.Put(ctx, agent.QuestionOf(a))
	if err != nil {
		return err
	}
	if row.Status == store.ApprovalPending {
		id := row.ID
		if row, err = c.Approvals.Wait(ctx, id); err != nil {
			return errors.Join(fault.Wrap(fault.KindOf(err), err, "the call was not waited for until somebody approved it: it was not run"), c.Approvals.Cancel(context.WithoutCancel(ctx), id))
		}
	}
	return agent.AnswerOf(row)
}

func (c *directCall) again(ctx context.Context, asked *dispatch.Ask, agentName string) (dispatch.Outcome, error) {
	lease, release, err := c.Holder.AcquireFor(fmt.Sprintf("call of tool %q by %s", fault.Cut(string(c.name), maxShownName), c.principal.Name))
	if err != nil {
		return dispatch.Outcome{}, err
	}
	defer release()
	view, err := viewFor(lease.Snapshot, c.principal, c.name, agentName)
	if err != nil {
		return dispatch.Outcome{}, err
	}
	return c.dispatch(ctx, lease, view, asked), nil
}
