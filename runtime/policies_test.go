package runtime

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPoliciesPage loads the declarations that the page about policies shows.
func TestPoliciesPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "policies.md"))
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, m := range regexp.MustCompile("(?s)```hcl\n(.*?)```").FindAllSubmatch(page, -1) {
		shown = append(shown, string(m[1]))
	}
	if len(shown) == 0 {
		t.Fatal("the page shows no declarations")
	}
	q := newQuestions(t, "")
	q.write("agents/main.hcl", strings.NewReplacer(`agent "a"`, `agent "assistant"`, `call "outer"`, `call "http_post"`).Replace(askedProject))
	q.write("agents/policy.hcl", strings.Join(shown, "\n"))
	q.write("tools.d/tools.hcl", strings.Replace(askedTools, `tool "outer" {`, "tool \"http_post\" {\n  toolset = \"file\"", 1))
	q.reload()
	cfg := q.sys.Config()
	if len(cfg.Policies) != 2 || len(cfg.Rules["http_post"]) != 2 || len(cfg.Rules["act"]) != 1 {
		t.Errorf("%d policies; rules %v", len(cfg.Policies), cfg.Rules)
	}
}

// TestADenialAndItsToolTogether: a policy with a syntax error and the tool that it was to
// guard are written at once: neither is live.
func TestADenialAndItsToolTogether(t *testing.T) {
	q := newQuestions(t, "")
	q.write("agents/policy.hcl", "policy \"guard\" {\n  tools = [\"danger\"]\n  action = \"deny\"\n")
	q.write("tools.d/danger.hcl", strings.NewReplacer(`tool "act"`, `tool "danger"`, `tool "outer"`, `tool "danger_too"`).Replace(askedTools))
	o, err := q.sys.Reloader().Reload(t.Context(), "api")
	if err != nil || len(o.Stale) == 0 {
		t.Fatalf("%v, %+v", err, o)
	}
	if cfg := q.sys.Config(); cfg.Tools["danger"] != nil || len(cfg.Policies) != 0 {
		t.Errorf("live: the tool %v, policies %v", cfg.Tools["danger"] != nil, cfg.Policies)
	}
	q.write("agents/policy.hcl", "policy \"guard\" {\n  tools = [\"danger\"]\n  action = \"deny\"\n}\n")
	q.reload()
	if cfg := q.sys.Config(); cfg.Tools["danger"] == nil || len(cfg.Rules["danger"]) != 1 {
		t.Error("mended, and not live")
	}
}
