package reload

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hermes-runtime/hermes/runtime/principal"
)

// diff compares; nil wants anything empty.
func diff(t testing.TB, got, want any) {
	t.Helper()
	if want == nil && (got == nil || reflect.ValueOf(got).Len() == 0) {
		return
	}
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

// gate is work that counts, and waits to be let through.
type gate struct {
	mu       sync.Mutex
	running  int
	most     int
	triggers []string
	canceled int
	pass     chan struct{}
}

func (g *gate) work(ctx context.Context, trigger string) (Outcome, error) {
	g.mu.Lock()
	g.running++
	g.most = max(g.most, g.running)
	g.triggers = append(g.triggers, trigger)
	n := int64(len(g.triggers))
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		g.running--
		g.mu.Unlock()
	}()
	select {
	case <-g.pass:
		return Outcome{Generation: n, Trigger: trigger}, nil
	case <-ctx.Done():
		g.mu.Lock()
		g.canceled++
		g.mu.Unlock()
		return Outcome{}, ctx.Err()
	}
}

// At most one reload runs; a call during it waits for one more that starts after it.
func TestAtMostOneReloadRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f flights
		g := &gate{pass: make(chan struct{})}
		var mu sync.Mutex
		var got []int64
		ask := func(trigger string) {
			go func() {
				out, err := f.fly(t.Context(), trigger, g.work)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				got = append(got, out.Generation)
				mu.Unlock()
			}()
			synctest.Wait()
		}
		ask(TriggerFile)
		ask(TriggerPoll)
		ask(TriggerAPI)
		ask(TriggerFile)
		g.pass <- struct{}{}
		synctest.Wait()
		ask(TriggerSignal)
		g.pass <- struct{}{}
		g.pass <- struct{}{}
		synctest.Wait()
		slices.Sort(got)
		diff(t, got, []int64{1, 2, 2, 2, 3})
		diff(t, g.triggers, []string{TriggerFile, TriggerAPI, TriggerSignal})
		diff(t, g.most, 1)
	})
}

// Work that nobody waits for is canceled, and has ended when the last caller returns;
// as long as somebody waits it goes on.
func TestAReloadEndsWithItsLastCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f flights
		g := &gate{pass: make(chan struct{})}
		gone := errors.New("gone")
		type call struct {
			cancel context.CancelCauseFunc
			err    chan error
		}
		ask := func() call {
			ctx, cancel := context.WithCancelCause(t.Context())
			c := call{cancel, make(chan error, 1)}
			go func() {
				_, err := f.fly(ctx, TriggerAPI, g.work)
				c.err <- err
			}()
			synctest.Wait()
			return c
		}
		running, second, third := ask(), ask(), ask()
		second.cancel(gone)
		diff(t, errors.Is(<-second.err, gone), true)
		third.cancel(gone) // nobody waits for the next one: it never starts
		diff(t, errors.Is(<-third.err, gone), true)
		running.cancel(gone)
		diff(t, errors.Is(<-running.err, gone), true)
		diff(t, []int{len(g.triggers), g.running, g.canceled}, []int{1, 0, 1})
		last := ask()
		g.pass <- struct{}{}
		diff(t, <-last.err, nil)
	})
}

// What is asked for alone is a flight of its own, in the order in which it was asked for,
// and others do not board it.
func TestWhatIsAskedForAloneIsSharedWithNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f flights
		g := &gate{pass: make(chan struct{})}
		got := make(chan string, 10)
		ask := func(who, trigger string, fly func(context.Context, string, func(context.Context, string) (Outcome, error)) (Outcome, error)) {
			go func() {
				ctx := principal.Into(t.Context(), principal.Principal{Name: who})
				out, err := fly(ctx, trigger, func(ctx context.Context, trigger string) (Outcome, error) {
					got <- principal.From(ctx).Name
					return g.work(ctx, trigger)
				})
				if err != nil || out.Trigger == "" {
					t.Error(out, err)
				}
			}()
			synctest.Wait()
		}
		ask("a", TriggerFile, f.fly)
		ask("b", TriggerPoll, f.fly)
		ask("c", TriggerAPI, f.flyAlone)
		ask("d", TriggerAPI, f.flyAlone)
		ask("e", TriggerSignal, f.fly) // boards with b, and insists
		for range 4 {
			g.pass <- struct{}{}
		}
		synctest.Wait()
		close(got)
		var who []string
		for w := range got {
			who = append(who, w)
		}
		diff(t, who, []string{"a", "e", "c", "d"})
		diff(t, g.triggers, []string{TriggerFile, TriggerSignal, TriggerAPI, TriggerAPI})
	})
}
