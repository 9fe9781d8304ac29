package config_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/runtime/check"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/late"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/secret"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// load loads files that must have no errors.
func load(t testing.TB, env string, files map[string]string) *config.Config {
	t.Helper()
	o := options(project(t, files))
	o.LookupEnv = environment(env)
	cfg, diags := config.Load(t.Context(), config.DirSource(), o)
	fatal(t, cfg, diags)
	return cfg
}

func fatal(t testing.TB, cfg *config.Config, diags hcl.Diagnostics) {
	t.Helper()
	if diags.HasErrors() {
		var b bytes.Buffer
		_ = config.Render(&b, diags, cfg, false)
		t.Fatal(b.String())
	}
}

const offline = `
provider "script" "offline" {}
model "offline" {
  provider = "script.offline"
}
`

const clock = `
tool "time_now" {
  handler "native" {
    function = "time.now"
  }
}
`

func TestDefaults(t *testing.T) {
	cfg := load(t, "", map[string]string{
		"agents/main.hcl": offline + `
agent "a" {
  model        = "offline"
  instructions = "x"
}
`,
		"tools.d/time.hcl": clock,
	})
	a := *cfg.Agents["a"]
	a.Decl, a.Digest = config.Decl{}, ""
	if diff := cmp.Diff(config.Agent{
		Pos: "agents/main.hcl:7", Name: "a", Model: "offline", Instructions: "x", ToolRefresh: "step", Parallel: 8, OnBusy: "queue",
		Budget:     config.Budget{Iterations: 90, ToolCalls: 200, Wall: 30 * time.Minute},
		Results:    config.AgentResults{PerTurnChars: 200_000},
		Compaction: config.Compaction{Threshold: 0.75, KeepFirst: 3, KeepLast: 0.2},
		Guardrails: config.Guardrails{
			SameFailure: config.Guard{Warn: 2, Block: 5}, ToolFailure: config.Guard{Warn: 3, Block: 8}, SameResult: config.Guard{Warn: 2, Block: 5},
		},
	}, a); diff != "" {
		t.Errorf("agent (-want +got):\n%s", diff)
	}
	m := cfg.Models["offline"]
	if diff := cmp.Diff(config.Timeouts{Connect: 10 * time.Second, FirstToken: time.Minute, Idle: time.Minute, Total: 15 * time.Minute}, m.Timeouts); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(config.Retry{Attempts: 3, Base: time.Second, Max: time.Minute}, m.Retry); diff != "" {
		t.Error(diff)
	}
	if m.Name != "offline" || m.ContextWindow != 128000 || m.MaxOutput != 8192 || m.Price != nil || m.Temperature != nil {
		t.Errorf("model = %+v", m)
	}
	tl := cfg.Tools["time_now"]
	if tl.Toolset != "time" || tl.Description.Static != "Tells the time." || !cmp.Equal(tl.Limits, tool.Limits{Timeout: 30 * time.Second, Concurrency: 8}) ||
		tl.Bounds != (tool.Bounds{MaxChars: 100000, Overflow: tool.Store, Preview: 1500}) || tl.Traits.Effect != tool.Read {
		t.Errorf("tool = %+v", tl)
	}
	if s := cfg.Server; s.Listen != "127.0.0.1:8420" || s.MaxBody != 10<<20 {
		t.Errorf("server = %+v", s)
	}
	if r := cfg.Runtime; !r.Watch || r.MaxRuns != 64 || r.ShutdownTimeout != 30*time.Second || r.ToolsEnv != nil {
		t.Errorf("runtime = %+v", r)
	}
}

func TestEverything(t *testing.T) {
	cfg := load(t, "OPENAI_API_KEY=sk-secret-value\nHERMES_OPS_KEY=0123456789abcdef\nWEATHER_AUTH=Bearer xyz\nHERMES_VAR_units=metric\n", map[string]string{
		"agents/main.hcl": `
variable "units" {
  type        = string
  default     = "imperial"
  description = "Units."
}
locals {
  online = env("OPENAI_API_KEY", "") != ""
}
provider "openai" "default" {
  api_key = secret_env("OPENAI_API_KEY", "")
  headers = { A = "b", C = secret_env("WEATHER_AUTH") }
}
model "main" {
  provider    = "openai.default"
  temperature = 0
  reasoning   = "low"
  extra       = { seed = 12345678901234567890, nested = { list = [1, 2.5, true, null] } }
  parallel_tool_calls = false
  price {
    input = 0.25
  }
}
agent "a" {
  model        = local.online ? "main" : "offline"
  instructions = file("prompts/a.md")
  toolsets     = ["*"]
  disabled_tools = ["get_*"]
}
server {
  listen = "0.0.0.0:1"
  key "ops" {
    secret = secret_env("HERMES_OPS_KEY")
    role   = "admin"
    rate   = "5/s"
  }
  tls {
    cert = "cert.pem"
    key  = "key.pem"
  }
  max_body = "64KiB"
}
runtime {
  drain_timeout = "5m"
  watch         = false
}
`,
		"agents/prompts/a.md":  "Be kind.",
		"tools.d/weather.wasm": "module",
		"tools.d/weather.hcl": `
tool "get_weather" {
  description  = "Weather, for ${agent.name} within ${agent.budget.wall}."
  requires_env = ["WEATHER_KEY"]
  param "city" {
    type        = string
    description = "For ${agent.name}"
    enum        = ["Oslo", "Rome"]
  }
  param "days" {
    type    = integer
    minimum = 1
    default = 1
  }
  param "where" {
    type     = object({ lat = number, tags = optional(set(string), []), pair = tuple([string, any]), more = map(bool) })
    required = false
  }
  check "http" {
    url    = "https://example.com/health"
    status = 204
  }
  limits {
    rate = "10/m"
  }
  handler "wasm" {
    module = "weather.wasm"
    grant "http" {
      hosts   = ["https://api.example.com"]
      headers = { Authorization = secret_env("WEATHER_AUTH") }
    }
    grant "files" {
      path  = "data"
      mount = "/data"
      mode  = "rw"
    }
    grant "env" {
      values = { UNITS = var.units }
    }
    limits {
      memory = "1MiB"
    }
  }
}
toolset "outdoors" {
  tools    = ["get_*"]
  includes = ["weather"]
  aliases  = ["out"]
}
`,
	})
	w := cfg.Tools["get_weather"]
	wantSchema := `{"additionalProperties":false,"properties":{"city":{"enum":["Oslo","Rome"],"type":"string"},"days":{"default":1,"minimum":1,"type":"integer"},` +
		`"where":{"additionalProperties":false,"properties":{"lat":{"type":"number"},"more":{"additionalProperties":{"type":"boolean"},"type":"object"},` +
		`"pair":{"items":false,"maxItems":2,"minItems":2,"prefixItems":[{"type":"string"},{}],"type":"array"},"tags":{"default":[],"items":{"type":"string"},"type":"array","uniqueItems":true}},` +
		`"required":["lat","pair","more"],"type":"object"}},"required":["city"],"type":"object"}`
	if diff := cmp.Diff(canonical(t, wantSchema), canonical(t, string(w.Schema.JSON()))); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}
	scope := config.AgentScope(cfg.Agents["a"])
	if got, err := w.Description.Late.Eval(scope); err != nil || got != "Weather, for a within 30m." {
		t.Errorf("description = %v, %v", got, err)
	}
	if got, err := w.ParamText["city"].Eval(scope); err != nil || got != "For a" {
		t.Errorf("param description = %v, %v", got, err)
	}
	if !w.Traits.Untrusted || w.Traits.Effect != tool.Write || w.Traits.Parallel {
		t.Errorf("traits = %+v", w.Traits)
	}
	kinds := []check.Kind{}
	for _, c := range w.Checks {
		kinds = append(kinds, c.Kind)
	}
	if diff := cmp.Diff([]check.Kind{check.HTTP, check.Env}, kinds); diff != "" {
		t.Error(diff)
	}
	if w.Checks[1].TTL == 0 || w.Checks[0].Status != 204 {
		t.Errorf("checks = %+v", w.Checks)
	}
	g := w.Wasm.Grants
	if g.HTTP[0].Headers["Authorization"].(secret.Value).Open() != "Bearer xyz" || g.Env["UNITS"] != "metric" || !g.Files[0].Write ||
		g.HTTP[0].MaxResponse != 2<<20 || !cmp.Equal(g.HTTP[0].Methods, []string{"GET"}) {
		t.Errorf("grants = %+v", g)
	}
	if in := cfg.Inputs[w.Wasm.Module]; string(in.Content) != "module" {
		t.Errorf("the module is not an input: %v", in)
	}
	if !strings.HasSuffix(g.Files[0].Path, "project/tools.d/data") || w.Wasm.Limits.Memory != 1<<20 || w.Wasm.Limits.OpenFiles != 32 {
		t.Errorf("wasm = %+v", w.Wasm)
	}
	p := cfg.Providers["openai.default"]
	if p.APIKey.Open() != "sk-secret-value" || p.BaseURL != "https://api.openai.com/v1" || p.Headers["A"] != "b" {
		t.Errorf("provider = %+v", p)
	}
	if s := fmt.Sprintf("%+v", cfg); strings.Contains(s, "sk-secret-value") || strings.Contains(fmt.Sprintf("%#v %+v", *p, g), "Bearer xyz") {
		t.Error("a secret is printed")
	}
	m := cfg.Models["main"]
	want := map[string]any{"seed": json.Number("12345678901234567890"), "nested": map[string]any{"list": []any{json.Number("1"), json.Number("2.5"), true, nil}}}
	if diff := cmp.Diff(want, m.Extra); diff != "" {
		t.Errorf("extra (-want +got):\n%s", diff)
	}
	if *m.Temperature != 0 || m.TopP != nil || *m.ParallelCalls || m.Price.Input != 0.25 {
		t.Errorf("model = %+v", m)
	}
	k := cfg.Server.Keys[0]
	if k.Role != principal.Admin || k.Rate != (tool.Rate{Calls: 5, Per: time.Second}) || k.Secret.Open() != "0123456789abcdef" {
		t.Errorf("key = %+v", k)
	}
	if !filepath.IsAbs(cfg.Server.TLSCert) || cfg.Runtime.DrainTimeout != 5*time.Minute || cfg.Runtime.Watch {
		t.Errorf("server = %+v, runtime = %+v", cfg.Server, cfg.Runtime)
	}
	if cfg.Agents["a"].Model != "main" || cfg.Agents["a"].Instructions != "Be kind." || len(cfg.Agents["a"].Depends) != 1 {
		t.Errorf("agent = %+v", cfg.Agents["a"])
	}
}

func canonical(t *testing.T, s string) any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatal(err)
	}
	sortRequired(v)
	return v
}

func sortRequired(v any) {
	if m, ok := v.(map[string]any); ok {
		for k, e := range m {
			if list, ok := e.([]any); ok && k == "required" {
				set := map[string]any{}
				for _, n := range list {
					set[n.(string)] = true
				}
				m[k] = set
				continue
			}
			sortRequired(e)
		}
	}
}

const request = `
tool "ask" {
  description = "x"
  param "city" {
    type = string
  }
  param "id" {
    type     = integer
    required = false
  }
  param "tags" {
    type     = list(string)
    required = false
  }
  param "at" {
    type     = object({ lat = number, note = optional(string) })
    required = false
  }
  handler "native" {
    function = "http.request"
    config = {
      url = "https://example.com/v1/${urlencode(args.city)}"
      headers = {
        Static = "fixed"
        Key    = local.key
        Both   = "${args.city} ${local.key}"
        Run    = call.run
      }
      body = %s
    }
  }
}
locals {
  key = secret_env("KEY")
}
`

func TestLate(t *testing.T) {
	body := `{
        fixed   = 1 + 1
        id      = args.id
        next    = args.id == null ? null : args.id + 1
        tags    = join("+", coalesce(args.tags, []))
        note    = try(args.at.note, "none")
        absent  = args.at == null
        all     = jsonencode(args.tags)
        list    = [args.city, "x"]
      }`
	cfg := load(t, "KEY=hunter2-hunter2", map[string]string{"tools.d/a.hcl": fmt.Sprintf(request, body)})
	conf := cfg.Tools["ask"].Native.Config
	url := conf["url"].(late.Expr)
	if prefix, full := url.(late.Prefixer).Prefix(); prefix != "https://example.com/v1/" || full {
		t.Errorf("prefix = %q, %v", prefix, full)
	}
	headers := conf["headers"].(map[string]any)
	if headers["Static"] != "fixed" || headers["Key"].(secret.Value).Open() != "hunter2-hunter2" {
		t.Errorf("headers = %v", headers)
	}
	tests := []struct {
		args string
		want map[string]any
	}{
		{`{"city":"Oslo"}`, map[string]any{"id": nil, "next": nil, "tags": "", "absent": true, "all": "null"}},
		{
			`{"city":"O/s o","id":9007199254740993,"tags":["a","b"],"at":{"lat":1}}`,
			map[string]any{"id": json.Number("9007199254740993"), "next": json.Number("9007199254740994"), "tags": "a+b", "note": nil, "absent": false, "all": `["a","b"]`},
		},
		{`{"city":"x","id":123456789012345678901234567890,"tags":[]}`, map[string]any{"id": json.Number("123456789012345678901234567890"), "tags": "", "all": "[]"}},
	}
	for _, tt := range tests {
		s := late.NewScope(map[string]any{"args": json.RawMessage(tt.args), "call": map[string]any{"id": "i", "agent": "a", "session": "s", "run": "r1"}})
		tree := conf["body"].(map[string]any)
		if tree["fixed"] != json.Number("2") {
			t.Errorf("fixed = %v", tree["fixed"])
		}
		for name, want := range tt.want {
			got, err := tree[name].(late.Expr).Eval(s)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%s of %s: %v (-want +got):\n%s", name, tt.args, err, diff)
			}
		}
		both, err := headers["Both"].(late.Expr).Eval(s)
		if v, ok := both.(secret.Value); err != nil || !ok || !strings.HasSuffix(v.Open(), "hunter2-hunter2") {
			t.Errorf("Both = %v, %v", both, err)
		}
		if run, err := headers["Run"].(late.Expr).Eval(s); err != nil || run != "r1" {
			t.Errorf("Run = %v, %v", run, err)
		}
	}
	s := late.NewScope(map[string]any{"args": json.RawMessage(`{"city":"O/s o"}`), "call": map[string]any{}})
	if got, err := url.Eval(s); err != nil || got != "https://example.com/v1/O%2Fs%20o" {
		t.Errorf("url = %v, %v", got, err)
	}
	if _, err := headers["Run"].(late.Expr).Eval(s); err == nil || !strings.Contains(err.Error(), "tools.d/a.hcl:") {
		t.Errorf("a missing variable: %v; want the file and line", err)
	}
}

// TestLateConvertsOnce counts conversions: all expressions of a call share one.
func TestLateConvertsOnce(t *testing.T) {
	cfg := load(t, "KEY=k", map[string]string{"tools.d/a.hcl": fmt.Sprintf(request, `{ a = args.city, b = args.city }`)})
	body := cfg.Tools["ask"].Native.Config["body"].(map[string]any)
	args := map[string]any{"city": "Oslo"}
	s := late.NewScope(map[string]any{"args": args})
	if got, err := body["a"].(late.Expr).Eval(s); err != nil || got != "Oslo" {
		t.Fatal(got, err)
	}
	args["city"] = "changed" // forbidden, and shows whether it is read again
	url := cfg.Tools["ask"].Native.Config["url"].(late.Expr)
	if got, err := url.Eval(s); err != nil || got != "https://example.com/v1/Oslo" {
		t.Errorf("url = %v, %v; the arguments were converted again", got, err)
	}
	if got, err := body["b"].(late.Expr).Eval(s); err != nil || got != "Oslo" {
		t.Errorf("b = %v, %v; the arguments were converted again", got, err)
	}
}

func TestRules(t *testing.T) {
	cfg := load(t, "", map[string]string{
		"agents/main.hcl": `
provider "script" "offline" {}
model "offline" {
  provider = "script.offline"
  delay    = "10ms"
  rule {
    match = "in (?P<city>[A-Z]\\w+)( on (?P<day>\\w+))?"
    call "time_now" {
      step = 2
      args = { last = results[0].n, all = length(results) }
    }
    call "time_now" {
      args = { city = match.city, fixed = [1, { a = true }] }
    }
    reply = "It is ${result.temperature_c} °C in ${match.city}, ${input}."
  }
  rule {
    match = "told"
    reply = offered["now"].description
  }
  rule {
    match = ".*"
    fail {
      status      = 429
      retry_after = "1s"
    }
  }
}
`,
		"tools.d/time.hcl": clock,
	})
	rules := cfg.Models["offline"].Rules
	if len(rules) != 3 || rules[0].Calls[0].Step != 1 || rules[0].Calls[1].Step != 2 || rules[2].Reply != nil || rules[2].Fail.Times != 1 || rules[2].Fail.RetryAfter != time.Second {
		t.Fatalf("rules = %+v", rules)
	}
	if rules[0].Offered || !rules[1].Offered || rules[2].Offered {
		t.Errorf("only the second rule uses offered: %+v", rules)
	}
	s := late.NewScope(map[string]any{
		"input": "weather in Oslo", "match": map[string]any{"city": "Oslo", "day": ""},
		"result": json.RawMessage(`{"temperature_c":4}`), "results": []any{json.RawMessage(`{"n":18446744073709551615}`)},
	})
	args, err := rules[0].Calls[0].Args.Eval(s)
	if diff := cmp.Diff(map[string]any{"city": "Oslo", "fixed": []any{json.Number("1"), map[string]any{"a": true}}}, args); err != nil || diff != "" {
		t.Errorf("args: %v\n%s", err, diff)
	}
	args, err = rules[0].Calls[1].Args.Eval(s)
	if diff := cmp.Diff(map[string]any{"last": json.Number("18446744073709551615"), "all": json.Number("1")}, args); err != nil || diff != "" {
		t.Errorf("args: %v\n%s", err, diff)
	}
	if reply, err := rules[0].Reply.Eval(s); err != nil || reply != "It is 4 °C in Oslo, weather in Oslo." {
		t.Errorf("reply = %v, %v", reply, err)
	}
	failed := late.NewScope(map[string]any{"input": "x", "match": map[string]any{"city": "Oslo"}, "result": map[string]any{"error": map[string]any{"kind": "timeout"}}, "results": []any{}})
	_, err = rules[0].Reply.Eval(failed)
	if err == nil || !strings.Contains(err.Error(), "agents/main.hcl:15") || !strings.Contains(err.Error(), "result.temperature_c") {
		t.Errorf("error = %v; want file, line and what was asked", err)
	}
}

func TestVariables(t *testing.T) {
	files := map[string]string{
		"agents/main.hcl": `
variable "a" {
  default = "default"
}
variable "n" {
  type    = object({ x = integer, y = optional(list(string), ["d"]) })
  default = { x = 1 }
}
variable "big" {
  type    = integer
  default = 1
}
` + offline + `
agent "a" {
  model        = "offline"
  instructions = jsonencode([var.a, var.n, var.big])
}
`,
		"first.tfvars.hcl": "a = \"file1\"\nbig = 2\n", "second.hcl": "a = \"file2\"\n",
	}
	tests := []struct {
		name  string
		vars  map[string]string
		files []string
		env   string
		want  string
	}{
		{"defaults", nil, nil, "", `["default",{"x":1,"y":["d"]},1]`},
		{"environment", nil, nil, "HERMES_VAR_a=env\nHERMES_VAR_big=9007199254740993", `["env",{"x":1,"y":["d"]},9007199254740993]`},
		{"files win over environment", nil, []string{"first.tfvars.hcl", "second.hcl"}, "HERMES_VAR_a=env", `["file2",{"x":1,"y":["d"]},2]`},
		{"var wins over all", map[string]string{"a": "var", "n": `{ x = 5, y = ["z"] }`}, []string{"first.tfvars.hcl"}, "HERMES_VAR_a=env", `["var",{"x":5,"y":["z"]},2]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := options(project(t, files))
			o.LookupEnv, o.Vars = environment(tt.env), tt.vars
			for _, f := range tt.files {
				o.VarFiles = append(o.VarFiles, filepath.Join(o.Paths.Project, f))
			}
			cfg, diags := config.Load(t.Context(), config.DirSource(), o)
			fatal(t, cfg, diags)
			if diff := cmp.Diff(tt.want, cfg.Agents["a"].Instructions); diff != "" {
				t.Error(diff)
			}
			for _, f := range o.VarFiles {
				if _, ok := cfg.Inputs[f]; !ok {
					t.Errorf("%s is not an input", f)
				}
			}
		})
	}
	o := options(project(t, files))
	o.Vars = map[string]string{"aa": "x"}
	cfg, diags := config.Load(t.Context(), config.DirSource(), o)
	if len(diags) != 1 || diags[0].Summary != `Unknown variable "aa"` {
		var b bytes.Buffer
		_ = config.Render(&b, diags, cfg, true)
		t.Errorf("an undeclared variable gives %s", b.String())
	}
}

func TestPartial(t *testing.T) {
	o := options(project(t, map[string]string{
		"agents/main.hcl": offline, "tools.d/good.hcl": clock, "tools.d/bad.hcl": `tool "x" {`,
	}))
	cfg, diags := config.Load(t.Context(), config.DirSource(), o)
	if !diags.HasErrors() || cfg.Tools["time_now"] == nil || cfg.Models["offline"] == nil {
		t.Errorf("partial configuration: %+v, %v", cfg, diags)
	}
	if in := cfg.Inputs[filepath.Join(o.Paths.Project, "tools.d/bad.hcl")]; string(in.Content) != `tool "x" {` {
		t.Error("a file with an error is an input all the same")
	}
}

func TestOverride(t *testing.T) {
	files := map[string]string{
		"tools.d/a.hcl": clock,
		"tools.d/b.hcl": strings.Replace(clock, "{", "{\n  override = true\n  emoji = \"x\"", 1),
	}
	o := options(project(t, files))
	o.Cache = config.NewCache()
	cfg, diags := config.Load(t.Context(), config.DirSource(), o)
	fatal(t, cfg, diags)
	got := cfg.Tools["time_now"]
	if got.Emoji != "x" || got.Overrides != "tools.d/a.hcl:2" {
		t.Errorf("tool = %+v", got)
	}
	o.Previous = cfg
	again, _ := config.Load(t.Context(), config.DirSource(), o)
	if again.Tools["time_now"] != got {
		t.Error("an unchanged override is another pointer")
	}
}

func TestDisabled(t *testing.T) {
	cfg := load(t, "", map[string]string{
		"agents/main.hcl": offline + "agent \"a\" {\n  model = \"offline\"\n  instructions = \"x\"\n  tools = [\"time_now\"]\n}\n",
		"tools.d/a.hcl":   strings.Replace(clock, "{", "{\n  enabled = false", 1),
	})
	if len(cfg.Tools) != 0 {
		t.Errorf("tools = %v", cfg.Tools)
	}
}

// TestSensitiveLeaves looks at what a function gets of values that are sensitive in part.
func TestSensitiveLeaves(t *testing.T) {
	body := `{
        object = local.object
        whole  = sensitive({ a = ["x", 1], b = null })
        number = length(local.key)
        choice = local.key == "x" ? "yes" : "no"
        late   = { x = "${args.city}${local.object.key}", y = args.city }
      }`
	cfg := load(t, "KEY=hunter2-hunter2", map[string]string{
		"tools.d/a.hcl": fmt.Sprintf(request, body),
		"tools.d/b.hcl": "locals {\n  object = { key = local.key, open = \"o\", list = [local.key, \"p\"] }\n}\n",
	})
	got := cfg.Tools["ask"].Native.Config["body"].(map[string]any)
	open := func(v any) string {
		s, ok := v.(secret.Value)
		if !ok {
			t.Errorf("%v (%T) is not secret", v, v)
		}
		return s.Open()
	}
	object := got["object"].(map[string]any)
	list := object["list"].([]any)
	whole := got["whole"].(map[string]any)
	values := []string{open(object["key"]), open(list[0]), open(whole["a"].([]any)[0]), open(whole["a"].([]any)[1]), open(got["number"]), open(got["choice"])}
	if diff := cmp.Diff([]string{"hunter2-hunter2", "hunter2-hunter2", "x", "1", "15", "no"}, values); diff != "" {
		t.Error(diff)
	}
	if object["open"] != "o" || list[1] != "p" || whole["b"] != nil {
		t.Errorf("what is open is %v", got)
	}
	s := late.NewScope(map[string]any{"args": json.RawMessage(`{"city":"Oslo"}`)})
	l := got["late"].(map[string]any)
	x, err := l["x"].(late.Expr).Eval(s)
	if y, yerr := l["y"].(late.Expr).Eval(s); err != nil || yerr != nil || open(x) != "Oslohunter2-hunter2" || y != "Oslo" {
		t.Errorf("late: %v, %v, %v, %v", x, err, y, yerr)
	}
	if printed := fmt.Sprintf("%v %+v %#v", got, got, got); strings.Contains(printed, "hunter2") {
		t.Errorf("printed: %s", printed)
	}
}

// TestConcurrent loads with one cache and evaluates one expression from many goroutines.
func TestConcurrent(t *testing.T) {
	body := `{ all = join(",", [for t in coalesce(args.tags, []) : upper(t)]), splat = [args.at][*].lat }`
	o := options(project(t, map[string]string{"tools.d/a.hcl": fmt.Sprintf(request, body)}))
	o.LookupEnv, o.Cache = environment("KEY=hunter2-hunter2"), config.NewCache()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			cfg, diags := config.Load(t.Context(), config.DirSource(), o)
			if diags.HasErrors() {
				t.Error(diags)
				return
			}
			body := cfg.Tools["ask"].Native.Config["body"].(map[string]any)
			for i := range 50 {
				s := late.NewScope(map[string]any{"args": json.RawMessage(fmt.Sprintf(`{"city":"x","tags":["a%d","b"],"at":{"lat":%d}}`, i, i))})
				all, err := body["all"].(late.Expr).Eval(s)
				if err != nil || all != fmt.Sprintf("A%d,B", i) {
					t.Errorf("all = %v, %v", all, err)
				}
				splat, err := body["splat"].(late.Expr).Eval(s)
				if diff := cmp.Diff([]any{json.Number(fmt.Sprint(i))}, splat); err != nil || diff != "" {
					t.Errorf("splat: %v\n%s", err, diff)
				}
			}
		})
	}
	wg.Wait()
}

// TestLargeFiles bounds what a load reads into its language.
func TestLargeFiles(t *testing.T) {
	big := "# " + strings.Repeat("x", 5<<20) + "\n"
	o := options(project(t, map[string]string{"agents/big.hcl": big, "agents/a.hcl": "locals {\n  a = file(\"big.hcl\")\n}\n"}))
	_, diags := config.Load(t.Context(), config.DirSource(), o)
	if len(diags) != 2 || diags[0].Summary != "Invalid file" || diags[1].Summary != "Invalid file" {
		t.Errorf("diagnostics: %v", diags)
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cfg, diags := config.Load(ctx, config.DirSource(), options(project(t, map[string]string{"agents/a.hcl": offline})))
	if cfg == nil || !diags.HasErrors() {
		t.Errorf("a cancelled load: %v, %v", cfg, diags)
	}
}
