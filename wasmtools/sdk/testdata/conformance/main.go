// The module of the conformance tests, in Go.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"example.com/guest/guest"
)

type arguments struct {
	V         any             `json:"v"`
	Texts     []string        `json:"texts"`
	Numbers   []json.Number   `json:"numbers"`
	Text      string          `json:"text"`
	URL       string          `json:"url"`
	Method    string          `json:"method"`
	Headers   json.RawMessage `json:"headers"`
	Op        string          `json:"op"`
	Key       string          `json:"key"`
	Value     string          `json:"value"`
	Prefix    string          `json:"prefix"`
	After     string          `json:"after"`
	Limit     int             `json:"limit"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Done      float64         `json:"done"`
	Total     float64         `json:"total"`
}

type object = map[string]any

func tool(name string, f func(context.Context, arguments) (any, error)) guest.Definition {
	return guest.Tool(name, "The tool "+name+".", `{"type":"object"}`, f)
}

var _ = guest.Serve(guest.Module{
	Name: "conformance", Version: "1.2.3", Wants: []guest.Want{{Capability: "http", Hosts: []string{"https://a.example"}}},
	Tools: []guest.Definition{
		tool("echo", func(_ context.Context, a arguments) (any, error) { return a.V, nil }),
		tool("parse", func(_ context.Context, a arguments) (any, error) {
			out := []any{}
			for _, t := range a.Texts {
				out = append(out, parse(t))
			}
			return out, nil
		}),
		tool("numbers", func(_ context.Context, a arguments) (any, error) {
			out := []any{}
			for _, n := range a.Numbers {
				o := object{"int": nil, "double": nil}
				if f, err := n.Float64(); err == nil {
					o["double"] = f
					if f == float64(int64(f)) && f <= 1<<53 && f >= -(1<<53) {
						o["int"] = int64(f)
					}
				}
				if i, err := n.Int64(); err == nil {
					o["int"] = i
				}
				out = append(out, o)
			}
			return out, nil
		}),
		tool("fail", func(_ context.Context, a arguments) (any, error) { return nil, errors.New(a.Text) }),
		tool("info", func(ctx context.Context, _ arguments) (any, error) {
			c := guest.CallOf(ctx)
			return object{"id": c.ID, "agent": c.Agent, "key": c.IdempotencyKey}, nil
		}),
		tool("log", func(_ context.Context, a arguments) (any, error) {
			guest.Log(guest.Warn, "%s", a.Text)
			return nil, nil
		}),
		tool("crash", func(context.Context, arguments) (any, error) { panic("crashed on purpose") }),
		tool("http", func(ctx context.Context, a arguments) (any, error) {
			var headers map[string]string
			_ = json.Unmarshal(a.Headers, &headers)
			r, err := guest.HTTP(ctx, guest.Request{URL: a.URL, Method: a.Method, Headers: headers, Body: []byte(a.Text)})
			if err != nil {
				return refused(err), nil
			}
			return object{"status": r.Status, "body": string(r.Body), "type": r.Headers["content-type"]}, nil
		}),
		tool("kv", kv),
		tool("tools", func(ctx context.Context, a arguments) (any, error) {
			v, err := guest.CallTool(ctx, a.Tool, a.Arguments)
			if err != nil {
				return refused(err), nil
			}
			return object{"result": v}, nil
		}),
		tool("progress", func(ctx context.Context, a arguments) (any, error) {
			if err := guest.Progress(ctx, guest.Step{Message: a.Text, Done: a.Done, Total: a.Total}); err != nil {
				return refused(err), nil
			}
			return object{}, nil
		}),
	},
})

func main() { guest.Main() }

func parse(text string) any {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	var v any
	if !json.Valid([]byte(text)) || d.Decode(&v) != nil {
		return object{"ok": false}
	}
	return object{"ok": true, "value": v}
}

func kv(ctx context.Context, a arguments) (any, error) {
	switch a.Op {
	case "get":
		v, found, err := guest.KVGet(ctx, a.Key)
		if err != nil {
			return refused(err), nil
		}
		return object{"found": found, "value": string(v)}, nil
	case "put":
		if err := guest.KVPut(ctx, a.Key, []byte(a.Value)); err != nil {
			return refused(err), nil
		}
		return object{}, nil
	case "delete":
		found, err := guest.KVDelete(ctx, a.Key)
		if err != nil {
			return refused(err), nil
		}
		return object{"found": found}, nil
	}
	keys, more, err := guest.KVList(ctx, guest.KVQuery{Prefix: a.Prefix, After: a.After, Limit: a.Limit})
	if err != nil {
		return refused(err), nil
	}
	if keys == nil {
		keys = []guest.KVKey{}
	}
	return object{"keys": keys, "more": more}, nil
}

func refused(err error) any {
	if h := (*guest.HostError)(nil); errors.As(err, &h) {
		return object{"kind": h.Kind, "error": h.Message}
	}
	if errors.Is(err, guest.ErrNotGranted) {
		return object{"kind": "not_granted", "error": err.Error()}
	}
	return object{"kind": "internal", "error": err.Error()}
}
