package result_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/hostfuncs/result"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// kept has one result, of ann.
type kept struct {
	row   store.Result
	text  string
	err   error // of rows
	gone  error // of the content
	scope session.Scope
}

func (k *kept) Result(_ context.Context, scope session.Scope, id string) (store.Result, error) {
	k.scope = scope
	if k.err == nil && (id != k.row.ID || scope.Owner != k.row.Owner) {
		return store.Result{}, fault.New(fault.NotFound, "no result %q", id)
	}
	return k.row, k.err
}

type file struct{ io.ReadSeeker }

func (file) Close() error { return nil }

func (k *kept) Open(string) (io.ReadSeekCloser, error) {
	return file{strings.NewReader(k.text)}, k.gone
}

func call(t *testing.T, k *kept, c tool.Call) (tool.Result, error) {
	t.Helper()
	h, err := result.Funcs(k, k)[0].New(hostfuncs.Binding{})
	if err != nil {
		t.Fatal(err)
	}
	return h.Call(t.Context(), &c)
}

func store1(text, media string) *kept {
	return &kept{row: store.Result{ID: "res_1", Owner: "ann", Tool: "x", Digest: "d", Size: int64(len(text)), Media: media}, text: text}
}

func of(name, arguments string) tool.Call {
	return tool.Call{Arguments: json.RawMessage(arguments), Principal: principal.Principal{Name: name, Role: principal.Admin}, MaxChars: 2000}
}

func TestRead(t *testing.T) {
	k := store1(`{"rows":[{"id":1},{"id":2}]}`, "application/json")
	for arguments, want := range map[string]string{
		`{"handle":"res_1"}`:                       `{"handle":"res_1","media":"application/json","size":28,"offset":0,"text":"{\"rows\":[{\"id\":1},{\"id\":2}]}"}`,
		`{"handle":"res_1","offset":5,"limit":2}`:  `{"handle":"res_1","media":"application/json","size":28,"offset":5,"text":"s\"","next_offset":7}`,
		`{"handle":"res_1","path":"$.rows[*].id"}`: `{"handle":"res_1","media":"application/json","size":28,"path":"$.rows[*].id","offset":0,"values":[1,2],"count":2}`,
		`{"handle":"res_1","path":"rows[-1]"}`:     `{"handle":"res_1","media":"application/json","size":28,"path":"rows[-1]","type":"object","offset":0,"value":{"id":2}}`,
		`{"handle":"res_1","grep":"^2$"}`:          `{"handle":"res_1","media":"application/json","size":28,"offset":0,"matches":[{"path":"$.rows[1].id","offset":24,"text":"2"}]}`,
	} {
		got, err := call(t, k, of("ann", arguments))
		if err != nil || string(got.JSON) != want || got.Untrusted {
			t.Errorf("%s: %s, %v\nwant %s", arguments, got.JSON, err, want)
		}
	}
	k.row.Untrusted = true
	if got, err := call(t, k, of("ann", `{"handle":"res_1"}`)); err != nil || !got.Untrusted {
		t.Errorf("what came from outside is trusted: %v", err)
	}
}

// TestOwner asks for another one's result, as an administrator too.
func TestOwner(t *testing.T) {
	k := store1("text", "text/plain")
	if _, err := call(t, k, of("bob", `{"handle":"res_1"}`)); fault.KindOf(err) != fault.NotFound || k.scope.All || k.scope.Owner != "bob" {
		t.Errorf("%v, asked for %+v", err, k.scope)
	}
	if _, err := call(t, k, of("", `{"handle":"res_1"}`)); fault.KindOf(err) != fault.Denied {
		t.Errorf("nobody: %v", err)
	}
}

// TestGone says of a handle that nothing is there any more, and why.
func TestGone(t *testing.T) {
	k := store1("text", "text/plain")
	k.row.Expires = time.Now().Add(-time.Second)
	if _, err := call(t, k, of("ann", `{"handle":"res_1"}`)); fault.KindOf(err) != fault.NotFound || !strings.Contains(err.Error(), "has expired") {
		t.Errorf("expired: %v", err)
	}
	k.row.Expires = time.Now().Add(time.Hour)
	if _, err := call(t, k, of("ann", `{"handle":"res_1"}`)); err != nil {
		t.Errorf("live: %v", err)
	}
	if _, err := call(t, k, of("ann", `{"handle":"res_2"}`)); fault.KindOf(err) != fault.NotFound || !strings.Contains(err.Error(), "no result is kept under the handle \"res_2\"") {
		t.Errorf("unknown: %v", err)
	}
	k.gone = fault.New(fault.NotFound, "no artifact")
	if _, err := call(t, k, of("ann", `{"handle":"res_1"}`)); fault.KindOf(err) != fault.NotFound {
		t.Errorf("no content: %v", err)
	}
	k.gone = errors.New("disk")
	if _, err := call(t, k, of("ann", `{"handle":"res_1"}`)); !errors.Is(err, k.gone) {
		t.Errorf("a disk: %v", err)
	}
	k.err = errors.New("database")
	if _, err := call(t, k, of("ann", `{"handle":"res_1"}`)); !errors.Is(err, k.err) {
		t.Errorf("a database: %v", err)
	}
}

// TestFits answers with no more than the call may return.
func TestFits(t *testing.T) {
	k := store1(strings.Repeat("\"\n", 100_000), "text/plain")
	for _, limit := range []int{0, 1, 2000, 10_000} {
		c := of("ann", `{"handle":"res_1"}`)
		c.MaxChars = limit
		got, err := call(t, k, c)
		most := max(limit, 1500)
		if limit == 0 {
			most = 30_000
		}
		if n := len(bytes.Runes(got.JSON)); err != nil || n > most || n < most/2 {
			t.Errorf("limit %d: %d characters, %v", limit, n, err)
		}
	}
}
