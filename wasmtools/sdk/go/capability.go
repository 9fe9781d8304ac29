package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// ErrNotGranted is the error of a capability that the declaration does not grant.
var ErrNotGranted = errors.New("not granted: the declaration of the tool has no such grant")

// HostError is what the host answers when it will not or cannot do what was asked. Find it
// with [errors.As].
type HostError struct {
	Kind    string `json:"kind"` // for example "denied", "too_large", "not_found"
	Message string `json:"message"`
}

// Error gives the message, which a tool may show its caller.
func (e *HostError) Error() string { return e.Message }

// exchange makes one capability call: request goes out as JSON, the head of the answer is
// decoded into head, and the body is returned. An error that the head holds is returned as
// a *HostError.
func exchange(ctx context.Context, send func([]byte) (head, body []byte, err error), request, head any) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	req, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("encoding the request: %w", err)
	}
	h, body, err := send(req)
	if err != nil {
		return nil, err
	}
	var refused struct {
		Error *HostError `json:"error"`
	}
	if err := json.Unmarshal(h, &refused); err != nil {
		return nil, fmt.Errorf("decoding the answer: %w", err)
	}
	if refused.Error != nil {
		return nil, refused.Error
	}
	if err := json.Unmarshal(h, head); err != nil {
		return nil, fmt.Errorf("decoding the answer: %w", err)
	}
	return body, nil
}

// Request is a request to be sent by the host.
type Request struct {
	Method  string            `json:"method,omitempty"` // empty: GET
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    []byte            `json:"body_base64,omitempty"`
}

// Response is the answer. Names of headers are in lower case.
type Response struct {
	Status    int               `json:"status"`
	Headers   map[string]string `json:"headers"`
	URL       string            `json:"url"` // after redirects
	Body      []byte            `json:"-"`
	Truncated bool              `json:"truncated"` // the body was longer than the grant allows
}

// HTTP sends a request under the http grants of the declaration. A status of any kind is
// an answer; the error says what was refused or failed.
func HTTP(ctx context.Context, r Request) (*Response, error) {
	var out Response
	body, err := exchange(ctx, hostHTTP, r, &out)
	if err != nil {
		return nil, err
	}
	out.Body = body
	return &out, nil
}

type kvRequest struct {
	Key   string `json:"key"`
	Value []byte `json:"value_base64"`
}

type kvKey struct {
	Key string `json:"key"`
}

type kvFound struct {
	Found bool `json:"found"`
}

// KVGet reads the value of a key, in the namespace that the kv grant names and of the
// principal the call is made for. Keys are text of 1 to 512 bytes. A key that is not there
// is no error.
func KVGet(ctx context.Context, key string) (value []byte, found bool, err error) {
	var h kvFound
	value, err = exchange(ctx, hostKVGet, kvKey{key}, &h)
	return value, h.Found, err
}

// KVPut stores a value; over the grant's quota it is a [HostError] of kind "too_large" and
// nothing changes.
func KVPut(ctx context.Context, key string, value []byte) error {
	if value == nil {
		value = []byte{}
	}
	_, err := exchange(ctx, hostKVPut, kvRequest{key, value}, &struct{}{})
	return err
}

// KVDelete removes a key and says whether it was there.
func KVDelete(ctx context.Context, key string) (found bool, err error) {
	var h kvFound
	_, err = exchange(ctx, hostKVDelete, kvKey{key}, &h)
	return h.Found, err
}

// KVQuery selects keys.
type KVQuery struct {
	Prefix string `json:"prefix,omitempty"` // empty: all
	After  string `json:"after,omitempty"`  // only keys greater than it: the last of the page before
	Limit  int    `json:"limit,omitempty"`  // 0: as many as the host gives
}

// KVKey is one key and the size of its value in bytes.
type KVKey struct {
	Key  string `json:"key"`
	Size int64  `json:"size"`
}

// KVList gives a page of keys sorted by their bytes, and whether there are more.
func KVList(ctx context.Context, q KVQuery) (keys []KVKey, more bool, err error) {
	var h struct {
		Keys []KVKey `json:"keys"`
		More bool    `json:"more"`
	}
	_, err = exchange(ctx, hostKVList, q, &h)
	return h.Keys, h.More, err
}

// CallTool calls another tool, which the tools grant must allow, under that tool's own
// grants and policies and within the time this call has left. The arguments are encoded as
// JSON and must be an object; the result is one JSON value. A tool that fails is a
// [HostError].
func CallTool(ctx context.Context, name string, arguments any) (json.RawMessage, error) {
	if arguments == nil {
		arguments = struct{}{}
	}
	var h struct {
		OK bool `json:"ok"`
	}
	body, err := exchange(ctx, hostTool, struct {
		Tool      string `json:"tool"`
		Arguments any    `json:"arguments"`
	}{name, arguments}, &h)
	if err == nil && !h.OK {
		err = errors.New("the tool failed, and the host did not say why")
	}
	if err != nil {
		return nil, err
	}
	return body, nil
}

// Step is how far a call has come, in a unit of the tool's choosing.
type Step struct {
	Message string  `json:"message,omitempty"`
	Done    float64 `json:"done,omitempty"`
	Total   float64 `json:"total,omitempty"` // 0: not known
}

// Progress tells the caller how far the call has come. Reports that come too fast are
// dropped.
func Progress(ctx context.Context, s Step) error {
	_, err := exchange(ctx, hostProgress, s, &struct{}{})
	return err
}
