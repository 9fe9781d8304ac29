package dispatch_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"unicode/utf8"

	"github.com/hermes-runtime/hermes/runtime/dispatch"
	"github.com/hermes-runtime/hermes/runtime/schema"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// pipelineSchema has every construct that coercion and defaults look at.
const pipelineSchema = `{
	"$defs":{"node":{"type":"object","additionalProperties":false,"properties":{"v":{"type":"integer","default":7},"kids":{"type":"array","items":{"$ref":"#/$defs/node"}}}}},
	"type":"object","additionalProperties":false,"required":["s"],
	"properties":{
		"s":{"type":"string"},"i":{"type":"integer","default":1},"n":{"type":"number"},"b":{"type":"boolean"},
		"l":{"type":"array","items":{"type":"integer"}},"o":{"type":"object","additionalProperties":{"type":"number"}},
		"u":{"anyOf":[{"type":"integer"},{"type":"null"}]},"w":{"oneOf":[{"type":"string"},{"type":"array","items":{"type":"string"}}]},
		"tree":{"$ref":"#/$defs/node"},"any":{}
	}}`

// FuzzPipeline sends any text through dispatch: the handler sees only canonical, valid
// arguments, which are the same when sent again, and there is always one outcome.
func FuzzPipeline(f *testing.F) {
	for _, s := range []string{
		``, `null`, `{}`, `{"s":"x"}`, `{"s":"x","i":"5","n":"1.50","b":"true","l":"[1,\"2\"]","o":"{\"a\":\"1\"}"}`, `{"s":"x"}{"s":"y"}`,
		`{"s":"x","u":"5","w":"[\"a\"]"}`, `{"s":"x","tree":{"kids":[{"v":3.0},{"kids":"[{}]"}]}}`, `{"s":"x","s":"y"}`, `{"s":"\ud83d"}`,
		`{"s":"x","any":{"z":1e400,"a":-0}}`, "{\"s\":\"a\nb\"}", `{"s":"x","i":9223372036854775808}`, `{"s":`, `[1]`, `{"s":"x","i":3e0}`, `{"s":"x","tree":"{}"}`,
	} {
		f.Add(s)
	}
	s, err := schema.Compile(json.RawMessage(pipelineSchema))
	if err != nil {
		f.Fatal(err)
	}
	var got json.RawMessage
	v := viewOf(f, newTool(f, "x", pipelineSchema, func(_ context.Context, c *tool.Call) (tool.Result, error) {
		got = bytes.Clone(c.Arguments)
		return tool.Result{JSON: c.Arguments}, nil
	}))
	d := dispatch.New(dispatch.Options{Log: slog.New(slog.DiscardHandler)})
	send := func(text string) (json.RawMessage, dispatch.Outcome) {
		got = nil
		o := d.Dispatch(context.Background(), request(v, "x", text))
		return got, o
	}
	f.Fuzz(func(t *testing.T, text string) {
		seen, o := send(text)
		if !json.Valid([]byte(o.Content)) || !utf8.ValidString(o.Content) || o.Failed != (seen == nil) {
			t.Fatalf("handler saw %q, outcome %+v", seen, o)
		}
		if seen == nil {
			return
		}
		if err := s.Validate(seen); err != nil {
			t.Fatalf("%q became %s, which is invalid: %v", text, seen, err)
		}
		canonical, err := schema.Canonical(seen)
		if err != nil || !bytes.Equal(canonical, seen) {
			t.Fatalf("%q became %s, canonical is %s (%v)", text, seen, canonical, err)
		}
		if again, _ := send(string(seen)); !bytes.Equal(again, seen) {
			t.Fatalf("%q became %s, and that became %s", text, seen, again)
		}
		if s.Validate(json.RawMessage(text)) == nil {
			sameValues(t, text, seen)
		}
	})
}

// sameValues checks that what was valid as it stood reached the handler unchanged, up
// to order, space, defaults and the form of integers.
func sameValues(t *testing.T, text string, seen json.RawMessage) {
	t.Helper()
	var before, after map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &before) != nil || json.Unmarshal(seen, &after) != nil {
		return
	}
	for _, name := range []string{"s", "b", "n", "any", "w"} {
		if before[name] == nil {
			continue
		}
		want, err := schema.Canonical(before[name])
		if err != nil || !bytes.Equal(want, after[name]) {
			t.Fatalf("%q became %s: %s changed (%v)", text, seen, name, err)
		}
	}
}
