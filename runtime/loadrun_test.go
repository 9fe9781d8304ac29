package runtime

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
)

// tally is what came of runs. Faults are what must not be.
type tally struct {
	mu     sync.Mutex // guards below
	counts map[string]int
	faults map[string]int
}

func newTally() *tally { return &tally{counts: map[string]int{}, faults: map[string]int{}} }

func (y *tally) count(what string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.counts[what]++
}

func (y *tally) fault(format string, args ...any) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.faults[fmt.Sprintf(format, args...)]++
}

// report fails the test for every fault, and logs the counts.
func (y *tally) report(t *testing.T) {
	t.Helper()
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, what := range slices.Sorted(maps.Keys(y.counts)) {
		t.Logf("%8d %s", y.counts[what], what)
	}
	for i, what := range slices.Sorted(maps.Keys(y.faults)) {
		if i == 20 {
			t.Errorf("and %d more", len(y.faults)-i)
			return
		}
		t.Errorf("%d times: %s", y.faults[what], what)
	}
}

// runner starts runs, one after the other, and looks at what came of each.
type runner struct {
	sys   *System
	base  string
	w     *world
	rnd   *rand.Rand
	tally *tally
	http  *http.Client
}

// runs makes runs until ctx ends.
func (r *runner) runs(ctx context.Context) {
	for ctx.Err() == nil {
		r.one()
	}
}

// one makes one run.
func (r *runner) one() {
	r.w.busy.RLock()
	defer r.w.busy.RUnlock()
	name := []string{"steady", "mixed", "changing", "passing"}[r.rnd.IntN(4)]
	input := fmt.Sprintf("rule %d", r.rnd.IntN(loadRules))
	switch r.rnd.IntN(4) {
	case 0:
		r.streamed(name, input)
	case 1:
		r.completion(name, input)
	default:
		r.direct(name, input)
	}
}

// direct runs a turn in the process.
func (r *runner) direct(name, input string) {
	ctx := context.Background() // a run that was begun ends by itself
	running, err := r.sys.Loop().Start(ctx, agent.Turn{
		Agent: name, Principal: principal.Local(), Input: []chat.Message{{Role: chat.User, Content: input}},
	})
	if err != nil {
		r.refused(name, fault.KindOf(err).String(), fault.Message(err))
		return
	}
	o, err := running.Wait(ctx)
	if err != nil {
		r.tally.fault("waiting for a run: %v", err)
		return
	}
	if o.Err != nil {
		r.failed(name, o.Err.Kind.String(), o.Err.Message)
	}
	r.check(name, running.ID, running.Session)
}

// agentGone says that a turn ended because its agent is not there any more.
func agentGone(message string) bool {
	return strings.Contains(message, "nothing more is run for it") || strings.Contains(message, "it was removed while this turn was running")
}

// refused judges a run that did not start.
func (r *runner) refused(name, kind, message string) {
	if name == "passing" && (kind == fault.NotFound.String() || agentGone(message)) {
		r.tally.count("runs not started: their agent is not there")
		return
	}
	r.tally.fault("run of %s not started: %s: %s", name, kind, message)
}

// failed judges a run that did not complete.
func (r *runner) failed(name, kind, message string) {
	if name == "passing" && kind == fault.Unavailable.String() && agentGone(message) {
		r.tally.count("runs ended: their agent was removed")
		return
	}
	r.tally.fault("run of %s failed: %s: %s", name, kind, withoutNumbers(message))
}

// withoutNumbers makes equal what differs in generations and the like.
func withoutNumbers(s string) string {
	return strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' {
			return '0'
		}
		return c
	}, s)
}

func (r *runner) post(path, accept string, body any) (*http.Response, error) {
	encoded, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequest(http.MethodPost, r.base+path, bytes.NewReader(encoded))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", accept)
	return r.http.Do(req)
}

// streamed runs a turn through the native API and follows its events.
func (r *runner) streamed(name, input string) {
	resp, err := r.post("/api/runs", "text/event-stream", map[string]string{"agent": name, "input": input})
	if err != nil {
		r.tally.fault("posting a run: %v", err)
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		kind, message := errorOf(resp.Body)
		r.refused(name, kind, message)
		return
	}
	var last run.Event
	terminal := 0
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data:")
		if !ok {
			continue
		}
		var e run.Event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			r.tally.fault("an event that is none: %v", err)
			return
		}
		if e.Seq <= last.Seq {
			r.tally.fault("event %d came after event %d", e.Seq, last.Seq)
		}
		if last = e; e.Type.Terminal() {
			terminal++
		}
	}
	if err := lines.Err(); err != nil || terminal != 1 {
		r.tally.fault("a stream of events ended with %v and %d terminal events", err, terminal)
		return
	}
	if last.Type == run.RunFailed {
		var d struct{ Error fault.Body }
		if err := json.Unmarshal(last.Data, &d); err != nil {
			r.tally.fault("the data of a terminal event: %v", err)
		}
		r.failed(name, d.Error.Kind, d.Error.Message)
	}
	r.check(name, last.Run, last.Session)
}

func errorOf(body io.Reader) (kind, message string) {
	var e struct{ Error fault.Body }
	raw, err := io.ReadAll(body)
	if err != nil {
		return "", err.Error()
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return "", string(raw)
	}
	return e.Error.Kind, e.Error.Message
}

// completion runs a turn through the OpenAI-compatible API, streamed.
func (r *runner) completion(name, input string) {
	resp, err := r.post("/v1/chat/completions", "text/event-stream", map[string]any{
		"model": name, "stream": true, "messages": []map[string]string{{"role": "user", "content": input}},
	})
	if err != nil {
		r.tally.fault("posting a completion: %v", err)
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		_, message := errorOf(resp.Body)
		kind := ""
		if resp.StatusCode == http.StatusNotFound {
			kind = fault.NotFound.String()
		}
		r.refused(name, kind, message)
		return
	}
	raw, err := io.ReadAll(resp.Body)
	text := string(raw)
	finished := strings.Count(text, `"finish_reason":"stop"`)
	failed := strings.Contains(text, `"error"`)
	switch {
	case err != nil, strings.Count(text, "data: [DONE]") != 1, finished > 1:
		r.tally.fault("a completion ended with %v: %s", err, text[max(0, len(text)-300):])
	case failed && name == "passing" && agentGone(text):
		r.tally.count("runs ended: their agent was removed")
	case finished != 1:
		_, message, _ := strings.Cut(text, `data: {"error"`)
		r.tally.fault("a completion of %s did not finish: %s", name, withoutNumbers(message))
	default:
		r.tally.count("completions streamed")
	}
}

// check holds what is stored of a run against what a run is.
func (r *runner) check(name, id, sid string) {
	all := session.Scope{All: true}
	terminal, seq := 0, int64(0)
	for e, err := range r.sys.Hub().Subscribe(context.Background(), all, id, 0) {
		if err != nil {
			r.tally.fault("reading events: %v", err)
			return
		}
		if seq = e.Seq; e.Type.Terminal() {
			terminal++
		}
	}
	if terminal != 1 || seq == 0 {
		r.tally.fault("%d terminal events", terminal)
	}
	messages, err := r.sys.Store().Messages(context.Background(), all, sid, 0, 0)
	if err != nil {
		r.tally.fault("reading messages: %v", err)
		return
	}
	r.tally.count("runs")
	for i, m := range messages {
		if m.Role == chat.Assistant && len(m.Calls) > 0 {
			r.step(name, m, messages[i+1:])
		}
	}
}

// step looks at the calls of one message and at their results.
func (r *runner) step(name string, m session.Message, after []session.Message) {
	for _, c := range m.Calls {
		var results []session.Message
		for _, a := range after {
			if a.Role == chat.Tool && a.CallID == c.ID {
				results = append(results, a)
			}
		}
		if len(results) != 1 {
			r.tally.fault("a call of %s has %d results", c.Name, len(results))
			continue
		}
		if results[0].Generation != m.Generation {
			r.tally.fault("a call of generation %d has a result of generation %d", m.Generation, results[0].Generation)
		}
		r.call(name, c, results[0])
	}
}

// call judges one call by its result.
func (r *runner) call(agentName string, c chat.Call, result session.Message) {
	var args struct{ Offered string }
	if err := json.Unmarshal([]byte(c.Arguments), &args); err != nil {
		r.tally.fault("the arguments %s: %v", c.Arguments, err)
		return
	}
	if result.Failed {
		r.callFailed(agentName, c.Name, args.Offered, result.Content)
		return
	}
	r.tally.count("calls answered")
	offered := nonceOf(args.Offered)
	own := ""
	switch c.Name[0] {
	case 'w': // a text: the environment, NAME=value with a NUL after each
		_, rest, _ := strings.Cut(result.Content, "NONCE=")
		own, _, _ = strings.Cut(rest, `\u0000`)
	case 'm':
		offered = r.w.nonce[offered] // of the module with this hash
		fallthrough
	default:
		var answer struct{ Own string }
		if err := json.Unmarshal([]byte(result.Content), &answer); err != nil {
			r.tally.fault("the result %s of %s: %v", result.Content, c.Name, err)
		}
		own = answer.Own
	}
	if own == "" || own != offered {
		r.tally.fault("mixed step: %s was offered with %q and answered with %q (arguments %s, result %s)", c.Name, offered, own, c.Arguments, result.Content)
	}
}

// callFailed judges a failed call: only a tool that was taken away may fail.
func (r *runner) callFailed(agentName, name, offered, content string) {
	var e struct{ Error fault.Body }
	if err := json.Unmarshal([]byte(content), &e); err != nil {
		r.tally.fault("the error %s of %s: %v", content, name, err)
		return
	}
	mayGo := !isSteady(name) || agentName == "passing"
	switch {
	case agentName == "passing" && e.Error.Kind == fault.Unavailable.String() && agentGone(e.Error.Message):
		r.tally.count("calls of an agent that was removed")
	case mayGo && offered == "" && e.Error.Kind == fault.NotFound.String():
		r.tally.count("calls of a tool that was not offered")
	case mayGo && e.Error.Kind == fault.Unavailable.String() && (strings.Contains(e.Error.Message, " was removed in generation ") || strings.Contains(e.Error.Message, " was taken from agent ")):
		r.tally.count("calls of a tool that was removed after it was offered")
	default:
		r.tally.fault("call of %s by %s failed (offered: %v): %s: %s", name, agentName, offered != "", e.Error.Kind, withoutNumbers(e.Error.Message))
	}
}
