package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestRunsPage runs the session of the page as it stands there, and compares what its
// commands print with what it says.
func TestRunsPage(t *testing.T) {
	for _, tool := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed: the session needs it", tool)
		}
	}
	var script strings.Builder
	script.WriteString("hermes init . >/dev/null 2>&1\n")
	var wants []*regexp.Regexp
	for _, b := range fences(readPage(t, "../../docs/runs.md")) {
		switch b.info {
		case "sh":
			fmt.Fprintf(&script, "echo %q\n%s", blockMark, b.text)
			wants = append(wants, nil)
		case "text":
			wants[len(wants)-1] = outputRE(b.text)
		case "":
		default:
			t.Errorf("the page has a block of language %q, which is not tested", b.info)
		}
	}
	script.WriteString("kill %1\n")
	outputs := runSession(t, t.TempDir(), script.String())
	if len(outputs) != len(wants) {
		t.Fatalf("%d of %d steps were run", len(outputs), len(wants))
	}
	for i, want := range wants {
		if want != nil && !want.MatchString(outputs[i]) {
			t.Errorf("step %d prints what the page does not say:\n%s\nwant a match of %s", i+1, outputs[i], want)
		}
	}
}
