package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// hermes runs the command line in this process.
func hermes(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}
	code = a.run(args)
	return code, out.String(), errs.String()
}

// TestLanguageExamples loads every example of the language page that is marked as
// complete, as the only file of a project.
func TestLanguageExamples(t *testing.T) {
	examples := 0
	for _, b := range fences(readPage(t, "../../docs/language.md")) {
		switch b.info {
		case "hcl complete":
		case "text", "json":
			continue
		default:
			t.Errorf("a block of language %q is not tested", b.info)
			continue
		}
		examples++
		name, _, _ := strings.Cut(b.text, "\n")
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			agents := filepath.Join(dir, "agents")
			if err := os.Mkdir(agents, 0o755); err != nil {
				t.Fatal(err)
			}
			wasm := []byte(readPage(t, "../../tools.d/text_stats.wasm"))
			for file, content := range map[string][]byte{"main.hcl": []byte(b.text), "text_stats.wasm": wasm} {
				if err := os.WriteFile(filepath.Join(agents, file), content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			code, stdout, stderr := hermes("validate", "--config", dir)
			if code != 0 || stderr != "" {
				t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
			}
			code, _, stderr = hermes("fmt", "--check", "--diff", agents)
			if code != 0 {
				t.Errorf("the example is not in canonical layout\n%s", stderr)
			}
		})
	}
	if examples < 5 {
		t.Errorf("%d examples", examples)
	}
}

// TestDocsAreGenerated writes the generated parts again and expects no change.
func TestDocsAreGenerated(t *testing.T) {
	dir := t.TempDir()
	pages := []string{"language.md", "cli.md", "api.md"}
	for _, page := range pages {
		if err := os.WriteFile(filepath.Join(dir, page), []byte(readPage(t, "../../docs/"+page)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if code, _, stderr := hermes("docs", "--out", dir); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, page := range pages {
		if diff := cmp.Diff(readPage(t, "../../docs/"+page), readPage(t, filepath.Join(dir, page))); diff != "" {
			t.Errorf("docs/%s is not what make docs writes (-is +would be):\n%s", page, diff)
		}
	}
}

func TestDocsNeedMarkers(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "language.md"), []byte("# No markers\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := hermes("docs", "--out", dir)
	if code != 2 || !strings.Contains(stderr, "has no markers") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// TestFlagsOfCommands holds each command to the flags that it can use.
func TestFlagsOfCommands(t *testing.T) {
	page := readPage(t, "../../docs/cli.md")
	for command, want := range map[string][]string{
		"hermes run AGENT [TEXT|-]":          {"--background", "--json", "--key KEY", "--on-busy WHAT", "--server URL", "--session ID", "--token KEY"},
		"hermes serve":                       {"--lenient", "--listen ADDRESS", "--watch"},
		"hermes tools call NAME [ARGUMENTS]": {"--json", "--server URL", "--token KEY"},
		"hermes tools list":                  {"--json"},
		"hermes init [DIR]":                  nil,
	} {
		var got []string
		for line := range strings.Lines(section(t, page, "### "+command)) {
			if flag, ok := strings.CutPrefix(line, "| `--"); ok {
				name, _, _ := strings.Cut(flag, "`")
				got = append(got, "--"+name)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", command, diff)
		}
	}
}

func TestHeadings(t *testing.T) {
	got := headings("###### six\n####### seven\n```\n####### code\n```\n")
	want := "###### six\n**seven**\n```\n####### code\n```\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

var linkRE = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)

// TestLinks follows the links between pages.
func TestLinks(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for _, page := range append(pages, "../../README.md") {
		for _, m := range linkRE.FindAllStringSubmatch(readPage(t, page), -1) {
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", page, m[1])
			}
		}
	}
	if links < 5 {
		t.Errorf("%d links", links)
	}
}
