package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
)

func TestHarmless(t *testing.T) {
	got := harmless("a\tb\n\x1b]52;c;payload\x07\x1b[2Jé\u009b31m")
	want := "a\tb\n�]52;c;payload��[2Jé�31m"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestShownIsUnchangedWhenPiped(t *testing.T) {
	a := &app{stdout: &bytes.Buffer{}}
	if got := a.shown("\x1b[31m"); got != "\x1b[31m" {
		t.Errorf("%q", got)
	}
}

func TestTableHasNoTrailingSpace(t *testing.T) {
	var out bytes.Buffer
	a := &app{stdout: &out}
	if err := a.table([]string{"NAME", "WHERE"}, [][]string{{"longer", ""}, {"x", "y"}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("NAME    WHERE\nlonger\nx       y\n", out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "no tools", 1: "1 tool", 2: "2 tools"} {
		if got := count(n, "tool"); got != want {
			t.Errorf("%d: %q", n, got)
		}
	}
}

func TestReason(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&url.Error{Op: "Get", URL: "http://user:secret@x", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}, "connection refused"},
		{&url.Error{Op: "Get", URL: "http://x", Err: &net.DNSError{Err: "no such host", Name: "x"}}, "no such host"},
		{&url.Error{Op: "Get", URL: "http://user:secret@x", Err: errors.New("EOF")}, "EOF"},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, "permission denied"},
		{fmt.Errorf("other"), "other"},
	} {
		if got := reason(c.err); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}

func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"json", "json", 0}, {"jsn", "json", 1}, {"jsno", "json", 2}, {"", "abc", 3}, {"abc", "", 3}} {
		if got := editDistance(c.a, c.b); got != c.want {
			t.Errorf("%s, %s: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestPages(t *testing.T) {
	stored := make([]session.Session, 1234)
	for i := range stored {
		stored[i].ID = fmt.Sprintf("ses_%04d", i)
	}
	for _, c := range []struct{ limit, want, calls int }{{0, 1234, 3}, {50, 50, 1}, {500, 500, 1}, {600, 600, 2}, {5000, 1234, 3}} {
		calls := 0
		got, err := pages(c.limit, func(before string, n int) ([]session.Session, error) {
			calls++
			start := 0
			if before != "" {
				if _, err := fmt.Sscanf(before, "ses_%d", &start); err != nil {
					return nil, err
				}
				start++
			}
			return stored[start:min(start+n, len(stored))], nil
		})
		if err != nil || len(got) != c.want || calls != c.calls {
			t.Errorf("limit %d: %d sessions in %d calls (%v), want %d in %d", c.limit, len(got), calls, err, c.want, c.calls)
		}
		if diff := cmp.Diff(stored[:c.want], got); diff != "" {
			t.Errorf("limit %d: %s", c.limit, diff)
		}
	}
}

// TestCommandsExplainThemselves holds every command to a summary and to words about its
// arguments that the usage line has.
func TestCommandsExplainThemselves(t *testing.T) {
	a := &app{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}}
	commands := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		commands++
		if c.Short == "" {
			t.Errorf("%s has no summary", c.CommandPath())
		}
		if c.Args == nil && c.Name() != "help" {
			t.Errorf("%s takes any arguments", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	for _, c := range a.root().Commands() {
		if c.Name() != "completion" {
			walk(c)
		}
	}
	if commands < 25 {
		t.Errorf("%d commands", commands)
	}
}

// TestDrainingNamesHolders prints who keeps a replaced generation open.
func TestDrainingNamesHolders(t *testing.T) {
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	var out bytes.Buffer
	a := &app{stdout: &out}
	a.printDraining(snapshot.Draining{Generation: 4, Since: ago(time.Minute), Count: 23, Holders: []snapshot.Holding{
		{Who: "run run_x of agent a, tool get", Since: ago(2 * time.Minute)}, {Since: ago(90 * time.Second)},
	}})
	want := "\ndraining: generation 4, replaced 1m0s ago, held by 23\n" +
		"  run run_x of agent a, tool get, for 2m0s\n  unnamed, for 1m30s\n  and 21 more\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}
