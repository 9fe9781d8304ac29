package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/store/lock"
)

// defaultServer is where a server listens unless told otherwise.
const defaultServer = "http://127.0.0.1:8420"

// maxAnswer bounds, in bytes, what is read of a server's answer.
const maxAnswer = 64 << 20

// client speaks to a running server.
type client struct {
	base  string
	token string
	http  http.Client
}

// dial makes the client of a server; nothing is sent.
func (a *app) dial(base string) (*client, error) {
	u, err := url.Parse(base)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, usageError{fmt.Errorf("--server %q is not a URL like %s", base, defaultServer)}
	}
	token := a.token
	if token == "" {
		token = os.Getenv("HERMES_TOKEN")
	}
	return &client{base: strings.TrimRight(base, "/"), token: token}, nil
}

// remote is the client of the server that --server names, else of the owner of the
// project's state, else of the default address.
func (a *app) remote() (*client, error) {
	c, ok, err := a.running()
	if err != nil || ok {
		return c, err
	}
	return a.dial(defaultServer)
}

// owner is the address of the live process that holds the project's state; empty if
// there is none, or no project where none was named. A project whose configuration
// directory is gone has its state where it was: then most of all is there something to ask.
func (a *app) owner() (string, error) {
	paths, err := a.locate()
	state := paths.State
	if err != nil {
		if a.config != "" {
			return "", err
		}
		state = cmp.Or(a.state, "state")
	}
	o, _ := lock.Owner(state)
	return o.Address, nil
}

// running is the client to use for a command that can also work in-process: that of
// --server, else that of the state's owner, else none.
func (a *app) running() (c *client, ok bool, err error) {
	base := a.server
	if base == "" {
		if base, err = a.owner(); err != nil || base == "" {
			return nil, false, err
		}
	}
	c, err = a.dial(base)
	return c, err == nil, err
}

// get reads a JSON resource.
func (c *client) get(ctx context.Context, path string, query url.Values, out any) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return c.call(ctx, http.MethodGet, path, nil, out)
}

// call sends body as JSON (nil: none) and decodes the answer into out (nil: ignored).
func (c *client) call(ctx context.Context, method, path string, body, out any) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	resp, err := c.send(ctx, method, path, body, "application/json")
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "the server's answer broke off")
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fault.Wrap(fault.Unavailable, err, "the answer of %s is not what hermes sends: is it a hermes server?", c.base)
	}
	return nil
}

// send gives a response of status 2xx; the caller closes its body. Others are errors.
func (c *client) send(ctx context.Context, method, path string, body any, accept string) (*http.Response, error) {
	var payload io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encoding request: %w", err)
		}
		payload = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, payload)
	if err != nil {
		return nil, fmt.Errorf("making a request: %w", err)
	}
	if body != nil || method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", accept)
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	return nil, c.refusal(resp)
}

func (c *client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fault.Wrap(fault.Unavailable, err, "no server answers at %s (%s): start one with hermes serve, or name it with --server", c.base, reason(err))
}

// reason is the innermost cause of an error of the system or the network, in its words.
func reason(err error) string {
	var errno syscall.Errno
	var dns *net.DNSError
	var ue *url.Error
	switch {
	case errors.As(err, &errno):
		return errno.Error()
	case errors.As(err, &dns):
		return dns.Err
	case errors.As(err, &ue):
		return ue.Err.Error()
	}
	return err.Error()
}

// refusal turns an error response into an error of its kind.
func (c *client) refusal(resp *http.Response) error {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "the server answered %s", resp.Status)
	}
	var body struct {
		Error fault.Body `json:"error"`
	}
	if err := json.Unmarshal(raw, &body); err != nil || body.Error.Message == "" {
		return fault.New(fault.Unavailable, "%s answered %s, and not as a hermes server does", c.base, resp.Status)
	}
	kind, _ := fault.ParseKind(body.Error.Kind)
	if resp.StatusCode == http.StatusUnauthorized {
		return fault.New(fault.Denied, "%s: give a key with --token or HERMES_TOKEN", body.Error.Message)
	}
	return &fault.Error{Kind: kind, Message: body.Error.Message, Detail: body.Error.Detail}
}
