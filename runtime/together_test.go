package runtime

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/hermes-runtime/hermes/runtime/server/api"
)

// asker makes requests of operators, and judges their answers.
type asker struct {
	*runner
}

// ask makes a request and gives the answer, if its status is one of want.
func (a *asker) ask(method, path string, body any, want ...int) []byte {
	var resp *http.Response
	var err error
	if method == http.MethodPost {
		resp, err = a.post(path, "application/json", body)
	} else {
		resp, err = a.http.Get(a.base + path)
	}
	if err != nil {
		return nil // the server stops
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
	case !slices.Contains(want, resp.StatusCode):
		a.tally.fault("%s %s: %d %s", method, withoutNumbers(path), resp.StatusCode, withoutNumbers(string(answer)))
	case resp.StatusCode == want[0]:
		a.tally.count(method + " " + path)
		return answer
	}
	return nil
}

// apply plans what is on disk and applies it, as far as that still holds.
func (a *asker) apply() {
	var plan struct {
		Generation int64  `json:"generation"`
		Inputs     string `json:"inputs"`
		Valid      bool   `json:"valid"`
	}
	if answer := a.ask(http.MethodPost, "/api/plan", map[string]any{}, 200); answer != nil && json.Unmarshal(answer, &plan) == nil && plan.Valid {
		a.ask(http.MethodPost, "/api/reload", map[string]any{"generation": plan.Generation, "inputs": plan.Inputs}, 200, 409, 400)
	}
}

// history reads the newest generation and compares it with the one before.
func (a *asker) history() {
	var list api.GenerationList
	if answer := a.ask(http.MethodGet, "/api/generations", nil, 200); answer == nil || json.Unmarshal(answer, &list) != nil || len(list.Generations) < 2 {
		return
	}
	newest, before := list.Generations[0].Number, list.Generations[1].Number
	// One that is prepared may be abandoned meanwhile.
	a.ask(http.MethodGet, fmt.Sprintf("/api/generations/%d", newest), nil, 200, 404)
	a.ask(http.MethodGet, fmt.Sprintf("/api/generations/%d?since=%d", newest, before), nil, 200, 404)
}

// TestOperatorsAndAgentsAtOnce edits, reloads, plans, applies, scrapes, and reads status and
// history while runs go on, and stops in the middle of it: no answer is a fault of the
// server, and nothing is left.
func TestOperatorsAndAgentsAtOnce(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	w := newWorld(t)
	e := newEditor(t, w, 7)
	_, base, stop := serveWorld(t, w)
	y := newTally()
	client := &http.Client{}
	sent := []map[string]any{}
	for path, content := range w.files() {
		sent = append(sent, map[string]any{"path": path, "sha256": digestOf(content), "content": []byte(content)})
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i, do := range []func(a *asker){
		func(a *asker) { a.ask(http.MethodPost, "/api/reload", map[string]any{}, 200) },
		func(a *asker) { a.ask(http.MethodPost, "/api/plan", map[string]any{"inputs": sent}, 200) },
		(*asker).apply, (*asker).apply, (*asker).history,
		func(a *asker) { a.ask(http.MethodGet, "/api/status", nil, 200) },
		func(a *asker) { a.ask(http.MethodGet, "/metrics", nil, 200) },
		func(a *asker) { a.ask(http.MethodGet, "/api/why?agent=steady&tool=n0", nil, 200) },
		func(a *asker) {
			a.ask(http.MethodPost, "/api/runs", map[string]any{"agent": "steady", "input": fmt.Sprintf("rule %d", a.rnd.IntN(loadRules))}, 200, 503) // 503: it stops
		},
	} {
		wg.Go(func() {
			a := &asker{runner: &runner{base: base, w: w, tally: y, http: client, rnd: rand.New(rand.NewPCG(7, uint64(i)))}}
			for ctx.Err() == nil {
				do(a)
			}
		})
	}
	for range 25 {
		e.step()
		(&asker{runner: &runner{base: base, tally: y, http: client}}).ask(http.MethodPost, "/api/reload", map[string]any{}, 200)
	}
	stop()
	cancel()
	wg.Wait()
	client.CloseIdleConnections()
	y.report(t)
	for _, what := range []string{"POST /api/plan", "POST /api/reload", "GET /api/generations", "GET /metrics", "GET /api/status"} {
		if y.counts[what] == 0 {
			t.Errorf("no answer to %s", what)
		}
	}
	if t.Failed() {
		t.Log(strings.Join(slices.Sorted(func(yield func(string) bool) {
			for k, n := range y.counts {
				if !yield(fmt.Sprint(k, " ", n)) {
					return
				}
			}
		}), "\n"))
	}
}

func digestOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}
