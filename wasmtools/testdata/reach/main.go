// Reach is a guest of the tests: it uses the capabilities that it is told to use, one step
// after the other, and answers with what came of each.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	guest "github.com/hermes-runtime/hermes/wasmtools/sdk/go"
)

type step struct {
	Do        string          `json:"do"`
	Times     int             `json:"times"`
	Key       string          `json:"key"`
	Value     string          `json:"value"`
	Repeat    int             `json:"repeat"` // of Value
	Prefix    string          `json:"prefix"`
	After     string          `json:"after"`
	Limit     int             `json:"limit"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Message   string          `json:"message"`
	Done      float64         `json:"done"`
	Total     float64         `json:"total"`
	URL       string          `json:"url"`
	Method    string          `json:"method"`
}

type args struct {
	Steps []step `json:"steps"`
}

var _ = guest.Serve(guest.Module{Name: "reach", Version: "1", Tools: []guest.Definition{
	guest.Tool("reach", "Reaches out.", `{"type":"object"}`, reach),
}})

func main() { guest.Main() }

func reach(ctx context.Context, a args) (any, error) {
	out := []any{}
	for _, s := range a.Steps {
		var v any
		var err error
		for range max(1, s.Times) {
			v, err = take(ctx, s)
		}
		var refused *guest.HostError
		switch {
		case errors.As(err, &refused):
			v = refused.Kind + ": " + refused.Message
		case err != nil:
			v = "error: " + err.Error()
		}
		out = append(out, v)
	}
	return out, nil
}

func take(ctx context.Context, s step) (any, error) {
	switch s.Do {
	case "get":
		v, found, err := guest.KVGet(ctx, s.Key)
		if !found {
			return nil, err
		}
		return string(v), err
	case "put":
		return "put", guest.KVPut(ctx, s.Key, []byte(strings.Repeat(s.Value, max(1, s.Repeat))))
	case "delete":
		found, err := guest.KVDelete(ctx, s.Key)
		return found, err
	case "list":
		keys, more, err := guest.KVList(ctx, guest.KVQuery{Prefix: s.Prefix, After: s.After, Limit: s.Limit})
		return map[string]any{"keys": keys, "more": more}, err
	case "call":
		return guest.CallTool(ctx, s.Tool, s.Arguments)
	case "progress":
		return "reported", guest.Progress(ctx, guest.Step{Message: s.Message, Done: s.Done, Total: s.Total})
	case "http":
		res, err := guest.HTTP(ctx, guest.Request{URL: s.URL, Method: s.Method})
		if err != nil {
			return nil, err
		}
		return string(res.Body), nil
	case "who":
		return guest.CallOf(ctx), nil
	case "sleep":
		time.Sleep(time.Duration(s.Limit) * time.Millisecond)
		return "slept", nil
	case "loop":
		for i := 0; ; i++ {
			if i < 0 {
				return i, nil
			}
		}
	}
	return nil, errors.New("no such step")
}
