package egress

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// read bounds the answer twice: what comes over the wire, and what it unpacks to.
func read(answer *http.Response, from *url.URL, limit int64) (*Response, error) {
	wire := &io.LimitedReader{R: answer.Body, N: limit + maxResponseHeader}
	body, packed, err := decoded(answer, wire)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err != nil && (wire.N > 0 || !errors.Is(err, io.ErrUnexpectedEOF)) {
		return nil, damaged(err)
	}
	res := &Response{Status: answer.StatusCode, Header: answer.Header.Clone(), URL: from.String(), Body: b}
	if res.Truncated = int64(len(b)) > limit || wire.N == 0; int64(len(b)) > limit {
		res.Body = b[:limit]
	}
	if packed {
		res.Header.Del("Content-Encoding")
		res.Header.Del("Content-Length")
	}
	return res, nil
}

// decoded unpacks gzip, the one encoding that is asked for. An answer in another is
// passed on as it came.
func decoded(answer *http.Response, wire io.Reader) (io.Reader, bool, error) {
	if !strings.EqualFold(strings.TrimSpace(answer.Header.Get("Content-Encoding")), "gzip") {
		return wire, false, nil
	}
	buffered := bufio.NewReader(wire)
	if _, err := buffered.Peek(1); errors.Is(err, io.EOF) {
		return buffered, true, nil
	}
	unpacked, err := gzip.NewReader(buffered)
	if err != nil {
		return nil, false, damaged(err)
	}
	return unpacked, true, nil
}

// damaged keeps context errors recognisable.
func damaged(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return err
	}
	return fault.Wrap(fault.Unavailable, err, "the answer broke off or is damaged")
}

// describe turns what went wrong at an origin into words that are safe to show. ctx is
// the caller's; its end is told apart from the policy's timeout, which ends bounded.
func describe(ctx, bounded context.Context, err error, at Origin, timeout time.Duration) error {
	var known *fault.Error
	var cert *tls.CertificateVerificationError
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return fault.Wrap(fault.Canceled, ctx.Err(), "the request to %s was canceled", at)
	case ctx.Err() != nil:
		return fault.Wrap(fault.Timeout, ctx.Err(), "the time allowed ran out while waiting for %s", at)
	case bounded.Err() != nil:
		return fault.Wrap(fault.Timeout, err, "%s gave no complete answer within %s", at, timeout)
	case errors.Is(err, context.DeadlineExceeded):
		return fault.Wrap(fault.Timeout, err, "%s accepted no connection in time", at)
	case errors.As(err, &known):
		return known
	case errors.As(err, &cert):
		return fault.Wrap(fault.Unavailable, err, "the certificate of %s is not accepted", at)
	}
	return fault.Wrap(fault.Unavailable, err, "no answer from %s: the connection failed", at)
}
