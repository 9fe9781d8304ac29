package fault_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

func TestKinds(t *testing.T) {
	tests := []struct {
		kind         fault.Kind
		name         string
		status, exit int
	}{
		{fault.Internal, "internal", 500, 1},
		{fault.Invalid, "invalid", 400, 2},
		{fault.NotFound, "not_found", 404, 1},
		{fault.Exists, "exists", 409, 1},
		{fault.Unavailable, "unavailable", 503, 1},
		{fault.Denied, "denied", 403, 3},
		{fault.Timeout, "timeout", 504, 1},
		{fault.Canceled, "canceled", 499, 130},
		{fault.TooLarge, "too_large", 413, 1},
		{fault.Exhausted, "exhausted", 429, 1},
		{fault.Kind(200), "internal", 500, 1},
	}
	for i, tt := range tests {
		if tt.kind.String() != tt.name || tt.kind.HTTPStatus() != tt.status || tt.kind.ExitCode() != tt.exit {
			t.Errorf("%d: %s, %d, %d; want %s, %d, %d", tt.kind, tt.kind, tt.kind.HTTPStatus(), tt.kind.ExitCode(), tt.name, tt.status, tt.exit)
		}
		if i == len(tests)-1 {
			continue
		}
		if back, ok := fault.ParseKind(tt.name); !ok || back != tt.kind {
			t.Errorf("ParseKind(%q) = %v, %v", tt.name, back, ok)
		}
	}
	if k, ok := fault.ParseKind("fatal"); ok || k != fault.Internal {
		t.Errorf("an unknown name is %v, %v", k, ok)
	}
}

// TestShown says which kind and message an error has for others, and that what is
// under a message never shows.
func TestShown(t *testing.T) {
	var zero fault.Error
	tests := []struct {
		name    string
		err     error
		kind    fault.Kind
		message string
	}{
		{"foreign", errors.New("password=hunter2"), fault.Internal, "internal error"},
		{"ours", fault.New(fault.Denied, "no %s", "entry"), fault.Denied, "no entry"},
		{"cause hidden", fault.Wrap(fault.Timeout, errors.New("hunter2"), "too slow"), fault.Timeout, "too slow"},
		{"inside a wrapping", fmt.Errorf("opening hunter2: %w", fault.New(fault.Exists, "taken")), fault.Exists, "taken"},
		{"outermost counts", fault.Wrap(fault.Unavailable, fault.New(fault.Invalid, "inner"), "outer"), fault.Unavailable, "outer"},
		{"joined", errors.Join(errors.New("hunter2"), fault.New(fault.TooLarge, "big")), fault.TooLarge, "big"},
		{"deadline", fmt.Errorf("x: %w", context.DeadlineExceeded), fault.Timeout, "the time allowed ran out"},
		{"canceled", context.Canceled, fault.Canceled, "canceled"},
		{"zero", &zero, fault.Internal, ""},
		{"nil", nil, fault.Internal, "internal error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if k, m := fault.KindOf(tt.err), fault.Message(tt.err); k != tt.kind || m != tt.message {
				t.Errorf("got %v %q, want %v %q", k, m, tt.kind, tt.message)
			}
			if s := string(fault.ToolJSON(tt.err)); strings.Contains(s, "hunter2") {
				t.Errorf("tool error %s shows the cause", s)
			}
		})
	}
	cause := errors.New("cause")
	if err := fault.Wrap(fault.Invalid, cause, "m"); !errors.Is(err, cause) || err.Error() != "m: cause" {
		t.Errorf("error for logs = %q", err)
	}
}

func TestToolJSON(t *testing.T) {
	long := strings.Repeat("é", fault.MaxToolMessage)
	for name, tt := range map[string]struct{ in, want string }{
		"short":        {"city: required", "city: required"},
		"long":         {long, long[:fault.MaxToolMessage]},
		"invalid text": {"a\xffb", "a\ufffdb"},
		"quotes":       {"\"x\"\n<b>", "\"x\"\n<b>"},
	} {
		var got struct {
			Error struct{ Kind, Message string }
		}
		if err := json.Unmarshal(fault.ToolJSON(fault.New(fault.Invalid, "%s", tt.in)), &got); err != nil {
			t.Fatal(err)
		}
		if got.Error.Kind != "invalid" || got.Error.Message != tt.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestCut(t *testing.T) {
	for _, tt := range []struct {
		in   string
		n    int
		want string
	}{
		{"abc", 3, "abc"}, {"abc", 2, "ab"}, {"abc", 0, ""}, {"abc", -1, ""}, {"", 5, ""},
		{"aé", 2, "a"}, {"aé", 3, "aé"}, {"👍", 3, ""}, {"\xff", 9, "\ufffd"}, {"\xff", 2, ""},
	} {
		if got := fault.Cut(tt.in, tt.n); got != tt.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", tt.in, tt.n, got, tt.want)
		}
	}
}

func FuzzCut(f *testing.F) {
	f.Add("aé👍\xff", 3)
	f.Fuzz(func(t *testing.T, s string, n int) {
		got := fault.Cut(s, n)
		if !utf8.ValidString(got) || len(got) > max(n, 0) {
			t.Errorf("Cut(%q, %d) = %q", s, n, got)
		}
		if diff := cmp.Diff(got, fault.Cut(got, n)); diff != "" {
			t.Errorf("cut twice (-once +twice):\n%s", diff)
		}
	})
}
