package provision_test

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/check"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/provision"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// fetcher is a command module that imports what needs the capability http.
func fetcher() string {
	name := func(s string) string { return string(rune(len(s))) + s }
	section := func(id byte, body string) string { return string(rune(id)) + string(rune(len(body))) + body }
	return "\x00asm\x01\x00\x00\x00" +
		section(1, "\x02\x60\x00\x00\x60\x02\x7f\x7f\x01\x7f") + // func(), func(i32, i32) i32
		section(2, "\x01"+name("hermes_http")+name("fetch")+"\x00\x01") +
		section(3, "\x01\x00") +
		section(5, "\x01\x00\x01") +
		section(7, "\x02"+name("memory")+"\x02\x00"+name("_start")+"\x00\x01") +
		section(10, "\x01\x02\x00\x0b")
}

// TestMissingGrantOfAColdModule is an error at load, though the module would compile
// in the background.
func TestMissingGrantOfAColdModule(t *testing.T) {
	s := newSite(t)
	s.write("tools.d/w.wasm", fetcher())
	s.write("tools.d/w.hcl", `
tool "w" {
  description = "Fetches."
  handler "wasm" {
    module = "w.wasm"
  }
}
`)
	snap, diags := s.build(true)
	if snap != nil || !diags.HasErrors() || !strings.Contains(diags[0].Detail, `grant "http" {`) {
		t.Fatalf("got %v, %v", snap, diags)
	}
	if diags[0].Subject == nil || filepath.Base(diags[0].Subject.Filename) != "w.hcl" {
		t.Errorf("subject = %+v", diags[0].Subject)
	}
}

func TestFunctionThatPanicsIsADiagnostic(t *testing.T) {
	var c counted
	f := c.function()
	f.New = func(hostfuncs.Binding) (tool.Handler, error) { panic("boom") }
	s := newSite(t, f)
	s.write("tools.d/x.hcl", strings.ReplaceAll(countTool, "%", "x"))
	snap, diags := s.build(false)
	if snap != nil || !diags.HasErrors() || strings.Contains(diags[0].Detail, "boom") {
		t.Errorf("got %v, %v", snap, diags)
	}
}

// TestLateDescriptionIsBlamedOnTheTool, not on the agent that is offered it.
func TestLateDescriptionIsBlamedOnTheTool(t *testing.T) {
	s := newSite(t, (&counted{}).function())
	s.write("tools.d/x.hcl", strings.Replace(strings.ReplaceAll(countTool, "%", "x"), "  handler", "  description = \"Number ${tonumber(agent.name)}.\"\n  handler", 1))
	snap, diags := s.build(false)
	if snap != nil || !diags.HasErrors() {
		t.Fatalf("got %v, %v", snap, diags)
	}
	if b, _ := config.BlameOf(diags[0]); filepath.Base(b.Input) != "x.hcl" || !strings.Contains(diags[0].Detail, `"x"`) {
		t.Errorf("diagnostic %q is blamed on %q", diags[0].Detail, b.Input)
	}
}

// TestChecksOfClosedGenerationsAreForgotten counts on Peek: it never asks.
func TestChecksOfClosedGenerationsAreForgotten(t *testing.T) {
	var c counted
	s := newSite(t, c.function())
	checks := check.New(check.Options{Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(checks.Close)
	s.p = provision.New(provision.Options{Funcs: s.funcs, Checks: checks, Log: slog.New(slog.DiscardHandler)})
	declare := func(variable string) {
		s.write("tools.d/x.hcl", strings.Replace(strings.ReplaceAll(countTool, "%", "x"), "  handler", "  check \"env\" {\n    vars = [\""+variable+"\"]\n  }\n  handler", 1))
	}
	declare("HERMES_ONE")
	one, diags := s.build(false)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	first := specOf(t, one.Registry)
	checks.State(first)
	declare("HERMES_TWO")
	two, diags := s.build(false)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	second := specOf(t, two.Registry)
	checks.State(second)
	if _, ok := checks.Peek(first); !ok {
		t.Error("a check of a generation that is not closed was forgotten")
	}
	one.Close()
	if _, ok := checks.Peek(first); ok {
		t.Error("a check that no generation has is still remembered")
	}
	if _, ok := checks.Peek(second); !ok {
		t.Error("a check of the live generation was forgotten")
	}
	two.Close()
}

func specOf(t *testing.T, r *registry.Registry) check.Spec {
	t.Helper()
	x, ok := r.Tool("x")
	if !ok || len(x.Checks) != 1 {
		t.Fatalf("tool = %+v", x)
	}
	return x.Checks[0]
}
