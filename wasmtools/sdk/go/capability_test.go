package guest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCapabilitiesOutsideOfHermes(t *testing.T) {
	ctx := t.Context()
	for name, f := range map[string]func() error{
		"HTTP":     func() error { _, err := HTTP(ctx, Request{URL: "https://a.example"}); return err },
		"KVGet":    func() error { _, _, err := KVGet(ctx, "k"); return err },
		"KVPut":    func() error { return KVPut(ctx, "k", nil) },
		"KVDelete": func() error { _, err := KVDelete(ctx, "k"); return err },
		"KVList":   func() error { _, _, err := KVList(ctx, KVQuery{}); return err },
		"CallTool": func() error { _, err := CallTool(ctx, "t", nil); return err },
		"Progress": func() error { return Progress(ctx, Step{}) },
	} {
		if err := f(); err == nil || err.Error() != name+" works inside hermes only" {
			t.Errorf("%s: %v", name, err)
		}
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if err := Progress(gone, Step{}); !errors.Is(err, context.Canceled) {
		t.Errorf("after its end, a call got %v", err)
	}
}

// TestExchange holds what is sent against the frames of the contract, and reads answers.
func TestExchange(t *testing.T) {
	type found struct {
		Found bool `json:"found"`
	}
	for _, c := range []struct {
		request    any
		sent       string
		head, body string
		failed     error
		want, err  string
	}{
		{request: kvKey{"a"}, sent: `{"key":"a"}`, head: `{"found":true}`, body: "v", want: "v"},
		{request: kvRequest{"a", []byte{}}, sent: `{"key":"a","value_base64":""}`, head: `{}`},
		{request: kvRequest{"a", []byte("\x00\xff")}, sent: `{"key":"a","value_base64":"AP8="}`, head: `{}`},
		{request: KVQuery{}, sent: `{}`, head: `{}`},
		{request: KVQuery{"p", "q", 3}, sent: `{"prefix":"p","after":"q","limit":3}`, head: `{}`},
		{request: Request{URL: "u"}, sent: `{"url":"u"}`, head: `{}`},
		{
			request: Request{"PUT", "u", map[string]string{"a": "b"}, []byte("x")},
			sent:    `{"method":"PUT","url":"u","headers":{"a":"b"},"body_base64":"eA=="}`, head: `{}`,
		},
		{request: Step{"m", 1, 2.5}, sent: `{"message":"m","done":1,"total":2.5}`, head: `{}`},
		{request: kvKey{"a"}, sent: `{"key":"a"}`, head: `{"error":{"kind":"denied","message":"no"}}`, err: "no"},
		{request: kvKey{"a"}, sent: `{"key":"a"}`, head: `{`, err: "decoding the answer"},
		{request: kvKey{"a"}, sent: `{"key":"a"}`, head: `{"found":1}`, err: "decoding the answer"},
		{request: kvKey{"a"}, sent: `{"key":"a"}`, failed: ErrNotGranted, err: "not granted"},
		{request: make(chan int), err: "encoding the request"},
	} {
		var sent string
		send := func(b []byte) ([]byte, []byte, error) {
			sent = string(b)
			return []byte(c.head), []byte(c.body), c.failed
		}
		body, err := exchange(t.Context(), send, c.request, &found{})
		if diff := cmp.Diff(c.sent, sent); diff != "" {
			t.Error(diff)
		}
		if string(body) != c.want || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %q, %v", c.sent, body, err)
		}
		if host := (*HostError)(nil); errors.As(err, &host) && host.Kind != "denied" {
			t.Errorf("kind %q", host.Kind)
		}
	}
}
