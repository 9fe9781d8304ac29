package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestAgentsPage runs the session of the page as it stands there, and compares what its
// commands print with what it says.
func TestAgentsPage(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not installed: the session needs it")
	}
	var script strings.Builder
	script.WriteString("set -e\n")
	var wants []*regexp.Regexp
	for _, b := range fences(readPage(t, "../../docs/agents.md")) {
		switch b.info {
		case "sh":
			fmt.Fprintf(&script, "echo %q\n%s", blockMark, b.text)
			wants = append(wants, nil)
		case "text":
			wants[len(wants)-1] = outputRE(b.text)
		default:
			t.Errorf("the page has a block of language %q, which is not tested", b.info)
		}
	}
	outputs := runSession(t, t.TempDir(), script.String())
	if len(outputs) != len(wants) || len(wants) < 2 {
		t.Fatalf("%d of %d steps were run", len(outputs), len(wants))
	}
	for i, want := range wants {
		if want != nil && !want.MatchString(outputs[i]) {
			t.Errorf("step %d prints what the page does not say:\n%s\nwant a match of %s", i+1, outputs[i], want)
		}
	}
}
