package postgres

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

const (
	// readTimeout bounds the reading of one content.
	readTimeout = 30 * time.Second
	// youngest is how long a content stays that no row names: the row may be on its way.
	youngest = 10 * time.Minute
)

// Hold keeps b and gives its digest, hex sha256. It stays for ten minutes even if no row of
// results names it; there is nothing to release.
func (d *DB) Hold(ctx context.Context, b []byte) (digest string, size int64, release func(), err error) {
	sum := sha256.Sum256(b)
	digest = hex.EncodeToString(sum[:])
	if b == nil {
		b = []byte{} // the driver takes nil for NULL
	}
	err = d.write(ctx, func(t *tx) error {
		_, err := t.exec(`INSERT INTO contents (digest, body, held) VALUES ($1, $2, `+now+`)
			ON CONFLICT (digest) DO UPDATE SET held = excluded.held`, digest, b)
		return err
	})
	return digest, int64(len(b)), func() {}, err
}

// Open gives the content of a digest. One that is not there is fault.NotFound, one that is
// not what was stored fault.Internal. The caller closes it.
func (d *DB) Open(digest string) (io.ReadSeekCloser, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	var b []byte
	err := d.scan(ctx, `SELECT body FROM contents WHERE digest = $1`, []any{digest}, &b)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.New(fault.NotFound, "the content %s is not stored", fault.Cut(digest, 64))
	}
	if err != nil {
		return nil, explain(err)
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != digest {
		return nil, fault.New(fault.Internal, "the content %s is damaged: it is not what was stored", digest)
	}
	return content{bytes.NewReader(b)}, nil
}

// content is one in memory.
type content struct{ *bytes.Reader }

// Close does nothing.
func (content) Close() error { return nil }

// KeepOnly removes the contents that no row of results names, unless they are young. It does
// not ask for those that are wanted, since it has the rows.
func (d *DB) KeepOnly(ctx context.Context, _ func(context.Context) (map[string]bool, error)) error {
	return d.write(ctx, func(t *tx) error {
		_, err := t.exec(`DELETE FROM contents c WHERE held < `+now+` - $1::bigint
			AND NOT EXISTS (SELECT 1 FROM results r WHERE r.digest = c.digest)`, youngest.Microseconds())
		return err
	})
}
