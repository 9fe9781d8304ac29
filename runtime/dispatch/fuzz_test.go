package dispatch_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"unicode/utf8"

	"github.com/hermes-runtime/hermes/runtime/artifact"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/dispatch"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/policy"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// leastContent is what a result may have whatever the limits say: an error's text, or an
// excerpt without anything in it.
const leastContent = 2600

// FuzzCall sends arbitrary bytes as names, arguments and results through everything:
// exactly one outcome comes back, whose content is one valid JSON value in valid UTF-8
// within its bound.
func FuzzCall(f *testing.F) {
	for _, seed := range []struct{ name, arguments, result string }{
		{"x", `{"city":"Oslo"}`, `{"ok":true}`}, {"X", `{"City":"Oslo","days":["2"]}`, `"text"`}, {"", "", ""}, {"y", "null", "\xff\xfe"},
		{"closed", `{"list":"[1,2]","big":"9007199254740993"}`, `{"error":{"kind":"invalid"}}`}, {"x", `{"city":`, `[[[[[[`}, {"<|tool|>x", `{"city":"\ud800"}`, `"\ud800"`},
		{"x", `{"city":"Oslo"}{"city":"Rome"}`, "{\"duplicate_of\":\"x\"}"}, {"nosuch", `{}`, `1e999999`},
	} {
		for mode := range byte(6) {
			f.Add(seed.name, seed.arguments, []byte(seed.result), mode)
		}
	}
	artifacts, err := artifact.Open(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = artifacts.Close() })
	f.Fuzz(func(t *testing.T, name, arguments string, result []byte, mode byte) {
		handler := func(_ context.Context, c *tool.Call) (tool.Result, error) {
			if !json.Valid(c.Arguments) || !utf8.Valid(c.Arguments) {
				t.Errorf("the handler got %q", c.Arguments)
			}
			switch mode % 6 {
			case 1:
				return tool.Result{}, errors.New(string(result))
			case 2:
				return tool.Result{}, fault.New(fault.Unavailable, "%s", result)
			case 3:
				panic(string(result))
			case 4:
				return tool.Result{JSON: bytes.Repeat(result, 200)}, nil
			case 5:
				return tool.JSON(string(result))
			}
			return tool.Result{JSON: result, Untrusted: true}, nil
		}
		x := newTool(t, "x", citySchema, handler)
		y := newTool(t, "y", `{"anyOf":[{"type":"object"},{"type":"array"}]}`, handler)
		closed := newTool(t, "closed", `{"type":"object","additionalProperties":false,"properties":{"list":{"type":"array","items":{"type":"integer"}},"big":{"type":"integer"},"n":{"$ref":"#"}}}`, handler)
		x.Bounds.MaxChars, y.Bounds.Overflow, closed.Bounds.Overflow = 400, tool.Truncate, tool.Fail
		x.Traits.Sensitive, x.Traits.SerializeBy = []string{"city"}, []string{"city", "days"}
		seen := 0
		d := dispatch.New(dispatch.Options{
			Artifacts: artifacts, Results: &rows{}, Log: slog.New(slog.DiscardHandler), Record: func(dispatch.Record) { seen++ },
		})
		r := request(viewOf(t, x, y, closed), name, arguments)
		r.MaxChars = 3000
		r = ruled(r, rule("careful", []policy.Action{policy.Allow, policy.Ask, policy.Deny}[len(arguments)%3], func(vars map[string]any) (any, error) {
			raw, _ := vars["args"].(json.RawMessage)
			return bytes.Contains(raw, []byte("Rome")), nil
		}))
		o := d.Dispatch(t.Context(), r)
		checkOutcome(t, o, 3000)
		if seen != 1 {
			t.Errorf("%d records", seen)
		}
		r.Call = chat.Call{ID: "c", Name: name, Arguments: arguments, Malformed: true}
		checkOutcome(t, d.Dispatch(t.Context(), r), 3000)
	})
}

func checkOutcome(t *testing.T, o dispatch.Outcome, limit int) {
	t.Helper()
	if !json.Valid([]byte(o.Content)) || !utf8.ValidString(o.Content) {
		t.Errorf("content is %q", o.Content)
	}
	if n := utf8.RuneCountInString(o.Content); n > max(limit, leastContent) {
		t.Errorf("%d characters: %.200s", n, o.Content)
	}
	var told struct{ Error *fault.Body }
	if o.Failed && (json.Unmarshal([]byte(o.Content), &told) != nil || told.Error == nil || told.Error.Kind != o.Kind.String() || told.Error.Message == "") {
		t.Errorf("failed with %s: %s", o.Kind, o.Content)
	}
}
