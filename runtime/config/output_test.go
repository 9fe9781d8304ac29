package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
)

func TestRenderMany(t *testing.T) {
	var text strings.Builder
	for i := range 150 {
		fmt.Fprintf(&text, "banana \"b%d\" {}\n", i)
	}
	paths := project(t, map[string]string{"agents/main.hcl": text.String()})
	cfg, diags := config.Load(t.Context(), config.DirSource(), options(paths))
	var b bytes.Buffer
	if err := config.Render(&b, diags, cfg, true); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "Unknown block"); n != 100 || !strings.HasSuffix(b.String(), "… and 50 more.\n") || !strings.Contains(b.String(), "\x1b[") {
		t.Errorf("%d printed, the end is %q", n, b.String()[len(b.String())-40:])
	}
	if got := config.JSON(diags, cfg); len(got) != 150 {
		t.Errorf("JSON has %d", len(got))
	}
}

// TestRenderHostile prints a file that would steer a terminal, and one that has one line.
func TestRenderHostile(t *testing.T) {
	paths := project(t, map[string]string{
		"agents/a.hcl": "banana \"\x1b]0;owned\x07\" {}\n",
		"agents/b.hcl": "locals {\n  x = [" + strings.Repeat("\"ä\", ", 2000) + "nope]\n}\n",
	})
	cfg, diags := config.Load(t.Context(), config.DirSource(), options(paths))
	var b bytes.Buffer
	if err := config.Render(&b, diags, cfg, false); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(b.String(), "\x1b\x07") {
		t.Errorf("control characters: %q", b.String())
	}
	for line := range strings.Lines(b.String()) {
		if len([]rune(line)) > 180 {
			t.Errorf("a line of %d characters", len([]rune(line)))
		}
	}
	if !strings.Contains(b.String(), "nope") {
		t.Errorf("the place is not shown:\n%s", b.String())
	}
}

func TestJSON(t *testing.T) {
	paths := project(t, map[string]string{"agents/main.hcl": "agent \"a\" {\n  mdoel = \"x\"\n}\n"})
	cfg, diags := config.Load(t.Context(), config.DirSource(), options(paths))
	got, err := json.Marshal(config.JSON(diags, cfg)[2])
	if err != nil {
		t.Fatal(err)
	}
	want := `{"severity":"error","summary":"Unknown attribute \"mdoel\"","detail":"A block agent \"NAME\" has no attribute \"mdoel\". Did you mean \"model\"?",` +
		`"file":"agents/main.hcl","range":{"start":{"line":2,"column":3,"byte":14},"end":{"line":2,"column":8,"byte":19}},"snippet":"  mdoel = \"x\""}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	if got, err := json.Marshal(config.JSON(nil, nil)); err != nil || string(got) != "[]" {
		t.Errorf("none: %s, %v", got, err)
	}
}

func TestFormat(t *testing.T) {
	got, err := config.Format([]byte("tool \"a\" {\n description=\"x\"\n    emoji = \"y\"\n}\n"))
	if want := "tool \"a\" {\n  description = \"x\"\n  emoji       = \"y\"\n}\n"; err != nil || string(got) != want {
		t.Errorf("got %q, %v", got, err)
	}
	_, err = config.Format([]byte("tool \"a\" {\n  description: \"x\"\n}\n"))
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "line 2") || !strings.Contains(err.Error(), "equals sign") {
		t.Errorf("error = %v", err)
	}
	if _, err := config.Format([]byte("x = " + strings.Repeat("[", 100000))); err == nil {
		t.Error("deep nesting is formatted")
	}
}

// TestReference holds the reference to the blocks there are.
func TestReference(t *testing.T) {
	var b bytes.Buffer
	if err := config.WriteReference(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"### `tool \"NAME\"`", "#### `param \"NAME\"`", "##### `grant \"http\"`", "### `server`", "### `locals`",
		"| `timeout` | duration | `\"30s\"` |", "| `model` | string | required |", "| `max_body` | size | `\"10MiB\"` |", "Late: may use `agent`.", "`secret_env`",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the reference lacks %s", want)
		}
	}
	var again bytes.Buffer
	if err := config.WriteReference(&again); err != nil || again.String() != b.String() {
		t.Error("the reference is not stable")
	}
	if strings.Contains(b.String(), "|  |\n") {
		t.Error("an attribute has no description")
	}
}
