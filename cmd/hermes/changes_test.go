package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/generation"
	"github.com/hermes-runtime/hermes/runtime/reload"
)

var update = flag.Bool("update", false, "write the golden files of testdata/plan")

// TestPlanGolden prints plans as they are sent, and compares with what people read.
func TestPlanGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/plan/*.json")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d plans, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			var p reload.Plan
			if err := json.Unmarshal([]byte(readPage(t, file)), &p); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			a := &app{stdout: &out}
			a.printPlan(p, p.Generation != 0 && p.Generation != 7) // as against a server, and not
			golden := strings.TrimSuffix(file, ".json") + ".txt"
			if *update {
				if err := os.WriteFile(golden, out.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(readPage(t, golden), out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLineDiff(t *testing.T) {
	for _, tt := range []struct{ before, after, want string }{
		{"a", "a", "=a"},
		{"a\nb\nc", "a\nc", "=a -b =c"},
		{"a\nc", "a\nb\nc", "=a +b =c"},
		{"a", "b", "-a +b"},
		{"", "a", "- +a"},
		{"a\nb", "b\na", "-a =b +a"},
	} {
		var got []string
		for _, e := range lineDiff(tt.before, tt.after) {
			got = append(got, strings.ReplaceAll(string(e.sign), " ", "=")+e.line)
		}
		if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%q to %q (-want +got):\n%s", tt.before, tt.after, diff)
		}
	}
}

// TestHunks: what did not change is left out, and what is shown has a bound.
func TestHunks(t *testing.T) {
	var before, after []string
	for i := range 60 {
		before = append(before, "line "+string(rune('A'+i)))
		after = append(after, "line "+string(rune('A'+i)))
	}
	after[30] = "other"
	var got []string
	for _, e := range hunks(lineDiff(strings.Join(before, "\n"), strings.Join(after, "\n"))) {
		got = append(got, strings.Trim(string(e.sign)+e.line, "\x00"))
	}
	want := []string{"…", " line ^", "-line _", "+other", " line `", "…"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	all := hunks(lineDiff(strings.Join(before, "\n"), strings.ToLower(strings.Join(before, "\n"))+"x"))
	if len(all) != shownLines+1 || !strings.HasPrefix(all[shownLines].line, "… ") {
		t.Errorf("%d lines, the last %q", len(all), all[len(all)-1].line)
	}
}

func TestNarrowed(t *testing.T) {
	long := strings.Repeat("0123456789", 20)
	for _, tt := range []struct{ before, after, from, to string }{
		{"a", "b", "a", "b"},
		{long + "x" + long, long + "y" + long, "…01234567890123456789x01234567890123456789…", "…01234567890123456789y01234567890123456789…"},
		{"", long, "", long[:shownRunes] + "…"},
		{long + "x", long, "…01234567890123456789x", "…01234567890123456789"},
		{"ä" + long, "ö" + long, "ä01234567890123456789…", "ö01234567890123456789…"},
	} {
		from, to := narrowed(tt.before, tt.after)
		if from != tt.from || to != tt.to {
			t.Errorf("%.20q to %.20q: %q, %q; want %q, %q", tt.before, tt.after, from, to, tt.from, tt.to)
		}
	}
}

// TestOutcome prints what went live in short, with what was taken over.
func TestOutcome(t *testing.T) {
	var out bytes.Buffer
	a := &app{stdout: &out}
	a.printOutcome(reload.Outcome{Changed: true, Generation: 2, Diff: &generation.Diff{
		Changes: []generation.Change{{Object: "tool.x", Action: generation.Added, Gained: []string{"env X"}}, {Object: "agent.a", Action: generation.Changed, Lost: []string{"tool y"}}},
		Sharing: &generation.Sharing{Handlers: generation.Count{Shared: 3, Built: 1}, Modules: generation.Count{Built: 1}},
	}, Report: []reload.Diagnostic{{Severity: "error", Summary: "Not this"}, {Severity: "warning", Summary: "But this"}}})
	want := "  1 added, 1 changed, 0 removed\n  + tool.x\n      gains: env X\n  ~ agent.a\n      loses: tool y\n  taken over from before: 3 of 4 handlers, 0 of 1 module\n\nwarning: But this\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestStatusOfHistory: what a restart would come up on is said where it is not what is live.
func TestStatusOfHistory(t *testing.T) {
	for _, tt := range []struct {
		status reload.Status
		want   string
	}{
		{reload.Status{Generation: 4, LastGood: 4}, ""},
		{reload.Status{Generation: 4, LastGood: 2, Unrecorded: "the disk is full"}, "\nunrecorded: generation 4 is live and not recorded (the disk is full): a restart could only come up on generation 2\n"},
		{reload.Status{Generation: 4, LastGood: 4, Lenient: &reload.Lenient{Generation: 3, Paths: []string{"a.hcl", "b.hcl"}}}, "\nlenient: runs on the last good version of a.hcl, b.hcl, of generation 3\n"},
	} {
		var out bytes.Buffer
		(&app{stdout: &out}).printGood(tt.status)
		if diff := cmp.Diff(tt.want, out.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// TestOtherwise says which files differ from those planned.
func TestOtherwise(t *testing.T) {
	change := func(path string, a generation.Action, digest string) generation.InputChange {
		return generation.InputChange{Path: path, Action: a, SHA256: digest}
	}
	planned := []generation.InputChange{change("same", generation.Changed, "1"), change("other", generation.Added, "2"), change("back", generation.Removed, "")}
	now := []generation.InputChange{change("same", generation.Changed, "1"), change("other", generation.Added, "3"), change("new", generation.Added, "4")}
	want := []string{"other: differs from what was planned", "new: changed since the plan", "back: planned to change, and is as it is live"}
	if diff := cmp.Diff(want, otherwise(planned, now)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
