package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/wasmtools/guests/guesttest"
)

func TestCases(t *testing.T) {
	cases, err := guesttest.Load("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			got, err := module.Call("diff", c.Args)
			if diff := c.Check(got, err); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// patched applies a unified diff, strictly: every line must be where the diff says.
func patched(old, diff string) (string, error) {
	lines := split(old)
	var out strings.Builder
	at := 0
	body := split(diff)
	for i := 2; i < len(body); i++ {
		line := body[i]
		if i+1 < len(body) && strings.HasPrefix(body[i+1], `\`) {
			line = strings.TrimSuffix(line, "\n")
		}
		switch line[0] {
		case '@':
			var start, n int
			head := strings.Fields(line)[1]
			if strings.Contains(head, ",") {
				if _, err := fmt.Sscanf(head, "-%d,%d", &start, &n); err != nil {
					return "", err
				}
			} else if _, err := fmt.Sscanf(head, "-%d", &start); err != nil {
				return "", err
			} else {
				n = 1
			}
			if n > 0 {
				start--
			}
			for ; at < start; at++ {
				out.WriteString(lines[at])
			}
		case ' ', '-':
			if at >= len(lines) || lines[at] != line[1:] {
				return "", fmt.Errorf("line %d of the diff does not fit line %d", i, at)
			}
			if line[0] == ' ' {
				out.WriteString(line[1:])
			}
			at++
		case '+':
			out.WriteString(line[1:])
		}
	}
	for ; at < len(lines); at++ {
		out.WriteString(lines[at])
	}
	return out.String(), nil
}

func check(t *testing.T, old, new string, context int) *answer {
	t.Helper()
	a, err := arguments{Old: &old, New: &new, Context: &context}.run()
	if err != nil {
		t.Fatal(err)
	}
	if a.Equal != (old == new) {
		t.Fatalf("equal %v of %q and %q", a.Equal, old, new)
	}
	got, err := patched(old, a.Diff)
	if err != nil || got != new {
		t.Fatalf("%q to %q: the diff\n%s gives %q, %v", old, new, a.Diff, got, err)
	}
	return a
}

// shortest is the number of changed lines of a smallest diff, by the table.
func shortest(x, y []string) int {
	row := make([]int, len(y)+1)
	for i := range x {
		before := 0
		for j := range y {
			keep := row[j+1]
			if x[i] == y[j] {
				row[j+1] = before + 1
			} else {
				row[j+1] = max(row[j+1], row[j])
			}
			before = keep
		}
	}
	return len(x) + len(y) - 2*row[len(y)]
}

func randomText(r *rand.Rand, lines, letters int) string {
	var b strings.Builder
	for range r.IntN(lines + 1) {
		b.WriteString(strconv.Itoa(r.IntN(letters)) + "\n")
	}
	return strings.TrimSuffix(b.String(), []string{"", "\n"}[r.IntN(2)])
}

// TestSmallest: the diff is a smallest one, and applied gives the new text.
func TestSmallest(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		old, new := randomText(r, 20, 4), randomText(r, 20, 5)
		a := check(t, old, new, r.IntN(4))
		if got, want := a.Added+a.Removed, shortest(split(old), split(new)); got != want {
			t.Fatalf("%q to %q: %d changes; there is a diff of %d", old, new, got, want)
		}
	}
}

// TestWorkIsBounded: texts that would take days get a coarse diff that is true.
func TestWorkIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("searches for millions of steps")
	}
	r := rand.New(rand.NewPCG(3, 4))
	text := func(letters int) string {
		var b strings.Builder
		for i := range 60_000 {
			fmt.Fprintln(&b, r.IntN(letters))
			if i%1000 == 0 {
				fmt.Fprintln(&b, "section", i)
			}
		}
		return b.String()
	}
	x, y := intern(split(text(1000)), split(text(1000)), func(s string) string { return s })
	c := compare(x, y)
	if !c.coarse {
		t.Error("the texts were compared to the end")
	}
	kept := len(x)
	for _, ch := range c.changes {
		kept -= ch.oldEnd - ch.old
	}
	if kept < 60 {
		t.Errorf("%d lines were kept; the sections are 60", kept)
	}
	s := search{x: x, y: y, left: 1000}
	if _, _, ok := s.middle(x, y); ok || s.left < -200_000 {
		t.Errorf("%v with %d steps left", ok, s.left)
	}
}

func TestOutputIsBounded(t *testing.T) {
	line := strings.Repeat("x", 1000) + "\n"
	old := strings.Repeat("a\n"+strings.Repeat("\n", 9), 2000)
	new := strings.Repeat(line+strings.Repeat("\n", 9), 2000)
	a, err := arguments{Old: &old, New: &new}.run()
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(a.Diff, "@@ -"); !a.Truncated || n == 0 || n+a.LeftOut != 2000 || len(a.Diff) > maxOutput+100*n {
		t.Errorf("%d hunks, %d left out, %d bytes, truncated %v", n, a.LeftOut, len(a.Diff), a.Truncated)
	}
	many := strings.Repeat("\n", maxLines+1)
	if _, err := (arguments{Old: &many, New: &old}).run(); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Error(err)
	}
}

func TestSlide(t *testing.T) {
	lines := []int32{1, 2, 1, 2, 1, 3}
	changed := []bool{true, true, false, false, false, true}
	slide(lines, changed)
	if diff := cmp.Diff([]bool{false, false, false, true, true, true}, changed); diff != "" {
		t.Error(diff)
	}
}

func FuzzDiff(f *testing.F) {
	f.Add("a\nb\n", "b\na", 1)
	f.Add("", "\n\n", 0)
	f.Fuzz(func(t *testing.T, old, new string, context int) {
		check(t, old, new, min(max(context, 0), 1000))
	})
}
