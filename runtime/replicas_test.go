package runtime

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// TestReplicas runs a hundred turns on three daemons that share a database. One is killed in
// the middle, one stands still until its runs are taken over and then goes on. Clients of
// the third follow all runs.
func TestReplicas(t *testing.T) {
	const runs = 100
	if testing.Short() {
		t.Skip("takes half a minute: run without -short")
	}
	e, state := newEffects(t), pg.Database(t)
	e.wait = 30 * time.Millisecond
	type replica struct {
		base string
		pid  int
	}
	var replicas []replica
	for range 3 {
		dir := t.TempDir()
		durableProject(t, dir, false)
		cmd, base := spawn(t, dir, durableChild{State: state, Effects: e.url})
		replicas = append(replicas, replica{base, cmd.Process.Pid})
	}
	wantReplicas(t, replicas[0].base, 3)
	var clients sync.WaitGroup
	var mu sync.Mutex
	told := map[string][]run.Event{}
	for i := range runs {
		id := background(t, replicas[i%3].base)
		clients.Go(func() {
			events, err := followed(replicas[2].base, id)
			mu.Lock()
			defer mu.Unlock()
			if told[id] = events; err != nil {
				t.Errorf("following run %s: %v", id, err)
			}
		})
		if i == 2*runs/3 {
			_ = syscall.Kill(replicas[0].pid, syscall.SIGKILL)
			replicas[0] = replicas[2]
			_ = syscall.Kill(replicas[1].pid, syscall.SIGSTOP)
			frozen := replicas[1].pid
			replicas[1] = replicas[2]
			time.AfterFunc(13*time.Second, func() { _ = syscall.Kill(frozen, syscall.SIGCONT) })
		}
	}
	clients.Wait()
	time.Sleep(2 * time.Second) // for whoever thinks it has something to add

	dir := t.TempDir()
	durableProject(t, dir, false)
	sys, err := New(Options{ConfigDir: dir + "/agents", State: state, NoWatch: true, HostFuncs: []hostfuncs.Func{durableChild{Effects: e.url}.act()}})
	if err != nil {
		t.Fatal(err)
	}
	defer sys.Close()
	taken := 0
	for id, events := range told {
		row := storedWhole(t, sys, id, events, e)
		if row.Epoch > 1 {
			taken++
		}
	}
	t.Logf("%d runs, %d taken over", len(told), taken)
	if len(told) != runs || taken == 0 {
		t.Errorf("%d runs were followed, %d were taken over", len(told), taken)
	}
}

// wantReplicas holds what a daemon says of those that share its state, once all of them have
// announced themselves.
func wantReplicas(t *testing.T, base string, want int) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		others, self := replicasAt(t, base)
		if others+self == want && self == 1 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the status shows %d others and %d times itself, want %d in all", others, self, want)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func replicasAt(t *testing.T, base string) (others, self int) {
	t.Helper()
	resp, err := http.Get(base + "/api/status")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var status struct {
		Replicas []struct{ Self bool }
	}
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		t.Fatal(err)
	}
	for _, r := range status.Replicas {
		if r.Self {
			self++
		} else {
			others++
		}
	}
	return others, self
}

// background starts a run and gives its id.
func background(t *testing.T, base string) string {
	t.Helper()
	resp, err := http.Post(base+"/api/runs", "application/json", strings.NewReader(`{"agent":"a","input":"go","background":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var out struct{ Run string }
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || out.Run == "" {
		t.Fatalf("%s: %+v, %v", resp.Status, out, err)
	}
	return out.Run
}

// followed gives the events of a run, as a client that attaches again when its stream ends.
func followed(base, id string) (events []run.Event, err error) {
	last := int64(0)
	for range 20 {
		err = func() error {
			req, err := http.NewRequest(http.MethodGet, base+"/api/runs/"+id+"/events", nil)
			if err != nil {
				return err
			}
			req.Header.Set("Last-Event-ID", fmt.Sprint(last))
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			lines := bufio.NewScanner(resp.Body)
			lines.Buffer(nil, 1<<20)
			for lines.Scan() {
				data, ok := strings.CutPrefix(lines.Text(), "data:")
				if !ok {
					continue
				}
				var e run.Event
				if err := json.Unmarshal([]byte(data), &e); err != nil {
					return err
				}
				if e.Run == "" {
					return fmt.Errorf("told %s", data)
				}
				events, last = append(events, e), e.Seq
			}
			return lines.Err()
		}()
		if len(events) > 0 && events[len(events)-1].Type.Terminal() {
			return events, nil
		}
	}
	return events, fmt.Errorf("no terminal event after %d events: %w", len(events), err)
}

// storedWhole holds what the store has of a run against what its client was told.
func storedWhole(t *testing.T, sys *System, id string, events []run.Event, e *effects) store.Run {
	t.Helper()
	all := session.Scope{All: true}
	row, err := sys.Store().Run(t.Context(), all, id)
	if err != nil {
		t.Fatal(err)
	}
	if row.Status != string(run.Completed) {
		t.Errorf("run %s is %s: %s", id, row.Status, row.Error)
	}
	terminal := 0
	for i, ev := range events {
		if i > 0 && ev.Seq <= events[i-1].Seq {
			t.Errorf("run %s: event %d was told after %d", id, ev.Seq, events[i-1].Seq)
		}
		if ev.Type.Terminal() {
			terminal++
		}
	}
	if terminal != 1 {
		t.Errorf("run %s: %d terminal events", id, terminal)
	}
	stored := map[int64]run.Event{}
	rows, err := sys.Hub().Stored(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range rows {
		stored[ev.Seq] = ev
	}
	messages, err := sys.Store().Messages(t.Context(), all, row.Session, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range events {
		toldEventIsStored(t, ev, stored, messages)
	}
	told := map[int64]bool{}
	for _, ev := range events {
		told[ev.Seq] = true
	}
	for seq, ev := range stored {
		if !told[seq] {
			t.Errorf("run %s: event %d (%s) was never told", id, seq, ev.Type)
		}
	}
	everyCallHasOneResult(t, messages)
	effectsAreThose(t, id, messages, e)
	return row
}
