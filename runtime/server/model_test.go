package server_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
)

// chatty speaks, calls a tool, and speaks again, in every turn.
type chatty struct{}

func (chatty) Stream(_ context.Context, req *model.Request, emit func(model.Delta) error) (*model.Response, error) {
	if req.Messages[len(req.Messages)-1].Role == chat.Tool {
		return speak("It is cold.", emit)
	}
	resp, err := speak("Let me see.", emit)
	if err == nil {
		resp.Finish = model.ToolCalls
		resp.Message.Calls = []chat.Call{{ID: "p", Name: "get_weather", Arguments: `{"city":"Oslo"}`}}
	}
	return resp, err
}

func speak(text string, emit func(model.Delta) error) (*model.Response, error) {
	for word := range strings.SplitAfterSeq(text, " ") {
		if err := emit(model.Delta{Text: word}); err != nil {
			return nil, err
		}
	}
	return &model.Response{Message: chat.Message{Role: chat.Assistant, Content: text}, Finish: model.Stop, Usage: chat.Usage{Input: 3, Output: 2, CacheRead: 1, Reasoning: 1}}, nil
}

// gate speaks a word, then waits until it is let go or canceled.
type gate struct {
	spoke  chan struct{} // gets one value per call, after the word
	ended  chan error    // gets why each call ended
	open   chan struct{}
	silent bool
	err    error // what the call fails with when it is let go
}

func newGate() *gate {
	return &gate{spoke: make(chan struct{}, 100), ended: make(chan error, 100), open: make(chan struct{})}
}

func (g *gate) Stream(ctx context.Context, _ *model.Request, emit func(model.Delta) error) (resp *model.Response, err error) {
	defer func() { g.ended <- err }()
	if !g.silent {
		if err := emit(model.Delta{Text: "wait "}); err != nil {
			return nil, err
		}
	}
	g.spoke <- struct{}{}
	select {
	case <-g.open:
	case <-ctx.Done():
		return nil, fault.Wrap(fault.Canceled, context.Cause(ctx), "canceled")
	}
	if g.err != nil {
		return nil, g.err
	}
	resp, err = speak("over", emit)
	if err == nil && !g.silent {
		resp.Message.Content = "wait over"
	}
	return resp, err
}

// end waits for the end of a call and gives its error.
func (g *gate) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-g.ended:
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("the model is still called")
		return nil
	}
}
