package config_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/late"
	"github.com/hermes-runtime/hermes/runtime/policy"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

const policed = `
toolset "both" {
  tools   = ["read", "write"]
  aliases = ["pair"]
}
tool "read" {
  description = "x"
  toolset     = "file"
  effect      = "read"
  param "path" { type = string }
  handler "native" {
    function = "http.request"
    config   = { url = "http://127.0.0.1:1/" }
  }
}
tool "write" {
  description = "x"
  toolset     = "file"
  param "path" { type = string }
  param "n" {
    type    = integer
    default = 1
  }
  handler "native" {
    function = "http.request"
    config   = { url = "http://127.0.0.1:1/" }
  }
}
tool "other" {
  description = "x"
  toolset     = "misc"
  param "q" {
    type     = string
    required = false
  }
  handler "native" {
    function = "http.request"
    config   = { url = "http://127.0.0.1:1/" }
  }
}
`

// policies is a project with these policies.
func policies(t testing.TB, text string) *config.Config {
	t.Helper()
	tools := strings.ReplaceAll(policed, `{ type = string }`, "{\n    type = string\n  }")
	return load(t, "", map[string]string{
		"agents/main.hcl": offline + "agent \"a\" {\n  model = \"offline\"\n  instructions = \"x\"\n}\n" + text, "tools.d/tools.hcl": tools,
	})
}

func TestToolsThatPoliciesConcern(t *testing.T) {
	for _, c := range []struct {
		tools string
		want  []tool.Name
	}{
		{`"*"`, []tool.Name{"other", "read", "write"}},
		{`"read"`, []tool.Name{"read"}},
		{`"r*", "write"`, []tool.Name{"read", "write"}},
		{`"file/*"`, []tool.Name{"read", "write"}},
		{`"file/w*"`, []tool.Name{"write"}},
		{`"both/read"`, []tool.Name{"read"}},
		{`"pair/*"`, []tool.Name{"read", "write"}},
		{`"*/other"`, []tool.Name{"other"}},
		{`"all/*"`, []tool.Name{"other", "read", "write"}},
		{`"m*/*"`, []tool.Name{"other"}},
	} {
		cfg := policies(t, fmt.Sprintf("policy \"p\" {\n  tools = [%s]\n  action = \"deny\"\n}\n", c.tools))
		var got []tool.Name
		for name, rules := range cfg.Rules {
			if len(rules) > 0 {
				got = append(got, name)
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("tools = [%s] (-want +got):\n%s", c.tools, diff)
		}
	}
}

// scope is what a call of a tool gives to conditions.
func scope(arguments string) *late.Scope {
	return late.NewScope(map[string]any{
		"args": json.RawMessage(arguments), "tool": map[string]any{"name": "write", "toolset": "file", "effect": "write"},
		"agent": map[string]any{"name": "a"}, "session": map[string]any{"id": "ses_1"}, "principal": map[string]any{"name": "local", "role": "admin"},
		"turn": map[string]any{"tool_calls": 3, "iteration": 2},
	})
}

func TestConditions(t *testing.T) {
	for _, c := range []struct {
		when, arguments string
		want            policy.Action
	}{
		{`args.path == "/etc/passwd"`, `{"n":1,"path":"/etc/passwd"}`, policy.Deny},
		{`args.path == "/etc/passwd"`, `{"n":1,"path":"/tmp/x"}`, policy.Allow},
		{`matches("id_rsa|\\.env", jsonencode(args))`, `{"n":1,"path":"~/.ssh/id_rsa"}`, policy.Deny},
		{`args.n > 9007199254740992`, `{"n":9007199254740993,"path":"x"}`, policy.Deny},
		{`args.n > 9007199254740993`, `{"n":9007199254740993,"path":"x"}`, policy.Allow},
		{`tool.name == "write" && tool.toolset == "file" && tool.effect == "write"`, `{"n":1,"path":"x"}`, policy.Deny},
		{`agent.name == "a" && session.id == "ses_1" && principal.name == "local" && principal.role == "admin"`, `{"n":1,"path":"x"}`, policy.Deny},
		{`turn.tool_calls >= 3 && turn.iteration < 3`, `{"n":1,"path":"x"}`, policy.Deny},
		{`tonumber(args.path) > 3`, `{"n":1,"path":"x"}`, policy.Deny}, // fails
		{`1 == 1`, `{}`, policy.Deny},
		{`1 == 2`, `{}`, policy.Allow},
	} {
		cfg := policies(t, fmt.Sprintf("policy \"p\" {\n  tools = [\"write\"]\n  when = %s\n  action = \"deny\"\n}\n", c.when))
		table := policy.Seal(map[tool.Name][]*policy.Rule{"write": cfg.Rules["write"]})
		v := policy.Decide(table.For([]string{"a"}, "write"), scope(c.arguments))
		if v.Action != c.want {
			t.Errorf("when = %s with %s: %s, want %s (%v)", c.when, c.arguments, v.Action, c.want, v.Err)
		}
		if v.Err != nil && strings.Contains(v.Err.Error(), "passwd") {
			t.Errorf("the error shows values: %v", v.Err)
		}
	}
	// An argument that was left out is null.
	cfg := policies(t, "policy \"p\" {\n  tools = [\"other\"]\n  when = args.q == null\n  action = \"deny\"\n}\n")
	for arguments, want := range map[string]policy.Action{`{}`: policy.Deny, `{"q":"x"}`: policy.Allow} {
		if v := policy.Decide(cfg.Rules["other"], scope(arguments)); v.Action != want {
			t.Errorf("q == null with %s: %s, want %s", arguments, v.Action, want)
		}
	}
}

// TestRulesAreShared: what did not change is the same object in the next load.
func TestRulesAreShared(t *testing.T) {
	files := map[string]string{
		"agents/main.hcl": offline + "policy \"p\" {\n  tools = [\"*\"]\n  when = agent.name == \"a\"\n  action = \"deny\"\n}\n",
		"tools.d/a.hcl":   clock,
	}
	paths := project(t, files)
	o := options(paths)
	o.Cache = config.NewCache()
	first, diags := config.Load(t.Context(), config.DirSource(), o)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	write(t, filepath.Join(paths.Project, "tools.d", "b.hcl"), strings.Replace(clock, "time_now", "other", 1))
	second, diags := config.Load(t.Context(), config.DirSource(), o)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	if first.Rules["time_now"][0] != second.Rules["time_now"][0] || first.Policies["p"] != second.Policies["p"] || len(second.Rules["other"]) != 1 {
		t.Error("an unchanged policy was made again")
	}
}

// BenchmarkPolicies decides calls: under many policies of which few concern the tool, and
// under many that all do.
func BenchmarkPolicies(b *testing.B) {
	const plain = `args.n > %d && args.path != "/x/%d" && agent.name != "nobody"`
	for _, c := range []struct {
		name    string
		matches int
		when    string
	}{
		{"declared=100,matching=3", 3, plain},
		{"declared=100,matching=100", 100, plain},
		{"declared=100,matching=100,patterns", 100, `args.n > %d || matches("^/etc/%d", args.path)`},
	} {
		b.Run(c.name, func(b *testing.B) {
			var text strings.Builder
			for i := range 100 {
				to, when := "write", fmt.Sprintf(c.when, 1000+i, i)
				if i >= c.matches {
					to, when = "other", `args.q == "x"`
				}
				fmt.Fprintf(&text, "policy \"p%d\" {\n  tools = [%q]\n  when = %s\n  action = \"deny\"\n}\n", i, to, when)
			}
			table := policy.Seal(policies(b, text.String()).Rules)
			agents := []string{"a"}
			b.ReportAllocs()
			for b.Loop() {
				if v := policy.Decide(table.For(agents, "write"), scope(`{"n":7,"path":"/home/x"}`)); v.Action != policy.Allow {
					b.Fatal(v)
				}
			}
		})
	}
}

// TestSecretsOfALoad: every sensitive value that came up, also of blocks that the next load
// takes from the cache.
func TestSecretsOfALoad(t *testing.T) {
	paths := project(t, map[string]string{
		"agents/main.hcl": offline + `
variable "spare" {
  type      = string
  default   = "of-a-variable"
  sensitive = true
}
locals {
  inner = "x ${secret_env("INNER")}"
}
server {
  key "ops" {
    secret = sensitive("of-a-server-key-0123456789")
    role   = "admin"
  }
}
`,
		"tools.d/t.hcl": `
tool "t" {
  description = "x"
  handler "native" {
    function = "http.request"
    config = {
      url     = "http://127.0.0.1:1/"
      headers = { Authorization = "Bearer ${secret_env("TOOL")}", Key = secret_file("key.txt") }
    }
  }
}
`,
		"tools.d/key.txt": "of-a-file\n",
	})
	o := options(paths)
	o.Cache, o.LookupEnv = config.NewCache(), environment("INNER=of-a-local\nTOOL=of-a-tool\n")
	for range 3 {
		cfg, diags := config.Load(t.Context(), config.DirSource(), o)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		var got []string
		for _, s := range cfg.Secrets {
			got = append(got, s.Open())
		}
		want := []string{"Bearer of-a-tool", "of-a-file", "of-a-local", "of-a-server-key-0123456789", "of-a-tool", "of-a-variable", "x of-a-local"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("secrets (-want +got):\n%s", diff)
		}
	}
}

// TestQuickConditions holds what is evaluated without the language against the language,
// for every operator and pair of values: the same, or left to the language.
func TestQuickConditions(t *testing.T) {
	values := []string{`1`, `0`, `-7`, `9007199254740993`, `9223372036854775808`, `1.5`, `1.0`, `"1"`, `"a"`, `"é"`, `"e\u0301"`, `""`, `true`, `false`, `"true"`, `null`, `[]`, `{}`}
	literals := []string{`1`, `0`, `-7`, `9007199254740993`, `1.5`, `"1"`, `"a"`, `"é"`, `""`, `true`, `false`, `null`}
	quickly := 0
	for _, op := range []string{"==", "!=", "<", "<=", ">", ">=", "&&", "||"} {
		for _, literal := range literals {
			a, okA := conditionOf(t, "args.q "+op+" "+literal)
			b, okB := conditionOf(t, "[for x in [args.q] : x "+op+" "+literal+"][0]")
			if !okA || !okB {
				continue // no condition: an error at load
			}
			for _, v := range values {
				arguments := `{"q":` + v + `}`
				got, gotErr := a.Eval(scope(arguments))
				want, wantErr := b.Eval(scope(arguments))
				if (gotErr == nil) != (wantErr == nil) || got != want {
					t.Errorf("%s %s %s: %v, %v; the language says %v, %v", v, op, literal, got, gotErr, want, wantErr)
				}
				quickly++
			}
		}
	}
	if quickly < 500 {
		t.Errorf("%d comparisons: too little was tried", quickly)
	}
}

// conditionOf loads a condition over an argument of any type.
func conditionOf(t *testing.T, when string) (late.Expr, bool) {
	t.Helper()
	paths := project(t, map[string]string{
		"agents/main.hcl": fmt.Sprintf("policy \"p\" {\n  tools = [\"t\"]\n  when = %s\n  action = \"deny\"\n}\n", when),
		"tools.d/t.hcl":   "tool \"t\" {\n  description = \"x\"\n  param \"q\" {\n    type = any\n  }\n  handler \"native\" {\n    function = \"http.request\"\n    config = {\n      url = \"http://127.0.0.1:1/\"\n    }\n  }\n}\n",
	})
	cfg, diags := config.Load(t.Context(), config.DirSource(), options(paths))
	if diags.HasErrors() || len(cfg.Rules["t"]) == 0 {
		return nil, false
	}
	return cfg.Rules["t"][0].When, true
}
