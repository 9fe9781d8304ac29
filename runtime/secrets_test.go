package runtime

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/agent"
	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/run"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// What must not be found anywhere: a value that a tool is given, one that only a variable
// has, and one that a model writes into a sensitive parameter.
const (
	envSecret   = "hunter2-of-the-tool"
	varSecret   = "variable-s3cret-value"
	paramSecret = "pass-word-of-the-user"
)

const secretsProject = `
variable "spare" {
  type      = string
  sensitive = true
}
provider "script" "offline" {}
model "m" {
  provider = "script.offline"
  rule {
    match = "leak (?P<how>\\w+)"
    call "leak" {
      args = { how = match.how, password = strrev("resu-eht-fo-drow-ssap"), note = "write ${strrev("loot-eht-fo-2retnuh")} down" }
    }
    reply = jsonencode(result)
  }
}
agent "a" {
  model        = "m"
  instructions = "x"
  toolsets     = ["*"]
}
`

const secretsTools = `
tool "leak" {
  description = "x"
  param "how" {
    type = string
  }
  param "password" {
    type      = string
    sensitive = true
  }
  param "note" {
    type = string
  }
  handler "native" {
    function = "test.leak"
    config = {
      key = secret_env("HERMES_TEST_TOOL_KEY")
    }
  }
}
`

// TestSecretsAreNowhere lets a tool give away what it knows in every way, and looks for it
// in everything that is left: messages, events, the database's files, stored results, logs.
func TestSecretsAreNowhere(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"agents/main.hcl": secretsProject, "tools.d/leak.hcl": secretsTools} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HERMES_TEST_TOOL_KEY", envSecret)
	var log bytes.Buffer
	got := map[string]string{}
	leak := hostfuncs.Func{
		Name: "test.leak", Open: true, Config: []hostfuncs.Attr{{Name: "key", Type: hostfuncs.Any, Doc: "A key."}},
		New: func(hostfuncs.Binding) (tool.Handler, error) {
			return tool.HandlerFunc(func(_ context.Context, c *tool.Call) (tool.Result, error) {
				var args struct{ How, Password, Note string }
				if err := json.Unmarshal(c.Arguments, &args); err != nil {
					return tool.Result{}, err
				}
				got["password"], got["note"] = args.Password, args.Note
				return leaks(args.How)
			}), nil
		},
	}
	sys, err := New(Options{
		ConfigDir: dir, HostFuncs: []hostfuncs.Func{leak}, NoWatch: true, Vars: map[string]string{"spare": varSecret},
		Log: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer sys.Close()
	if diags, err := sys.Load(t.Context()); err != nil {
		t.Fatal(err, diags)
	}
	for _, how := range []string{"plainly", "encoded", "error", "panic", "large", "number"} {
		r, err := sys.Loop().Start(t.Context(), agent.Turn{Agent: "a", Principal: principal.Local(), Input: []chat.Message{{Role: chat.User, Content: "leak " + how}}})
		if err != nil {
			t.Fatal(err)
		}
		o, err := r.Wait(t.Context())
		if err != nil || o.Status != run.Completed {
			t.Fatalf("%s: %s %v %v", how, o.Status, o.Err, err)
		}
		if got["password"] != paramSecret || got["note"] != "write "+envSecret+" down" {
			t.Errorf("the handler got %v", got)
		}
		messages, err := sys.Store().Messages(t.Context(), session.Scope{All: true}, r.Session, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		noSecret(t, how+": messages", mustJSON(t, messages))
		if text := mustJSON(t, messages); !bytes.Contains(text, []byte("(sensitive)")) || !bytes.Contains(text, []byte("[redacted]")) {
			t.Errorf("%s: nothing was masked: %s", how, text)
		}
		stored, err := sys.Hub().Stored(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		noSecret(t, how+": events", mustJSON(t, stored))
	}
	sys.Close()
	noSecret(t, "log", log.Bytes())
	err = filepath.WalkDir(filepath.Join(dir, "state"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		noSecret(t, path, content)
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// leaks gives the secret away.
func leaks(how string) (tool.Result, error) {
	switch how {
	case "encoded":
		return tool.JSON(map[string]string{"base64": base64.StdEncoding.EncodeToString([]byte("user:" + envSecret + ":x")), "url": "https://x/?k=" + envSecret})
	case "error":
		return tool.Result{}, fault.New(fault.Unavailable, "calling https://x/?k=%s: refused", envSecret)
	case "panic":
		panic("with " + varSecret)
	case "large":
		return tool.Text(strings.Repeat("x", 99_995) + envSecret + strings.Repeat("y", 99_995)), nil
	}
	return tool.JSON(map[string]string{"key": envSecret, "spare": varSecret, "quoted": `"` + envSecret + `"`})
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func noSecret(t *testing.T, where string, text []byte) {
	t.Helper()
	for _, s := range []string{envSecret, varSecret, paramSecret, base64.RawStdEncoding.EncodeToString([]byte(envSecret))} {
		if at := bytes.Index(text, []byte(s)); at >= 0 {
			t.Errorf("%s: %q is in it: …%q…", where, s, text[max(0, at-60):min(len(text), at+60)])
		}
	}
}
