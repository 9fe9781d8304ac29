package std_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/hermes-runtime/hermes/agents"
	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/hostfuncs/std"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/model/script"
	"github.com/hermes-runtime/hermes/runtime/tool"
	toolsd "github.com/hermes-runtime/hermes/tools.d"
)

// shipped is what hermes init writes. Modules that were not built are stood in for by
// empty ones, since a load does not look inside.
func shipped(t *testing.T) (project string) {
	t.Helper()
	project = t.TempDir()
	for name, files := range map[string]fs.FS{"agents": agents.Files(), "tools.d": toolsd.Files()} {
		if err := os.CopyFS(filepath.Join(project, name), files); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"text_stats", "json_query", "csv_query", "diff", "run_javascript"} {
		path := filepath.Join(project, "tools.d", name+".wasm")
		if _, err := os.Stat(path); err == nil {
			continue
		}
		if err := os.WriteFile(path, []byte("\x00asm\x01\x00\x00\x00"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return project
}

// load loads the shipped project in an environment.
func load(t *testing.T, env map[string]string) *config.Config {
	t.Helper()
	paths, err := config.Find(filepath.Join(shipped(t), "agents"))
	if err != nil {
		t.Fatal(err)
	}
	cfg, diags := config.Load(t.Context(), config.DirSource(), config.Options{
		Paths: paths, Funcs: std.Funcs(std.Deps{}), Generation: 1,
		LookupEnv: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
	})
	if len(diags) > 0 {
		var out strings.Builder
		if err := config.Render(&out, diags, cfg, false); err != nil {
			t.Fatal(err)
		}
		t.Fatalf("the shipped files have diagnostics:\n%s", out.String())
	}
	return cfg
}

func TestShippedFilesAreValid(t *testing.T) {
	for name, c := range map[string]struct {
		env        map[string]string
		model      string
		base, wire string
	}{
		"nothing set":    {nil, "offline", "https://api.openai.com/v1", "gpt-5-mini"},
		"set but empty":  {map[string]string{"OPENAI_API_KEY": "", "OPENAI_BASE_URL": "", "OPENAI_MODEL": ""}, "offline", "https://api.openai.com/v1", "gpt-5-mini"},
		"a key":          {map[string]string{"OPENAI_API_KEY": "k"}, "main", "https://api.openai.com/v1", "gpt-5-mini"},
		"a local server": {map[string]string{"OPENAI_BASE_URL": "http://127.0.0.1:11434/v1", "OPENAI_MODEL": "llama"}, "main", "http://127.0.0.1:11434/v1", "llama"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := load(t, c.env)
			got := []string{cfg.Agents["assistant"].Model, cfg.Providers["openai.default"].BaseURL, cfg.Models["main"].Name}
			if diff := cmp.Diff([]string{c.model, c.base, c.wire}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestShippedTools(t *testing.T) {
	cfg := load(t, nil)
	var got []string
	for _, tl := range cfg.Tools {
		got = append(got, fmt.Sprintf("%s/%s %s untrusted=%v parallel=%v", tl.Toolset, tl.Name, tl.Traits.Effect, tl.Traits.Untrusted, tl.Traits.Parallel))
	}
	slices.Sort(got)
	want := []string{
		"agents/delegate write untrusted=false parallel=true",
		"code/run_javascript read untrusted=false parallel=true",
		"data/csv_query read untrusted=false parallel=true",
		"data/json_query read untrusted=false parallel=true",
		"files/file_list read untrusted=false parallel=true",
		"files/file_read read untrusted=false parallel=true",
		"files/file_search read untrusted=false parallel=true",
		"files/file_write write untrusted=false parallel=false",
		"results/result_read read untrusted=false parallel=true",
		"sessions/session_search read untrusted=true parallel=true",
		"text/diff read untrusted=false parallel=true",
		"text/text_stats read untrusted=false parallel=true",
		"time/time_now read untrusted=false parallel=true",
		"web/http_get read untrusted=true parallel=true",
		"web/http_head read untrusted=true parallel=true",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, set := range cfg.Toolsets {
		if set.Description == "" {
			t.Errorf("toolset %s has no description", name)
		}
	}
	if root, want := cfg.Tools["file_read"].Native.Config["root"], filepath.Join(cfg.Paths.Project, "workspace"); root != want {
		t.Errorf("file_read works in %v, want %s", root, want)
	}
}

func TestShippedFilesAreFormatted(t *testing.T) {
	for name, files := range map[string]fs.FS{"agents": agents.Files(), "tools.d": toolsd.Files()} {
		paths, err := fs.Glob(files, "*.hcl")
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v, %v", name, paths, err)
		}
		for _, p := range paths {
			content, err := fs.ReadFile(files, p)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(content), string(hclwrite.Format(content))); diff != "" {
				t.Errorf("%s/%s (-is +formatted):\n%s", name, p, diff)
			}
		}
	}
}

// TestShippedNativeToolsBind makes every native handler as provisioning does.
func TestShippedNativeToolsBind(t *testing.T) {
	cfg := load(t, nil)
	for name := range cfg.Tools {
		if cfg.Tools[name].Native != nil {
			native(t, cfg, name)
		}
	}
}

// TestSizesCanBeReached: a size that a tool allows is not refused on the way to it.
func TestSizesCanBeReached(t *testing.T) {
	cfg := load(t, nil)
	for name, part := range map[tool.Name]struct{ property, rest string }{
		"json_query":     {"text", `"query":"$"`},
		"csv_query":      {"csv", `"limit":1`},
		"diff":           {"old", `"new":""`},
		"run_javascript": {"input", `"code":"1"`},
		"file_write":     {"content", `"path":"f"`},
	} {
		size := 4 << 20
		if wasm := cfg.Tools[name].Wasm; wasm != nil {
			size = int(wasm.Limits.Input)
		}
		args := fmt.Sprintf(`{%q:%q,%s}`, part.property, strings.Repeat("x", size-200), part.rest)
		if _, err := cfg.Tools[name].Schema.Parse(args); err != nil {
			t.Errorf("%s with %d bytes: %v", name, len(args), err)
		}
	}
}

func native(t *testing.T, cfg *config.Config, name tool.Name) tool.Handler {
	t.Helper()
	tl := cfg.Tools[name]
	for _, f := range std.Funcs(std.Deps{}) {
		if f.Name != tl.Native.Function {
			continue
		}
		h, err := f.New(hostfuncs.Binding{Tool: name, Params: tl.Schema.JSON(), Config: tl.Native.Config, Project: cfg.Paths.Project})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return h
	}
	t.Fatalf("%s: no function %q", name, tl.Native.Function)
	return nil
}

// TestOfflineDemo plays each example that the offline model offers, with the native
// tools for real and a stand-in for the module.
func TestOfflineDemo(t *testing.T) {
	cfg := load(t, nil)
	m := offline(cfg)
	for _, c := range []struct {
		say   string
		calls []string
		reply []string // parts
	}{
		{"List the files", []string{"file_list"}, []string{"The workspace is empty"}},
		{"Count the words in: to be or not to be", []string{"text_stats", "time_now"}, []string{"6 words, 18 characters", "time_now says it is"}},
		{`How many words are in "to be or not to be"`, []string{"text_stats", "time_now"}, []string{"6 words"}},
		{`Count the words in "to be or not to be" and tell me the time`, []string{"text_stats", "time_now"}, []string{"6 words, 18 characters"}},
		{"Compute [1, 2].map(n => n ** 2)", []string{"run_javascript"}, []string{`The value of the script is [1,4].`}},
		{"What time is it in Europe/Oslo?", []string{"time_now"}, []string{"(Europe/Oslo)"}},
		{"what's the date", []string{"time_now"}, []string{"(UTC)"}},
		{"What time is it in Europe/Nowhere?", []string{"time_now"}, []string{"The tool failed: timezone"}},
		{`Write "buy milk" to notes/todo.md`, []string{"file_write", "file_read"}, []string{"notes/todo.md", "1|buy milk"}},
		{"Search the files for milk", []string{"file_search"}, []string{"1 matches in 1 files", "notes/todo.md"}},
		{"list all files", []string{"file_list"}, []string{"2 entries", "notes/todo.md"}},
		{`Write "x" to ../outside`, []string{"file_write", "file_read"}, []string{"A tool failed"}},
		{"Hello", nil, []string{"offline model", "Count the words in: to be", "OPENAI_API_KEY"}},
		{"", nil, []string{"offline model"}},
	} {
		calls, reply := play(t, cfg, m, c.say)
		if diff := cmp.Diff(c.calls, calls); diff != "" {
			t.Errorf("%q: calls (-want +got):\n%s", c.say, diff)
		}
		for _, part := range c.reply {
			if !strings.Contains(reply, part) {
				t.Errorf("%q: the reply %q has no %q", c.say, reply, part)
			}
		}
	}
}

// offline builds the script model of a configuration.
func offline(cfg *config.Config) model.Provider {
	o := script.Options{Label: "offline"}
	for _, r := range cfg.Models["offline"].Rules {
		rule := script.Rule{Pos: string(r.Pos), Match: r.Match, Reply: r.Reply}
		for _, c := range r.Calls {
			rule.Calls = append(rule.Calls, script.Call{Tool: c.Tool, Step: c.Step, Args: c.Args})
		}
		o.Rules = append(o.Rules, rule)
	}
	return script.New(o)
}

// play runs one turn the way the loop does: answer, run the calls, ask again.
func play(t *testing.T, cfg *config.Config, m model.Provider, say string) (calls []string, reply string) {
	t.Helper()
	req := &model.Request{Messages: []chat.Message{{Role: chat.User, Content: say}}, Tools: []chat.Definition{{Name: "x"}}}
	for range 5 {
		res, err := m.Stream(t.Context(), req, func(model.Delta) error { return nil })
		if err != nil {
			t.Fatalf("%q: %v", say, err)
		}
		req.Messages = append(req.Messages, res.Message)
		if len(res.Message.Calls) == 0 {
			return calls, res.Message.Content
		}
		for i, c := range res.Message.Calls {
			calls = append(calls, c.Name)
			req.Messages[len(req.Messages)-1-i].Calls[i].ID = fmt.Sprint(len(calls))
			req.Messages = append(req.Messages, chat.Message{Role: chat.Tool, CallID: fmt.Sprint(len(calls)), Content: run(t, cfg, c)})
		}
	}
	t.Fatalf("%q: no end", say)
	return nil, ""
}

// run validates a call and runs it.
func run(t *testing.T, cfg *config.Config, c chat.Call) string {
	t.Helper()
	tl := cfg.Tools[tool.Name(c.Name)]
	if tl == nil {
		t.Fatalf("no tool %q", c.Name)
	}
	args, err := tl.Schema.Parse(c.Arguments)
	if err != nil {
		t.Fatalf("%s %s: %v", c.Name, c.Arguments, err)
	}
	if tl.Wasm != nil {
		return standIn(tl.Name, args)
	}
	res, err := native(t, cfg, tl.Name).Call(context.WithoutCancel(t.Context()), &tool.Call{Tool: tl.Name, Arguments: args})
	if err != nil {
		return string(fault.ToolJSON(err))
	}
	return string(bytes.TrimSpace(res.JSON))
}

// standIn answers for a module.
func standIn(name tool.Name, args json.RawMessage) string {
	if name == "run_javascript" {
		return `{"result":[1,4]}`
	}
	var a struct{ Text string }
	if err := json.Unmarshal(args, &a); err != nil {
		return string(fault.ToolJSON(err))
	}
	return fmt.Sprintf(`{"words":%d,"characters":%d}`, len(strings.Fields(a.Text)), len(a.Text))
}
