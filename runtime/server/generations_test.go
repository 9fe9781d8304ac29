package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/generation"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/server/api"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// remember writes generations 1 to n into the history, each with another description of
// tool.x and text in x.hcl; the last is only prepared.
func (w *world) remember(n int) {
	w.t.Helper()
	object := func(i int) *generation.Object {
		return &generation.Object{ID: "tool.x", Pos: "tools.d/x.hcl:1", Digest: fmt.Sprint(i), Attrs: []generation.Attr{
			{Name: "description", Value: json.RawMessage(strconv.Quote(fmt.Sprintf("It is %d.", i)))},
		}}
	}
	var before *generation.Manifest
	for i := 1; i <= n; i++ {
		now := &generation.Manifest{Objects: map[string]*generation.Object{"tool.x": object(i)}}
		diff := generation.Compare(before, now)
		diff.Inputs = []generation.InputChange{{Path: "tools.d/x.hcl", Action: generation.Changed, SHA256: sha(fmt.Sprint(i))}}
		before = now
		err := w.db.PrepareGeneration(w.t.Context(), store.GenerationChange{
			Generation: store.Generation{Number: int64(i), Parent: int64(i - 1), Trigger: "file", Owner: "operator", Prepared: time.Unix(int64(i), 0), Inputs: sha("all" + fmt.Sprint(i)), Diff: encode(w.t, diff)},
			Changed:    []store.GenerationInput{{Path: "tools.d/x.hcl", Digest: sha(fmt.Sprint(i)), Size: int64(len(fmt.Sprint(i))), Body: []byte(fmt.Sprint(i))}},
			Objects:    []store.GenerationObject{{ID: "tool.x", Digest: fmt.Sprint(i), Body: encode(w.t, object(i))}},
		})
		if err != nil {
			w.t.Fatal(err)
		}
		if i < n {
			if err := w.db.ConfirmGeneration(w.t.Context(), int64(i), time.Unix(int64(i), 0)); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

func encode(t *testing.T, v any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestGenerations lists the history page by page, with what became of each.
func TestGenerations(t *testing.T) {
	w := newWorld(t).start()
	w.do("GET", "/api/generations", "").want(t, 200)
	w.remember(6)
	w.number = 3
	w.swap() // 4 drains, for somebody has it
	_, release, err := w.holder.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	w.swap() // 5 is live
	state := func(r reply) (out []string) {
		for _, g := range decode[api.GenerationList](t, r.want(t, 200)).Generations {
			out = append(out, fmt.Sprintf("%d %s +%d~%d-%d %d", g.Number, g.State, g.Added, g.Changed, g.Removed, g.FilesChanged))
		}
		return out
	}
	want := []string{"6 prepared +0~1-0 1", "5 live +0~1-0 1", "4 draining +0~1-0 1", "3 retired +0~1-0 1", "2 retired +0~1-0 1", "1 retired +1~0-0 1"}
	if diff := cmp.Diff(want, state(w.do("GET", "/api/generations", ""))); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
	first := w.do("GET", "/api/generations?limit=2", "")
	if diff := cmp.Diff(want[:3], state(first)); diff != "" {
		t.Errorf("the first page (-want +got):\n%s", diff)
	}
	next := decode[api.GenerationList](t, first).Next
	if diff := cmp.Diff(want[3:5], state(w.do("GET", fmt.Sprintf("/api/generations?limit=2&before=%d", next), ""))); diff != "" {
		t.Errorf("the next page (-want +got):\n%s", diff)
	}
	if strings.Contains(string(first.body), `"diff"`) {
		t.Errorf("the list has whole diffs: %s", first.body)
	}
}

// TestGeneration shows one, compared with its parent and with others.
func TestGeneration(t *testing.T) {
	w := newWorld(t).start()
	w.remember(4)
	show := func(path string) api.GenerationDetail {
		return decode[api.GenerationDetail](t, w.do("GET", "/api/generations/"+path, "").want(t, 200))
	}
	texts := func(g api.GenerationDetail) string {
		a := g.Diff.Changes[0].Attrs[0]
		out := fmt.Sprintf("%d since %d:", g.Number, g.Since)
		for _, side := range []*generation.Attr{a.Before, a.After} {
			if side != nil {
				out += " " + string(side.Value)
			}
		}
		return out
	}
	g := show("3")
	wantFiles := []api.GenerationFile{{Path: "tools.d/x.hcl", SHA256: sha("3"), Size: 1}}
	if diff := cmp.Diff(wantFiles, g.Files); diff != "" || g.Inputs != sha("all3") || g.Parent != 2 || g.State != api.StateLast || texts(g) != `3 since 2: "It is 2." "It is 3."` {
		t.Errorf("%+v, files (-want +got):\n%s", g, diff)
	}
	for path, want := range map[string]string{
		"3?since=1": `3 since 1: "It is 1." "It is 3."`, "1?since=3": `1 since 3: "It is 3." "It is 1."`, "2?since=0": `2 since 0: "It is 2."`, "4": `4 since 3: "It is 3." "It is 4."`,
	} {
		if got := texts(show(path)); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	since := show("3?since=1").Diff.Inputs
	if diff := cmp.Diff([]generation.InputChange{{Path: "tools.d/x.hcl", Action: generation.Changed, SHA256: sha("3")}}, since); diff != "" {
		t.Errorf("files since 1 (-want +got):\n%s", diff)
	}
	for path, status := range map[string]int{
		"/9": 404, "/0": 404, "/-1": 404, "/x": 404, "/99999999999999999999": 404, "/3?since=9": 404, "/3?since=x": 400, "/3?until=1": 400, "?limit=x": 400, "?after=1": 400,
	} {
		if r := w.do("GET", "/api/generations"+path, ""); r.StatusCode != status {
			t.Errorf("%s: status %d, want %d: %s", path, r.StatusCode, status, r.body)
		}
	}
}

// TestRoutesAreGuarded walks the route table: what is for admins no user gets, what is
// for users nobody without a key, and every answer says which generation gave it.
func TestRoutesAreGuarded(t *testing.T) {
	w := newWorld(t)
	w.key("ops", principal.Admin)
	w.key("app", principal.User)
	w.start()
	guarded := 0
	for _, entry := range w.srv.Routes() {
		path := strings.NewReplacer("{id}", "x", "{n}", "1", "{agent}", "a", "{tool}", "x", "{id...}", "x").Replace(entry.Pattern)
		for key, want := range map[string]int{"": http.StatusUnauthorized, "app": http.StatusForbidden} {
			var edits []edit
			if key != "" {
				edits = append(edits, as(key))
			}
			r := w.do(entry.Method, path, "", edits...)
			if r.Header.Get("Hermes-Generation") != "1" {
				t.Errorf("%s %s: Hermes-Generation %q", entry.Method, path, r.Header.Get("Hermes-Generation"))
			}
			refused := r.StatusCode == want
			switch {
			case entry.Access.String() == "admin" || entry.Access.String() == "user" && key == "":
				guarded++
				if !refused {
					t.Errorf("%s %s with key %q: status %d, want %d", entry.Method, path, key, r.StatusCode, want)
				}
			case refused:
				t.Errorf("%s %s with key %q: status %d", entry.Method, path, key, r.StatusCode)
			}
		}
	}
	if guarded < 10 {
		t.Errorf("%d routes are guarded", guarded)
	}
}
