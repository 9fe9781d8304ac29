package server_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/reload"
	"github.com/hermes-runtime/hermes/runtime/server/api"
)

func sha(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// given is a file of a plan as JSON; content nil: only its digest.
func given(path, content string, whole bool) string {
	f := map[string]any{"path": path, "sha256": sha(content)}
	if whole {
		f["content"] = base64.StdEncoding.EncodeToString([]byte(content))
	}
	raw, err := json.Marshal(f)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func inputs(files ...string) string { return `{"inputs":[` + strings.Join(files, ",") + `]}` }

// TestPlanOfFiles: contents that the server has need not be sent, and those it lacks are
// named.
func TestPlanOfFiles(t *testing.T) {
	w := newWorld(t).start()
	w.reload.bodies = map[string][]byte{sha("live"): []byte("live")}
	w.do("POST", "/api/plan", "").want(t, 200)
	w.do("POST", "/api/plan", "{}").want(t, 200)
	w.do("POST", "/api/plan", inputs()).want(t, 200)
	w.do("POST", "/api/plan", inputs(given("agents/a.hcl", "live", false), given("tools.d/x.wasm", "new", true), given("empty", "", false))).want(t, 200)
	want := []map[string][]byte{nil, nil, {}, {"agents/a.hcl": []byte("live"), "tools.d/x.wasm": []byte("new"), "empty": nil}}
	if diff := cmp.Diff(want, w.reload.planned); diff != "" {
		t.Errorf("planned (-want +got):\n%s", diff)
	}

	r := w.do("POST", "/api/plan", inputs(given("a", "live", false), given("b", "new", false), given("c", "newer", false))).want(t, 400)
	body := decode[struct {
		Error struct {
			Kind, Message string
			Detail        api.Missing
		}
	}](t, r)
	if diff := cmp.Diff([]string{"b", "c"}, body.Error.Detail.Missing); diff != "" || body.Error.Kind != "invalid" || !strings.Contains(body.Error.Message, "b, c: send it") {
		t.Errorf("missing (-want +got):\n%s\n%s", diff, r.body)
	}
	if len(w.reload.planned) != len(want) {
		t.Error("it was planned without the contents that it lacks")
	}
}

// TestPlanRefuses what is no file of a project.
func TestPlanRefuses(t *testing.T) {
	w := newWorld(t)
	w.conf.MaxBody = 1 << 10
	w.start()
	file := func(path string) string { return inputs(given(path, "x", true)) }
	quoted := func(path string) string {
		raw, err := json.Marshal(path)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf(`{"inputs":[{"path":%s,"sha256":"%s","content":"eA=="}]}`, raw, sha("x"))
	}
	for _, body := range []string{
		file(""), file("."), file(".."), file("/etc/passwd"), file("../x"), file("a/../b"), file("a//b"), file("a/"), file("./a"), file(`a\b`),
		quoted("a\x00b"), quoted("a\nb"), file(strings.Repeat("a", 2000)), `{"inputs":[{"path":"` + "\xff" + `","sha256":"` + sha("x") + `","content":"eA=="}]}`,
		inputs(given("a", "x", true), given("a", "x", true)),
		inputs(given("a", "x", true), given("a/b/c", "x", true)),
		`{"inputs":[{"path":"a","sha256":"","content":"eA=="}]}`,
		`{"inputs":[{"path":"a","sha256":"` + strings.ToUpper(sha("x")) + `","content":"eA=="}]}`,
		`{"inputs":[{"path":"a","sha256":"` + sha("y") + `","content":"eA=="}]}`,
		`{"inputs":[{"path":"a","sha256":"` + sha("x") + `","content":"%%"}]}`,
		`{"inputs":[{"path":"a","sha256":"` + sha("x") + `","mode":"0777"}]}`,
		`{"inputs":{}}`, `{"files":[]}`, `[]`, `{`, `{"inputs":[null]}`,
	} {
		r := w.do("POST", "/api/plan", body)
		if r.StatusCode != http.StatusBadRequest {
			t.Errorf("%.120s: status %d: %.200s", body, r.StatusCode, r.body)
		}
	}
	if len(w.reload.planned) > 0 {
		t.Errorf("planned %d times", len(w.reload.planned))
	}
	many := strings.Repeat(given("a", "x", false)+",", 21_000)
	w.do("POST", "/api/plan", inputs(strings.TrimSuffix(many, ","))).want(t, http.StatusRequestEntityTooLarge)
	// The route's own limit is above the server's, and is one all the same.
	w.do("POST", "/api/plan", inputs(given("a", strings.Repeat("x", 1<<20), true))).want(t, 200)
	w.do("POST", "/api/reload", `{"inputs":"`+strings.Repeat("x", 1<<20)+`"}`).want(t, http.StatusRequestEntityTooLarge)
	if testing.Short() {
		return
	}
	huge := w.do("POST", "/api/plan", inputs(given("a", "x", true))+strings.Repeat(" ", 129<<20))
	if huge.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("129 MiB: status %d", huge.StatusCode)
	}
}

// TestApply: with preconditions a reload is all or nothing.
func TestApply(t *testing.T) {
	w := newWorld(t)
	w.key("ops", principal.Admin)
	w.start()
	digest := sha("planned")
	w.do("POST", "/api/reload", `{"generation":3,"inputs":"`+digest+`"}`, as("ops")).want(t, 200)
	w.do("POST", "/api/reload", `{}`, as("ops")).want(t, 200)
	if diff := cmp.Diff([]reload.Expect{{Generation: 3, Inputs: digest}}, w.reload.expects); diff != "" || w.reload.by != "ops" {
		t.Errorf("expected, by %q (-want +got):\n%s", w.reload.by, diff)
	}
	for body, status := range map[string]int{
		`{"generation":-1}`: 400, `{"inputs":"abc"}`: 400, `{"generation":"3"}`: 400, `{"force":true}`: 400,
	} {
		w.do("POST", "/api/reload", body, as("ops")).want(t, status)
	}
	w.reload.err = fault.New(fault.Exists, "generation 4 is live")
	w.do("POST", "/api/reload", `{"generation":3}`, as("ops")).want(t, http.StatusConflict)
	w.reload.err = fault.New(fault.Invalid, "the files have errors")
	w.reload.outcome.Report = []reload.Diagnostic{{Severity: "error", Path: "tools.d/x.hcl", Line: 3, Summary: "Unknown toolset"}}
	r := w.do("POST", "/api/reload", `{"generation":3}`, as("ops")).want(t, 400)
	got := decode[struct {
		Error struct{ Detail api.NotLoaded }
	}](t, r).Error.Detail.Diagnostics
	if diff := cmp.Diff(w.reload.outcome.Report, got); diff != "" {
		t.Errorf("diagnostics (-want +got):\n%s", diff)
	}
}
