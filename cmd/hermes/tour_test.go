package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// fence is one fenced block of a page: its language with marks, and its text.
type fence struct{ info, text string }

// fences are the fenced blocks of a page, in order.
func fences(page string) []fence {
	var out []fence
	var open *fence
	for line := range strings.Lines(page) {
		info, isFence := strings.CutPrefix(strings.TrimRight(line, "\n"), "```")
		switch {
		case isFence && open == nil:
			open = &fence{info: info}
		case isFence:
			out = append(out, *open)
			open = nil
		case open != nil:
			open.text += line
		}
	}
	return out
}

// section is the part of a page below a heading, up to the next of its level.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, "\n"+heading+"\n")
	if !ok {
		t.Fatalf("the page has no heading %q", heading)
	}
	level, _, _ := strings.Cut(heading, " ")
	text, _, _ := strings.Cut(rest, "\n"+level+" ")
	return text
}

func readPage(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// outputRE is what a text block promises: … alone in a line is any lines, elsewhere it
// is any text of a line.
func outputRE(text string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`\A`)
	for line := range strings.Lines(text) {
		if line == "…\n" {
			b.WriteString(`(?:.*\n)*?`)
			continue
		}
		b.WriteString(strings.ReplaceAll(regexp.QuoteMeta(strings.TrimRight(line, "\n")), "…", ".*") + ` *\n`)
	}
	b.WriteString(`\z`)
	return regexp.MustCompile(b.String())
}

// freeAddress is one that nobody listens on now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestTour runs the tour of the README as it stands there, and compares what its
// commands print with what it says they print.
func TestTour(t *testing.T) {
	for _, tool := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed: the tour needs it", tool)
		}
	}
	blocks := fences(section(t, readPage(t, "../../README.md"), "## A tour of five minutes"))
	var script strings.Builder
	var wants []*regexp.Regexp
	for _, b := range blocks {
		switch b.info {
		case "sh":
			fmt.Fprintf(&script, "echo %q\n%s", blockMark, b.text)
			wants = append(wants, nil)
		case "text":
			wants[len(wants)-1] = outputRE(b.text)
		default:
			t.Errorf("the tour has a block of language %q, which is not tested", b.info)
		}
	}
	if len(wants) < 8 {
		t.Fatalf("the tour has %d steps", len(wants))
	}
	outputs := runTour(t, script.String())
	if len(outputs) != len(wants) {
		t.Fatalf("%d of %d steps were run", len(outputs), len(wants))
	}
	for i, want := range wants {
		if want != nil && !want.MatchString(outputs[i]) {
			t.Errorf("step %d prints what the README does not say:\n%s\nwant a match of %s", i+1, outputs[i], want)
		}
	}
}

// blockMark separates the outputs of the steps.
const blockMark = "== next step =="

// runTour runs the tour in an empty directory, with hermes on the path, and gives what
// each step wrote to stdout.
func runTour(t *testing.T, script string) []string {
	t.Helper()
	dir := t.TempDir()
	if err := linkTree(filepath.Join(dir, "demo", "state", "cache"), warmCache(t)); err != nil {
		t.Fatal(err)
	}
	return runSession(t, dir, script)
}

// runSession runs the steps of a page in dir, with hermes on the path, and gives what each
// wrote to stdout.
func runSession(t *testing.T, dir, script string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script+"\nwait\n")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(),
		"PATH="+filepath.Dir(binary(t))+string(os.PathListSeparator)+os.Getenv("PATH"),
		"HERMES="+freeAddress(t), "OPENAI_API_KEY=", "OPENAI_BASE_URL=", "OPENAI_MODEL=")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "demo", "serve.log"))
		t.Fatalf("the tour ended with %v\n%s\n%s\n%s", err, &stdout, &stderr, log)
	}
	t.Logf("%s", &stderr)
	return strings.Split(strings.TrimPrefix(stdout.String(), blockMark+"\n"), blockMark+"\n")
}

// TestReadmeProgram holds the program that the README shows to the one that is compiled
// and run as an example.
func TestReadmeProgram(t *testing.T) {
	compiled := unindent(readPage(t, "../../runtime/example_test.go"))
	programs := 0
	for _, b := range fences(readPage(t, "../../README.md")) {
		if b.info != "go" {
			continue
		}
		programs++
		if !strings.Contains(compiled, unindent(b.text)) {
			t.Errorf("this program of the README is not in runtime/example_test.go:\n%s", b.text)
		}
	}
	if programs == 0 {
		t.Error("the README shows no program")
	}
}

// unindent removes what stands before each line.
func unindent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimLeft(line, "\t "))
	}
	return b.String()
}
