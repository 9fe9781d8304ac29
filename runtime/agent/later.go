package agent

import (
	"context"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// The wait between two tries to store the end of a run.
const (
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
)

// endLater goes on trying to store the end of a run that the store refused, a full disk
// for example: until then its session is busy, and who follows its events waits. It
// ends with the Loop; whoever takes the run over goes on from what is stored.
func (l *Loop) endLater(row store.Run, data terminalData) {
	l.mu.Lock()
	l.ending++
	l.mu.Unlock()
	go func() {
		defer func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.ending--
			l.idle.Broadcast()
		}()
		for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
			select {
			case <-l.closed:
				return
			case <-time.After(wait):
			}
			if l.endNow(row, data) {
				return
			}
		}
	}()
}

// endNow says whether the run has ended, by this or otherwise.
func (l *Loop) endNow(row store.Run, data terminalData) bool {
	err := l.conclude(context.Background(), row, data)
	switch kind := fault.KindOf(err); {
	case err == nil:
		l.o.Log.Info("run ended late", "run", row.ID, "session", row.Session, "status", row.Status, "generation", row.Generation)
		return true
	case kind == fault.Exists || kind == fault.NotFound:
		return true
	}
	return false
}
