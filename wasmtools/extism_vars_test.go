package wasmtools

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/store/sqlite"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// as calls a tool for a principal, with what the host offers.
func as(ctx context.Context, tl *Tool, who string, host tool.Host, args string) (string, error) {
	res, err := tl.Call(ctx, &tool.Call{ID: "call-1", Tool: tl.name, Arguments: json.RawMessage(args), Principal: principal.Principal{Name: who}, Host: host})
	return string(res.JSON), err
}

// TestPluginVariables: variables end with the call, unless kv is granted: then they stay,
// for each principal, within quota and mode.
func TestPluginVariables(t *testing.T) {
	wasm, err := goPlugin()
	check(t, err)
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "state.db"), sqlite.Options{})
	check(t, err)
	t.Cleanup(func() { _ = db.Close() })
	r := open(t, Options{KV: db})
	spec := func(kv *KVGrant) Spec { return Spec{Optional: true, KV: kv} }
	none := bind(t, r, wasm, spec(nil))
	kept := bind(t, r, wasm, spec(&KVGrant{Namespace: "notes", Mode: ReadWrite, Quota: 100}))
	read := bind(t, r, wasm, spec(&KVGrant{Namespace: "notes"}))
	if w := kept.Warnings(); w != nil {
		t.Error(w)
	}
	for _, c := range []struct {
		tl   *Tool
		who  string
		args string
		want string
		kind string
	}{
		{none, "ann", `{"do":"keep","text":"n","value":1}`, `null`, ""},
		{none, "ann", `{"do":"keep","text":"n","value":1}`, `null`, ""},
		{kept, "ann", `{"do":"keep","text":"n","value":1}`, `null`, ""},
		{kept, "ann", `{"do":"keep","text":"n","value":2}`, `"1"`, ""},
		{kept, "bob", `{"do":"keep","text":"n","value":3}`, `null`, ""},
		{kept, "ann", `{"do":"keep","text":"n"}`, `"2"`, ""},
		{kept, "ann", `{"do":"keep","text":"n","value":"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"}`, "", "too_large"},
		{kept, "ann", `{"do":"keep","text":"","value":1}`, "", "invalid"},
		{kept, "bob", `{"do":"vars","times":3}`, `["3","3",null]`, ""},
		{read, "bob", `{"do":"keep","text":"n","value":1}`, "", "denied"},
		{none, "bob", `{"do":"keep","text":"n","value":1}`, `null`, ""},
	} {
		got, err := as(t.Context(), c.tl, c.who, nil, c.args)
		if kind := fault.KindOf(err).String(); err != nil && kind != c.kind || err == nil && c.kind != "" || got != c.want {
			t.Errorf("%s, %s: %s, %v; want %s %s", c.who, c.args, got, err, c.want, c.kind)
		}
	}
}

// follower takes the reports of a call.
type follower struct {
	tool.Host
	got []tool.Progress
}

func (f *follower) Progress(_ context.Context, p tool.Progress) { f.got = append(f.got, p) }

// TestPluginProgress: reports reach who follows the run, with a grant.
func TestPluginProgress(t *testing.T) {
	r := open(t, Options{})
	wasm := buildPlugin(t, "hyper2")
	for _, granted := range []bool{false, true} {
		tl := bind(t, r, wasm, Spec{Progress: granted})
		var f follower
		_, err := as(t.Context(), tl, "ann", &f, `{}`)
		check(t, err)
		want := []tool.Progress{{Message: "half", Done: 1, Total: 2}}
		if !granted {
			want = nil
		}
		if diff := cmp.Diff(want, f.got); diff != "" {
			t.Error(diff)
		}
		if w := tl.Warnings(); w != nil {
			t.Error(w)
		}
	}
}
