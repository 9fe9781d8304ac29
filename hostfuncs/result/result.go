// Package result is the family of native functions over stored results: result.read.
//
// How a part of a result is found is in runtime/result; this package finds the result.
//
// # Invariants
//
// A call sees the results of the principal it runs for and nobody else's, also when that
// principal is an administrator: what a model reads may have been written by others to make
// it look further. What was untrusted when it was stored is untrusted when it is read. An
// answer fits into what the call may return, so that it is never stored again.
package result

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/result"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// usualChars bounds an answer where the call does not.
const usualChars = 30_000

// Rows finds stored results; store.Results is one.
type Rows interface {
	Result(ctx context.Context, scope session.Scope, id string) (store.Result, error)
}

// Content opens what is stored; *artifact.Store is one.
type Content interface {
	Open(digest string) (io.ReadSeekCloser, error)
}

// Funcs are the functions of the family. Without rows or content they can be listed and
// declared, and calls are refused.
func Funcs(rows Rows, content Content) []hostfuncs.Func {
	return []hostfuncs.Func{{
		Name: "result.read",
		Description: "Read a part of a tool result that was too large to show: give the handle that the shortened result named. " +
			"Alone it gives the first bytes; next_offset says where to go on. path leads to a value of a JSON result; grep finds lines of a text, or values and names of JSON. " +
			"Prefer path and grep to reading everything.",
		Params: json.RawMessage(`{"additionalProperties":false,"properties":{` +
			`"grep":{"description":"Regular expression (RE2): only matching lines of a text, or matching values and names of JSON","maxLength":1000,"minLength":1,"type":"string"},` +
			`"handle":{"description":"The handle, such as res_abc","maxLength":200,"minLength":1,"type":"string"},` +
			`"limit":{"description":"How many bytes at most (with grep: matches; with a path to several values: values); default: as many as fit","minimum":1,"type":"integer"},` +
			`"offset":{"default":0,"description":"The first byte (with grep: how many matches to skip; with a path to several values: values)","minimum":0,"type":"integer"},` +
			`"path":{"description":"Place in a JSON result, such as $.rows[3].name, $.rows[-1], $.rows[0:5] or $.rows[*].id","maxLength":2000,"minLength":1,"type":"string"}},` +
			`"required":["handle"],"type":"object"}`),
		Traits: tool.Traits{Effect: tool.Read, Idempotent: true, Parallel: true},
		// Whose results it sees is the principal's, whatever the declaration says.
		Capabilities: func(hostfuncs.Values) []string { return []string{"results ro own"} },
		ReadsResults: true,
		New: func(hostfuncs.Binding) (tool.Handler, error) {
			return &reader{rows, content}, nil
		},
	}}
}

// reader answers calls of result.read.
type reader struct {
	rows    Rows
	content Content
}

// Call implements tool.Handler.
func (r *reader) Call(ctx context.Context, c *tool.Call) (_ tool.Result, err error) {
	var args struct {
		Handle string `json:"handle"`
		Offset int64  `json:"offset"`
		Limit  int64  `json:"limit"`
		Grep   string `json:"grep"`
		Path   string `json:"path"`
	}
	if err := json.Unmarshal(c.Arguments, &args); err != nil {
		return tool.Result{}, fault.Wrap(fault.Invalid, err, "the arguments do not have the types this function expects")
	}
	row, err := r.find(ctx, c, args.Handle)
	if err != nil {
		return tool.Result{}, err
	}
	f, err := r.content.Open(row.Digest)
	if err != nil {
		return tool.Result{}, lost(err, args.Handle)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	q := result.Query{Offset: args.Offset, Limit: args.Limit, Grep: args.Grep, Path: args.Path, MaxChars: c.MaxChars}
	if q.MaxChars <= 0 {
		q.MaxChars = usualChars
	}
	a, err := result.Read(ctx, result.Source{Handle: row.ID, Media: row.Media, Size: row.Size, Data: f}, q)
	if err != nil {
		return tool.Result{}, err
	}
	return tool.Result{JSON: json.RawMessage(a.Encode()), Untrusted: row.Untrusted}, nil
}

// find gives the row of a handle that is live and the caller's.
func (r *reader) find(ctx context.Context, c *tool.Call, handle string) (store.Result, error) {
	switch {
	case r.rows == nil || r.content == nil:
		return store.Result{}, fault.New(fault.Unavailable, "this process keeps no results")
	case c.Principal.Name == "":
		return store.Result{}, fault.New(fault.Denied, "this call runs for nobody, so there is nothing it may read")
	}
	row, err := r.rows.Result(ctx, session.Scope{Owner: c.Principal.Name}, handle)
	switch {
	case fault.KindOf(err) == fault.NotFound:
		return store.Result{}, lost(err, handle)
	case err == nil && !row.Expires.IsZero() && !time.Now().Before(row.Expires):
		return store.Result{}, fault.New(fault.NotFound, "the result under the handle %q was kept until %s and has expired: call the tool %q again if it is still needed",
			row.ID, row.Expires.UTC().Format(time.RFC3339), row.Tool)
	}
	return row, err
}

// lost says that nothing is kept under a handle.
func lost(err error, handle string) error {
	if fault.KindOf(err) != fault.NotFound {
		return err
	}
	return fault.Wrap(fault.NotFound, err, "no result is kept under the handle %q: it was never given out, or its time is over; handles stand in results that were shortened", fault.Cut(handle, 64))
}
