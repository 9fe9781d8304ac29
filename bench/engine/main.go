// Command engine measures what it costs to make a turn durable, committed, on SQLite: with DBOS
// Transact, as workflows of steps that do nothing, and with the journal that hermes has, which
// stores the input, the message, the outputs of three steps, an event and the end as well.
//
//	go run ./engine
//
// Both write with synchronous = NORMAL over one connection. See docs/adr/0009.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	_ "github.com/dbos-inc/dbos-transact-golang/dbos/driver/sqlite" // what it needs to work on SQLite

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/store/sqlite"
)

const (
	alone  = 500
	atOnce = 16
	each   = 150
)

func main() {
	if err := measure(); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func measure() (err error) {
	dir, err := os.MkdirTemp("", "hermes-engine")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	fmt.Printf("%-40s %16s %14s\n", "a turn, committed", "alone, p50", "16 at once")
	for _, steps := range []int{1, 3} {
		if err := workflows(filepath.Join(dir, fmt.Sprint("dbos", steps)), steps); err != nil {
			return fmt.Errorf("DBOS: %w", err)
		}
	}
	if err := journal(filepath.Join(dir, "journal")); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// timed runs turns one after the other, then many at once.
func timed(name string, turn func(id string) error) error {
	var took []time.Duration
	for i := range alone {
		begin := time.Now()
		if err := turn(fmt.Sprint("a", i)); err != nil {
			return err
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	errs := make([]error, atOnce)
	var all sync.WaitGroup
	begin := time.Now()
	for g := range atOnce {
		all.Go(func() {
			for i := range each {
				if err := turn(fmt.Sprint("b", g, "-", i)); err != nil {
					errs[g] = err
				}
			}
		})
	}
	all.Wait()
	fmt.Printf("%-40s %16v %12.0f/s\n", name, took[len(took)/2].Round(time.Microsecond), atOnce*each/time.Since(begin).Seconds())
	return errors.Join(errs...)
}

func workflows(dir string, steps int) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "x.db")+"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=foreign_keys(ON)")
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	ctx, err := dbos.NewContext(context.Background(), dbos.Config{
		AppName: "hermes", SQLiteSystemDB: db, ApplicationVersion: "1", ExecutorID: "one", Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	turn := func(ctx dbos.Context, _ string) (string, error) {
		for i := range steps {
			_, err := dbos.RunAsStep(ctx, func(context.Context) (string, error) { return `{"message":12}`, nil }, dbos.WithStepName(fmt.Sprint("step", i)))
			if err != nil {
				return "", err
			}
		}
		return "done", nil
	}
	dbos.RegisterWorkflow(ctx, turn)
	if err := dbos.Launch(ctx); err != nil {
		return err
	}
	defer func() { _ = dbos.Shutdown(ctx, 5*time.Second) }()
	return timed(fmt.Sprintf("DBOS, a workflow of %d empty steps", steps), func(id string) error {
		h, err := dbos.RunWorkflow(ctx, turn, "", dbos.WithWorkflowID(id))
		if err != nil {
			return err
		}
		_, err = h.GetResult()
		return err
	})
}

func journal(dir string) error {
	ctx := context.Background()
	db, err := sqlite.Open(ctx, filepath.Join(dir, "x.db"), sqlite.Options{Synchronous: sqlite.Normal})
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	return timed("the journal, with all that a turn stores", func(id string) error {
		lease := store.Lease{Holder: "one", Epoch: 1}
		r := store.Run{ID: id, Session: "s-" + id, Owner: "local", Agent: "a", Lease: lease, Turn: []byte(`{}`)}
		input := session.Message{Run: id, Step: "0/input/0", Message: chat.Message{Role: chat.User, Content: "Hello."}}
		if _, err := db.BeginRun(ctx, r, &session.Session{ID: r.Session, Owner: r.Owner, Agent: r.Agent, Hidden: true}, input); err != nil {
			return err
		}
		end := r
		end.Status = string(run.Completed)
		return db.Commit(ctx, []store.Entry{
			{Run: id, Epoch: 1, Event: event(id, 1)},
			{
				Run: id, Epoch: 1, Event: event(id, 2),
				Messages: []session.Message{{Run: id, Seq: 2, Step: "1/model", Message: chat.Message{Role: chat.Assistant, Content: "Hello there, this is an answer."}}},
				Steps:    []store.Step{{Key: "1/prepare", Output: []byte(`{"generation":1}`)}, {Key: "1/model", Output: []byte(`{"message":2}`)}, {Key: "1/settle", Output: []byte(`{"done":true}`)}},
			},
			{Run: id, Epoch: 1, Event: event(id, 3), End: &end},
		})
	})
}

func event(id string, seq int64) store.Event {
	return store.Event{Run: id, Seq: seq, Body: fmt.Appendf(nil, `{"seq":%d,"type":"message.completed","run":%q}`, seq, id)}
}
