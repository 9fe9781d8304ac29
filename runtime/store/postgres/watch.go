package postgres

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// firstRetry and lastRetry are the longest pauses before connecting again: they
	// double from one to the other.
	firstRetry = 200 * time.Millisecond
	lastRetry  = 10 * time.Second
	// quiet is how long Watch hears nothing before it asks whether the server is there.
	quiet = 30 * time.Second
)

// Watch calls fn, from this goroutine, for events that this or any other server has
// appended: of run, up to seq. Whenever Watch begins to listen, also after it has lost
// its connection, it first calls fn with an empty run: it may have missed some, so look
// again at everything. It connects again for as long as it takes, and returns an error
// when ctx ends or the database is closed. fn must be quick: notices wait for it.
func (d *DB) Watch(ctx context.Context, fn func(run string, seq int64)) error {
	listening, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.open, cancel)()
	retry := firstRetry
	for {
		err := d.listen(listening, func(run string, seq int64) {
			retry = firstRetry
			fn(run, seq)
		})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case d.open.Err() != nil:
			return errClosed()
		}
		d.o.Log.WarnContext(ctx, "lost connection that watches events", "err", explain(err), "again_within", retry)
		if pause(listening, retry) {
			retry = min(2*retry, lastRetry)
		}
	}
}

// listen calls fn until its connection, which it makes and closes, or ctx ends.
func (d *DB) listen(ctx context.Context, fn func(run string, seq int64)) (err error) {
	config := d.pool.Config().ConnConfig
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		err = errors.Join(err, conn.Close(closing))
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return err
	}
	fn("", 0)
	for {
		if err := hear(ctx, conn, fn); err != nil {
			return err
		}
	}
}

// hear waits for one notice, or finds after a quiet time that the server is still there.
func hear(ctx context.Context, conn *pgx.Conn, fn func(run string, seq int64)) error {
	waiting, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	notice, err := conn.WaitForNotification(waiting)
	switch {
	case err != nil && waiting.Err() != nil && ctx.Err() == nil && !conn.IsClosed():
		asking, cancel := context.WithTimeout(ctx, connectTimeout)
		defer cancel()
		return conn.Ping(asking)
	case err != nil:
		return err
	}
	end := max(strings.LastIndexByte(notice.Payload, ' '), 0)
	seq, err := strconv.ParseInt(strings.TrimPrefix(notice.Payload[end:], " "), 10, 64)
	if err != nil {
		return nil // somebody else's: anyone who may use the database may notify
	}
	fn(notice.Payload[:end], seq)
	return nil
}
