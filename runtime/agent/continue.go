package agent

import (
	"context"
	"slices"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/model"
)

// maxContinuations is how often a reply that the output limit cut is gone on with.
const maxContinuations = 3

// sayContinue asks for the rest of a reply.
const sayContinue = "Your reply was cut off by the output limit. Continue exactly where it stopped: repeat nothing, and say nothing about the cut."

// whole goes on with a text that the output limit cut, and joins the parts to one message. A
// client that set the limit wants the cut. When a further part fails, what was told so far
// is the message, cut short.
func (q *question) whole(ctx context.Context, req *model.Request, resp *model.Response) (*model.Response, error) {
	for n := 0; n < maxContinuations && q.cut(resp); n++ {
		q.joined = resp.Message.Content
		q.told.Reset()
		q.spoke = false
		next, err := q.ask(ctx, continued(req, q.joined))
		if err != nil {
			if ctx.Err() != nil || q.refused {
				return nil, err
			}
			q.o.Log.Warn("continuing a reply", "run", q.run.ID, "generation", q.generation(), "err", err)
			resp.Message.Content = q.text()
			return resp, nil
		}
		resp = join(resp, next)
	}
	return resp, nil
}

func (q *question) cut(resp *model.Response) bool {
	m := resp.Message
	return resp.Finish == model.Length && m.Content != "" && len(m.Calls) == 0 && q.MaxOutput == 0
}

// continued is the request for what comes after text.
func continued(req *model.Request, text string) *model.Request {
	next := *req
	next.Messages = append(slices.Clip(req.Messages),
		chat.Message{Role: chat.Assistant, Content: text}, chat.Message{Role: chat.User, Content: sayContinue})
	if string(req.ToolChoice) != `"none"` {
		next.ToolChoice = nil // the choice was for the beginning
	}
	return &next
}

// join makes one message of two parts.
func join(a, b *model.Response) *model.Response {
	out := *b
	out.Message.Content = a.Message.Content + b.Message.Content
	out.Message.Reasoning = joinText(a.Message.Reasoning, b.Message.Reasoning)
	if out.Message.Opaque == nil {
		out.Message.Opaque = a.Message.Opaque
	}
	out.Usage = a.Usage.Add(b.Usage)
	return &out
}
