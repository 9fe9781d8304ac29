package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
)

// Failure makes the error of a call from whatever ended it. The texts of other
// packages stay behind: net/http puts the URL into its errors, and net the address.
func (e *Endpoint) Failure(w *Watch, err error) error {
	var f *fault.Error
	var r *Report
	switch {
	case errors.As(err, &r):
		return e.named(r.fault(e.hide))
	case w.parent.Err() != nil:
		return model.Interrupted(w.parent)
	case errors.As(err, &f):
		return e.named(f)
	case errors.As(context.Cause(w.ctx), &f):
		return e.named(f) // a timeout of ours
	}
	return e.named(transportFault(err))
}

// named puts the model's name before the message.
func (e *Endpoint) named(f *fault.Error) error {
	return &fault.Error{
		Kind: f.Kind, Detail: f.Detail, Err: f.Err,
		Message: fault.New(f.Kind, "model %q: %s", e.Label, f.Message).Message,
	}
}

// transportFault says in our own words why no answer, or only a part of one, came.
func transportFault(err error) *fault.Error {
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "dial" && op.Timeout():
		return fault.Wrap(fault.Timeout, model.ErrConnect, "no connection in the time that the system allows")
	case errors.As(err, &dns):
		return fault.New(fault.Unavailable, "the host of base_url has no address; check its name, and DNS")
	case errors.Is(err, syscall.ECONNREFUSED):
		return fault.Wrap(fault.Unavailable, syscall.ECONNREFUSED,
			"nothing accepts connections at base_url; is the server running?")
	case errors.As(err, &cert):
		return fault.New(fault.Unavailable, "the certificate of the provider's server is not valid for this host or not trusted")
	case errors.Is(err, http.ErrSchemeMismatch):
		return fault.New(fault.Unavailable, "the provider's server speaks plain HTTP; use http:// in base_url")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return fault.Wrap(fault.Unavailable, io.ErrUnexpectedEOF,
			"the connection to the provider broke before the answer was complete")
	}
	return fault.New(fault.Unavailable, "the connection to the provider failed")
}
