package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReloadPage runs the session of the page as it stands there, compares what its commands
// print with what it says, and holds its table of metrics to those that are scraped.
func TestReloadPage(t *testing.T) {
	for _, tool := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed: the session needs it", tool)
		}
	}
	page := readPage(t, "../../docs/reload.md")
	var script strings.Builder
	var wants []*regexp.Regexp
	scrape := -1
	for _, b := range fences(page) {
		switch b.info {
		case "sh":
			fmt.Fprintf(&script, "echo %q\n%s", blockMark, b.text)
			if strings.Contains(b.text, "/metrics") {
				scrape = len(wants)
			}
			wants = append(wants, nil)
		case "text":
			wants[len(wants)-1] = outputRE(b.text)
		case "yaml":
		default:
			t.Errorf("the page has a block of language %q, which is not tested", b.info)
		}
	}
	script.WriteString("kill %1\n")
	outputs := runSession(t, t.TempDir(), script.String())
	if len(outputs) != len(wants) || scrape < 0 {
		t.Fatalf("%d of %d steps were run, metrics at %d", len(outputs), len(wants), scrape)
	}
	for i, want := range wants {
		if want != nil && !want.MatchString(outputs[i]) {
			t.Errorf("step %d prints what the page does not say:\n%s\nwant a match of %s", i+1, outputs[i], want)
		}
	}
	metricsOf(t, page, outputs[scrape])
}

// metricsOf holds the metrics that a page names to "name type" lines of a scrape.
func metricsOf(t *testing.T, page, scraped string) {
	t.Helper()
	var exist, named []string
	for line := range strings.Lines(scraped) {
		name, _, _ := strings.Cut(line, " ")
		exist = append(exist, name)
	}
	for _, name := range regexp.MustCompile(`hermes_[a-z_]+`).FindAllString(page, -1) {
		if name != "hermes_" {
			named = append(named, name)
		}
	}
	slices.Sort(exist)
	slices.Sort(named)
	if diff := cmp.Diff(exist, slices.Compact(named)); diff != "" {
		t.Errorf("metrics that are scraped, and that the page names (-scraped +named):\n%s", diff)
	}
}
