package wasmtools

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/kv"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/store/sqlite"
	"github.com/hermes-runtime/hermes/runtime/tool"
	enc "github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
)

var reachGuest = sync.OnceValues(func() ([]byte, error) { return buildGuest("./testdata/reach", "-buildmode=c-shared") })

func reachWasm(t *testing.T) []byte {
	t.Helper()
	wasm, err := reachGuest()
	check(t, err)
	return wasm
}

// state opens a database, which is what keeps keys and values.
func state(t *testing.T, path string) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	check(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// records collects what is logged with audit=true.
type records struct {
	mu  sync.Mutex // guards all
	all []map[string]any
}

func (r *records) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(r, nil)) }

func (r *records) Write(line []byte) (int, error) {
	var rec map[string]any
	if err := json.Unmarshal(line, &rec); err != nil {
		return 0, err
	}
	if rec["audit"] == true {
		delete(rec, "time")
		delete(rec, "level")
		r.mu.Lock()
		r.all = append(r.all, rec)
		r.mu.Unlock()
	}
	return len(line), nil
}

// take gives the records since the last one.
func (r *records) take() []map[string]any {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.all
	r.all = nil
	return out
}

// oneRecord wants exactly one refusal, of ann's call of the tool.
func (r *records) oneRecord(t *testing.T, capability, reason string) {
	t.Helper()
	all := r.take()
	if len(all) != 1 {
		t.Fatalf("%d records, want 1: %v", len(all), all)
	}
	got := all[0]
	if text, _ := got["reason"].(string); !strings.Contains(text, reason) {
		t.Errorf("reason %q, want …%s…", text, reason)
	}
	delete(got, "reason")
	want := map[string]any{
		"msg": "capability refused", "audit": true, "tool": "probe", "call": "call-1", "principal": "ann",
		"agent": "a", "run": "r", "generation": 3.0, "capability": capability,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
}

// steps runs them for a principal and gives the answers.
func steps(t *testing.T, tl *Tool, who, list string) string {
	t.Helper()
	res, err := tl.Call(t.Context(), &tool.Call{
		ID: "call-1", Tool: tl.name, Arguments: json.RawMessage(`{"steps":[` + list + `]}`),
		Agent: "a", Run: "r", Generation: 3, Principal: principal.Principal{Name: who}, Room: 4,
	})
	if err != nil {
		t.Fatalf("%s: %v", list, err)
	}
	return string(res.JSON)
}

func wantSteps(t *testing.T, tl *Tool, who, list, want string) {
	t.Helper()
	if got := steps(t, tl, who, list); got != want {
		t.Errorf("%s of %s:\ngot  %s\nwant %s", list, who, got, want)
	}
}

// TestKV: pairs outlive the call, belong to the principal, are shared by tools with one
// namespace, and are bounded and read-only as granted.
func TestKV(t *testing.T) {
	var audit records
	path := filepath.Join(t.TempDir(), "hermes.db")
	db := state(t, path)
	r, wasm := open(t, Options{KV: db, Log: audit.logger()}), reachWasm(t)
	with := func(g KVGrant) *Tool { return bind(t, r, wasm, Spec{KV: &g, Optional: true}) }
	writer := with(KVGrant{Namespace: "notes", Mode: ReadWrite, Quota: 100})
	wantSteps(t, writer, "ann", `{"do":"get","key":"k"},{"do":"put","key":"k","value":"ann's"},{"do":"get","key":"k"}`, `[null,"put","ann's"]`)
	wantSteps(t, writer, "bob", `{"do":"get","key":"k"},{"do":"list"}`, `[null,{"keys":[],"more":false}]`)
	wantSteps(t, writer, "ann", `{"do":"get","key":"k"},{"do":"put","key":"k/2","value":"x"},{"do":"list","prefix":"k","limit":1},{"do":"list","after":"k"}`,
		`["ann's","put",{"keys":[{"key":"k","size":5}],"more":true},{"keys":[{"key":"k/2","size":1}],"more":false}]`)
	if got := steps(t, writer, "ann", `{"do":"put","key":"big","value":"x","repeat":100},{"do":"put","key":""},{"do":"get","key":"a\u0000b"}`); !strings.Contains(got, "too_large: the namespace") || strings.Count(got, "invalid: a key") != 2 {
		t.Error(got)
	}
	if extra := audit.take(); len(extra) != 0 {
		t.Errorf("records: %v", extra)
	}
	reader := with(KVGrant{Namespace: "notes"})
	wantSteps(t, reader, "ann", `{"do":"get","key":"k"}`, `["ann's"]`)
	for _, do := range []string{"put", "delete"} {
		wantSteps(t, reader, "ann", `{"do":"`+do+`","key":"k","value":"secret words"}`, `["denied: the namespace \"notes\" is granted for reading only"]`)
		audit.oneRecord(t, "kv", do+` in the namespace "notes"`)
	}
	wantSteps(t, with(KVGrant{Namespace: "other", Mode: ReadWrite}), "ann", `{"do":"get","key":"k"},{"do":"delete","key":"k"}`, `[null,false]`)
	wantSteps(t, writer, "ann", `{"do":"delete","key":"k"},{"do":"get","key":"k"}`, `[true,null]`)
	wantSteps(t, bind(t, r, wasm, Spec{Optional: true}), "ann", `{"do":"get","key":"k/2"}`, `["error: not granted: the declaration of the tool has no such grant"]`)
	audit.oneRecord(t, "kv", "there is no grant of it")
	check(t, db.Close())
	after := open(t, Options{KV: state(t, path)})
	wantSteps(t, bind(t, after, wasm, Spec{Optional: true, KV: &KVGrant{Namespace: "notes"}}), "ann", `{"do":"get","key":"k/2"}`, `["x"]`)
}

// TestKVAtOnce: calls at the same moment keep to the quota together.
func TestKVAtOnce(t *testing.T) {
	db := state(t, filepath.Join(t.TempDir(), "hermes.db"))
	tl := bind(t, open(t, Options{KV: db}), reachWasm(t), Spec{Optional: true, KV: &KVGrant{Namespace: "n", Mode: ReadWrite, Quota: 60}})
	var wg sync.WaitGroup
	for i := range 4 {
		key := string(rune('a' + i))
		wg.Go(func() {
			steps(t, tl, "ann", `{"do":"put","key":"`+key+`1","value":"12345678"},{"do":"put","key":"`+key+`2","value":"12345678"}`)
		})
	}
	wg.Wait()
	entries, _, err := db.Values(t.Context(), kv.Space{Owner: "ann", Namespace: "n"}, kv.Page{})
	check(t, err)
	if len(entries) != 6 {
		t.Errorf("%d pairs of 10 bytes in 60", len(entries))
	}
}

// TestToolsRefused: what a grant of tools does not allow is an answer and a record.
func TestToolsRefused(t *testing.T) {
	var audit records
	r, wasm := open(t, Options{Log: audit.logger()}), reachWasm(t)
	tl := bind(t, r, wasm, Spec{Optional: true, Tools: &ToolsGrant{Allow: []tool.Name{"other"}}})
	wantSteps(t, tl, "ann", `{"do":"call","tool":"terminal","arguments":{"command":"secret"}}`, `["denied: the tool \"terminal\" is not among those that this tool may call"]`)
	audit.oneRecord(t, "tools", `a call of the tool "terminal", which is not in allow`)
	wantSteps(t, tl, "ann", `{"do":"call","tool":"other"}`, `["unavailable: no tools can be called from here"]`)
	if extra := audit.take(); len(extra) != 0 {
		t.Errorf("records: %v", extra)
	}
}

// TestAuditIsBounded: a guest cannot flood the log with what it is refused.
func TestAuditIsBounded(t *testing.T) {
	var audit records
	tl := bind(t, open(t, Options{Log: audit.logger()}), reachWasm(t), Spec{Optional: true})
	steps(t, tl, "ann", `{"do":"get","key":"k","times":500}`)
	all := audit.take()
	if len(all) != maxAudits+1 {
		t.Fatalf("%d records", len(all))
	}
	if last := all[maxAudits]; last["msg"] != "more capabilities refused" || last["count"] != float64(500-maxAudits) || last["principal"] != "ann" {
		t.Errorf("the last: %v", last)
	}
}

// TestAuditHTTP: each refused request is one record, which names neither path nor body.
func TestAuditHTTP(t *testing.T) {
	var audit records
	inside := origin(t, echo)
	allowed := origin(t, redirects(map[string]string{
		"/elsewhere": "https://elsewhere.example/?token=s3cret", "/inside": inside, "/metadata": "http://169.254.169.254/latest",
		"/file": "file:///etc/passwd", "/user": "https://user:s3cret@elsewhere.example/",
	}))
	r, wasm := open(t, Options{Log: audit.logger()}), reachWasm(t)
	tl := bind(t, r, wasm, Spec{Optional: true, HTTP: []HTTPGrant{{Hosts: []string{allowed, "http://169.254.169.254"}, AllowPrivate: true}}})
	for step, reason := range map[string]string{
		`"url":"https://elsewhere.example/?token=s3cret"`:    "https://elsewhere.example is not allowed",
		`"url":"` + allowed + `/x","method":"DELETE"`:        `method "DELETE" is not allowed`,
		`"url":"` + allowed + `/elsewhere"`:                  "redirects, and: https://elsewhere.example is not allowed",
		`"url":"` + allowed + `/inside"`:                     "redirects, and: " + inside + " is not allowed",
		`"url":"` + allowed + `/metadata"`:                   "a link-local address, which is always refused",
		`"url":"` + allowed + `/file"`:                       `the scheme "file" is refused`,
		`"url":"` + allowed + `/user"`:                       "user name or password is refused",
		`"url":"http://169.254.169.254/latest?token=s3cret"`: "a link-local address, which is always refused",
	} {
		steps(t, tl, "ann", `{"do":"http",`+step+`}`)
		if text := toText(t, audit.all); strings.Contains(text, "s3cret") || strings.Contains(text, "/latest") {
			t.Errorf("%s: the record says too much: %s", step, text)
		}
		audit.oneRecord(t, "http", reason)
	}
	private := bind(t, r, wasm, Spec{Optional: true, HTTP: []HTTPGrant{{Hosts: []string{allowed}}}})
	steps(t, private, "ann", `{"do":"http","url":"`+allowed+`"}`)
	audit.oneRecord(t, "http", "a loopback address, which is refused unless the declaration says allow_private")
}

func toText(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	check(t, err)
	return string(b)
}

// TestGrantBlocks: every capability that is imported and not granted is named at load, all
// at once, with the block that grants it.
func TestGrantBlocks(t *testing.T) {
	m := command(imports("hermes_http.fetch", "hermes_kv.get", "hermes_kv.put", "hermes_tools.call", "hermes_progress.report")...)
	rep, err := Inspect(m.Bytes())
	check(t, err)
	err = open(t, Options{}).Check(rep, Spec{Name: "weather"})
	for _, want := range []string{
		"The module imports hermes_http.fetch, which needs the capability \"http\". Add to the handler block:\n\n  grant \"http\" {\n    hosts = [\"https://api.example.com\"]\n  }\n",
		"The module imports hermes_kv.get, hermes_kv.put, which needs the capability \"kv\". Add to the handler block:\n\n  grant \"kv\" {\n    namespace = \"weather\"\n    mode      = \"rw\"\n  }\n",
		"  grant \"tools\" {\n    allow = [\"NAME_OF_A_TOOL\"]\n  }\n",
		"  grant \"progress\" {}\n",
	} {
		wantBind(t, err, "", want)
	}
	s := Spec{Name: "weather", HTTP: []HTTPGrant{{Hosts: []string{"a.example"}}}, KV: &KVGrant{Namespace: "n"}, Tools: &ToolsGrant{Allow: []tool.Name{"x"}}, Progress: true}
	check(t, open(t, Options{}).Check(rep, s))
}

func imports(names ...string) []enc.Import {
	var out []enc.Import
	for _, name := range names {
		from, name, _ := strings.Cut(name, ".")
		out = append(out, enc.Import{Module: from, Name: name, Params: []byte{enc.I32, enc.I32}, Results: []byte{enc.I32}})
	}
	return out
}

// TestUnusedGrants: a grant that the module cannot use is a remark.
func TestUnusedGrants(t *testing.T) {
	r := open(t, Options{KV: state(t, filepath.Join(t.TempDir(), "hermes.db"))})
	tl := bind(t, r, command().Bytes(), Spec{KV: &KVGrant{Namespace: "n"}, Tools: &ToolsGrant{Allow: []tool.Name{"x"}}, Progress: true})
	want := []string{"kv is granted, but the module does not import hermes_kv.", "tools is granted, but the module does not import hermes_tools.", "progress is granted, but the module does not import hermes_progress."}
	if diff := cmp.Diff(want, tl.Warnings()); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

// TestGrantsThatCannotBe are errors at their place.
func TestGrantsThatCannotBe(t *testing.T) {
	rep, err := Inspect(command().Bytes())
	check(t, err)
	r := open(t, Options{})
	for _, c := range []struct {
		spec       Spec
		attr, want string
	}{
		{Spec{KV: &KVGrant{Namespace: "a/b"}}, "grant.kv.namespace", "letters, digits"},
		{Spec{KV: &KVGrant{Namespace: "n", Mode: "w"}}, "grant.kv.mode", `"ro" or "rw"`},
		{Spec{KV: &KVGrant{Namespace: "n", Quota: -1}}, "grant.kv.quota", "above zero"},
		{Spec{Tools: &ToolsGrant{}}, "grant.tools.allow", "names of tools"},
		{Spec{Tools: &ToolsGrant{Allow: []tool.Name{"a*"}}}, "grant.tools.allow", `"a*" is not the name`},
		{Spec{Tools: &ToolsGrant{Allow: []tool.Name{"a"}, MaxDepth: 17}}, "grant.tools.max_depth", "between 1 and 16"},
		{Spec{Tools: &ToolsGrant{Allow: []tool.Name{"a"}, MaxDepth: -1}}, "grant.tools.max_depth", "between 1 and 16"},
		{Spec{Limits: Limits{Fuel: -1}}, "limits.fuel", "above zero"},
		{Spec{Limits: Limits{Table: -1}}, "limits.table", "above zero"},
	} {
		wantBind(t, r.Check(rep, c.spec), c.attr, c.want)
	}
	m, err := r.Compile(context.Background(), command().Bytes())
	check(t, err)
	defer m.Release()
	_, err = m.Bind(Spec{KV: &KVGrant{Namespace: "n"}})
	wantBind(t, err, "grant.kv", "without a store")
}
