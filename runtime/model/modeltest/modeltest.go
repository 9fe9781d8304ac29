// Package modeltest is the common suite of model providers, and a server that speaks
// their wire for tests.
//
// [Run] holds a provider against what model.Provider promises. It says what is to be
// answered as [Answer] values; how they reach the provider is the caller's: over the
// wire of a [Server], or as rules. A Server gives Answers in the format of OpenAI's
// chat completions, [Messages] in that of Anthropic, and [Recording] values byte for byte,
// for what no well-behaved server sends; [RunRecordings] plays files of those, some of
// which every wire has.
//
// It is for tests only.
//
// # Concurrency
//
// A Server serves requests side by side and hands out its answers in the order in
// which the requests arrive.
package modeltest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
)

// Answer says how a provider answers one request.
type Answer struct {
	Text      []string // in the pieces in which it is streamed
	Reasoning []string // before the text, likewise
	Calls     []chat.Call
	Finish    model.Finish // default: ToolCalls if there are calls, else Stop
	Usage     chat.Usage   // zero: not sent

	// Status, if not 0, refuses the request with it.
	Status     int
	RetryAfter time.Duration // whole seconds; 0: not sent
	Message    string        // of the error

	Cut  bool // the connection breaks after the pieces
	Hold bool // nothing comes after the pieces, until the caller gives up
}

// Finished is the reason the answer ends with.
func (a Answer) Finished() model.Finish {
	switch {
	case a.Finish != "":
		return a.Finish
	case len(a.Calls) > 0:
		return model.ToolCalls
	}
	return model.Stop
}

// NewProvider makes a provider whose requests are answered with answers, in order.
// nil says that it cannot answer like this, and the case does not apply.
type NewProvider func(t *testing.T, answers ...Answer) model.Provider

// Run holds providers made by newProvider against the promises of model.Provider.
func Run(t *testing.T, newProvider NewProvider) {
	s := suite{newProvider}
	t.Run("answers", s.answers)
	t.Run("errors", s.errors)
	t.Run("a broken stream is an error", s.broken)
	t.Run("cancel", s.cancel)
	t.Run("deadline", s.deadline)
	t.Run("canceled before the call", s.canceledBefore)
	t.Run("an error of emit aborts", s.emitError)
	t.Run("the request is not modified", s.unmodified)
	t.Run("an error spoils nothing", s.recovers)
	t.Run("calls side by side", s.parallel)
}

type suite struct{ newProvider NewProvider }

// request offers two tools and asks one question.
func request() *model.Request {
	return &model.Request{
		System:   "Answer.",
		Messages: []chat.Message{{Role: chat.User, Content: "What now?"}},
		Tools: []chat.Definition{
			{Name: "get_time", JSON: []byte(`{"type":"function","function":{"name":"get_time","description":"The time.","parameters":{"type":"object"}}}`)},
			{Name: "get_weather", JSON: []byte(`{"type":"function","function":{"name":"get_weather","description":"The weather.","parameters":{"type":"object"}}}`)},
		},
	}
}

// collect streams one answer and gives its deltas beside it.
func collect(ctx context.Context, p model.Provider, req *model.Request) (*model.Response, []model.Delta, error) {
	var deltas []model.Delta
	resp, err := p.Stream(ctx, req, func(d model.Delta) error {
		deltas = append(deltas, d)
		return nil
	})
	return resp, deltas, err
}

func (s suite) answers(t *testing.T) {
	weather := chat.Call{ID: "call_1", Name: "get_weather", Arguments: `{"city":"Tromsø","html":"<a&b>","id":9007199254740993}`}
	clock := chat.Call{ID: "call_2", Name: "get_time", Arguments: `{}`}
	tests := []struct {
		name   string
		answer Answer
	}{
		{"one word", Answer{Text: []string{"Hello"}}},
		{"words", Answer{Text: []string{"It ", "is ", "4 ", "°C ", "in ", "日本.\n"}}},
		{"nothing", Answer{}},
		{"a call", Answer{Calls: []chat.Call{weather}}},
		{"calls side by side", Answer{Calls: []chat.Call{weather, clock, weather}}},
		{"text beside a call", Answer{Text: []string{"One ", "moment."}, Calls: []chat.Call{clock}}},
		{"reasoning", Answer{Reasoning: []string{"Let me ", "think."}, Text: []string{"Yes."}}},
		{"reasoning before a call", Answer{Reasoning: []string{"A tool."}, Calls: []chat.Call{clock}}},
		{"cut by the limit", Answer{Text: []string{"It "}, Finish: model.Length}},
		{"filtered", Answer{Text: []string{"I "}, Finish: model.ContentFilter}},
		{"usage", Answer{Text: []string{"Hi"}, Usage: chat.Usage{Input: 120, Output: 30, CacheRead: 100, CacheWrite: 5}}},
		{"usage of reasoning", Answer{Text: []string{"Hi"}, Usage: chat.Usage{Input: 120, Output: 30, Reasoning: 7}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := s.newProvider(t, tt.answer)
			if p == nil {
				return
			}
			resp, deltas, err := collect(t.Context(), p, request())
			if err != nil {
				t.Fatal(err)
			}
			tt.answer.check(t, resp, deltas)
		})
	}
}

// check compares a response and its deltas with the answer that was to be given.
func (a Answer) check(t *testing.T, resp *model.Response, deltas []model.Delta) {
	t.Helper()
	want := chat.Message{
		Role: chat.Assistant, Content: strings.Join(a.Text, ""),
		Reasoning: strings.Join(a.Reasoning, ""), Calls: a.Calls,
	}
	checkIDs(t, resp.Message.Calls)
	ignoreIDs := cmp.FilterPath(func(p cmp.Path) bool {
		return p.Last().String() == ".ID" || p.Last().String() == ".Opaque" // which is each wire's own
	}, cmp.Ignore())
	if diff := cmp.Diff(want, resp.Message, ignoreIDs); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
	if resp.Finish != a.Finished() {
		t.Errorf("finish = %q, want %q", resp.Finish, a.Finished())
	}
	if a.Usage != (chat.Usage{}) && resp.Usage != a.Usage {
		t.Errorf("usage = %+v, want %+v", resp.Usage, a.Usage)
	}
	var text, reasoning []string
	for _, d := range deltas {
		if d == (model.Delta{}) {
			t.Error("an empty delta was emitted")
		}
		if d.Text != "" {
			text = append(text, d.Text)
		}
		if d.Reasoning != "" {
			reasoning = append(reasoning, d.Reasoning)
		}
	}
	if diff := cmp.Diff(a.Text, text); diff != "" {
		t.Errorf("streamed text (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(a.Reasoning, reasoning); diff != "" {
		t.Errorf("streamed reasoning (-want +got):\n%s", diff)
	}
}

// checkIDs: not every wire has call ids, but what is there is unique.
func checkIDs(t *testing.T, calls []chat.Call) {
	t.Helper()
	seen := map[string]bool{}
	for _, c := range calls {
		if c.ID != "" && seen[c.ID] {
			t.Errorf("the call id %q is there twice", c.ID)
		}
		seen[c.ID] = true
	}
}

func (s suite) errors(t *testing.T) {
	tests := []struct {
		status int
		after  time.Duration
		want   fault.Kind
		again  bool
	}{
		{400, 0, fault.Invalid, false},
		{401, 0, fault.Denied, false},
		{403, 0, fault.Denied, false},
		{404, 0, fault.Invalid, false},
		{413, 0, fault.TooLarge, false},
		{422, 0, fault.Invalid, false},
		{429, 0, fault.Exhausted, true},
		{429, 7 * time.Second, fault.Exhausted, true},
		{500, 0, fault.Unavailable, true},
		{503, 2 * time.Second, fault.Unavailable, true},
		{529, 0, fault.Unavailable, true},
	}
	for _, tt := range tests {
		p := s.newProvider(t, Answer{Status: tt.status, RetryAfter: tt.after, Message: "no luck"})
		if p == nil {
			continue
		}
		resp, deltas, err := collect(t.Context(), p, request())
		if resp != nil || len(deltas) > 0 || fault.KindOf(err) != tt.want {
			t.Errorf("status %d: got %v, %v, error %v; want only an error of kind %v", tt.status, resp, deltas, err, tt.want)
		}
		if after, ok := model.RetryAfter(err); after != tt.after || ok != (tt.after > 0) {
			t.Errorf("status %d: retry after %v, %v; want %v", tt.status, after, ok, tt.after)
		}
		if model.Retryable(err) != tt.again {
			t.Errorf("status %d: retryable is %v", tt.status, !tt.again)
		}
	}
}

func (s suite) broken(t *testing.T) {
	p := s.newProvider(t, Answer{Text: []string{"one ", "two "}, Cut: true})
	if p == nil {
		return
	}
	resp, deltas, err := collect(t.Context(), p, request())
	if resp != nil || fault.KindOf(err) != fault.Unavailable {
		t.Errorf("got %v and error %v, want unavailable", resp, err)
	}
	if diff := cmp.Diff([]model.Delta{{Text: "one "}, {Text: "two "}}, deltas); diff != "" {
		t.Errorf("deltas (-want +got):\n%s", diff)
	}
}

func (s suite) cancel(t *testing.T) {
	p := s.newProvider(t, Answer{Text: []string{"one "}, Hold: true})
	if p == nil {
		return
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	resp, err := p.Stream(ctx, request(), func(model.Delta) error {
		cancel()
		return nil
	})
	if resp != nil || fault.KindOf(err) != fault.Canceled || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v and error %v, want canceled", resp, err)
	}
}

func (s suite) deadline(t *testing.T) {
	p := s.newProvider(t, Answer{Text: []string{"one "}, Hold: true})
	if p == nil {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	resp, err := p.Stream(ctx, request(), func(model.Delta) error { return nil })
	if resp != nil || fault.KindOf(err) != fault.Timeout {
		t.Errorf("got %v and error %v, want a timeout", resp, err)
	}
	if model.Retryable(err) {
		t.Error("the end of the caller's time is no reason to try again")
	}
}

func (s suite) canceledBefore(t *testing.T) {
	p := s.newProvider(t, Answer{Text: []string{"one"}})
	if p == nil {
		return
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	resp, deltas, err := collect(ctx, p, request())
	if resp != nil || len(deltas) > 0 || fault.KindOf(err) != fault.Canceled {
		t.Errorf("got %v, %v and error %v, want canceled", resp, deltas, err)
	}
}

func (s suite) emitError(t *testing.T) {
	p := s.newProvider(t, Answer{Text: []string{"one ", "two "}, Hold: true})
	if p == nil {
		return
	}
	gone := errors.New("client is gone")
	emitted := 0
	resp, err := p.Stream(t.Context(), request(), func(model.Delta) error {
		emitted++
		return gone
	})
	if resp != nil || err != gone || emitted != 1 { //nolint:errorlint // the very error is promised
		t.Errorf("got %v and error %v after %d deltas, want %v after 1", resp, err, emitted, gone)
	}
}

func (s suite) unmodified(t *testing.T) {
	p := s.newProvider(t, Answer{Calls: []chat.Call{{ID: "1", Name: "get_time", Arguments: "{}"}}})
	if p == nil {
		return
	}
	req, same := request(), request()
	if _, _, err := collect(t.Context(), p, req); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(same, req); diff != "" {
		t.Errorf("the request changed:\n%s", diff)
	}
}

func (s suite) recovers(t *testing.T) {
	good := Answer{Text: []string{"Hello"}}
	p := s.newProvider(t, Answer{Status: 503}, Answer{Text: []string{"He"}, Cut: true}, good)
	if p == nil {
		return
	}
	for range 2 {
		if _, _, err := collect(t.Context(), p, request()); fault.KindOf(err) != fault.Unavailable {
			t.Fatalf("error = %v, want unavailable", err)
		}
	}
	resp, deltas, err := collect(t.Context(), p, request())
	if err != nil {
		t.Fatal(err)
	}
	good.check(t, resp, deltas)
}

func (s suite) parallel(t *testing.T) {
	const callers = 8
	answer := Answer{Text: []string{"a ", "b ", "c"}, Calls: []chat.Call{{ID: "1", Name: "get_time", Arguments: `{"n":1}`}}}
	var answers []Answer
	for range callers {
		answers = append(answers, answer)
	}
	p := s.newProvider(t, answers...)
	if p == nil {
		return
	}
	type outcome struct {
		resp   *model.Response
		deltas []model.Delta
		err    error
	}
	outcomes := make(chan outcome, callers)
	for range callers {
		go func() {
			resp, deltas, err := collect(t.Context(), p, request())
			outcomes <- outcome{resp, deltas, err}
		}()
	}
	for range callers {
		o := <-outcomes
		if o.err != nil {
			t.Error(o.err)
			continue
		}
		answer.check(t, o.resp, o.deltas)
	}
}
