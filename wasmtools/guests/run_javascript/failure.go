package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/dop251/goja"
)

const (
	maxMessage = 1000 // bytes of the message of an error
	maxFrames  = 4
)

// isThrown tells what came out of the script from errors of ours.
func isThrown(err error) bool {
	_, thrown := errors.AsType[*goja.Exception](err)
	_, overflow := errors.AsType[*goja.StackOverflowError](err)
	return thrown || overflow
}

// failure says what the script threw and where.
func (s *script) failure(err error, p program) error {
	if overflow, ok := errors.AsType[*goja.StackOverflowError](err); ok {
		return fmt.Errorf("RangeError: calls are nested more than %d deep%s", maxCalls, places(overflow.Stack(), p, 1))
	}
	thrown, ok := errors.AsType[*goja.Exception](err)
	if !ok {
		return err
	}
	text := s.textOf(thrown.Value())
	return errors.New(text + places(thrown.Stack(), p, maxFrames) + hint(text))
}

// rejection is like failure for the reason of a promise, which has no stack of its own: an
// Error knows where it was made.
func (s *script) rejection(reason goja.Value, p program) error {
	text := s.textOf(reason)
	return errors.New(text + s.madeAt(reason, p) + hint(text))
}

// textOf is "name: message" of an error, and says what else was thrown.
func (s *script) textOf(v goja.Value) string {
	obj, ok := v.(*goja.Object)
	if !ok || obj.ClassName() != "Error" {
		e := encoder{rt: s.rt, max: maxMessage, lenient: true}
		return "thrown: " + e.text(s, v)
	}
	text := "Error"
	_ = s.guarded(func() error { text = obj.String(); return nil }) // one that cannot be read is an Error
	return clip(text, maxMessage)
}

// frameRE is a place in the stack of an Error.
var frameRE = regexp.MustCompile(`\b` + scriptName + `:(\d+):(\d+)\(`)

func (s *script) madeAt(v goja.Value, p program) string {
	obj, ok := v.(*goja.Object)
	if !ok || obj.ClassName() != "Error" {
		return ""
	}
	var stack string
	_ = s.guarded(func() error { stack = obj.Get("stack").String(); return nil }) // without one there is no place
	m := frameRE.FindStringSubmatch(stack)
	if m == nil {
		return ""
	}
	line, err := strconv.Atoi(m[1])
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (line %d, column %s)", p.line(line), m[2])
}

// places lists frames of the script, the innermost beside the message.
func places(frames []goja.StackFrame, p program, most int) string {
	var b strings.Builder
	n := 0
	for _, f := range frames {
		if f.SrcName() != scriptName || n == most {
			continue
		}
		at := f.Position()
		place := fmt.Sprintf("line %d, column %d", p.line(at.Line), at.Column)
		switch name := f.FuncName(); {
		case n == 0:
			fmt.Fprintf(&b, " (%s)", place)
		case name == "<anonymous>":
			fmt.Fprintf(&b, "\n  at %s", place)
		default:
			fmt.Fprintf(&b, "\n  at %s (%s)", clip(name, 60), place)
		}
		n++
	}
	return b.String()
}

var undefinedRE = regexp.MustCompile(`^ReferenceError: (\w+) is not defined`)

// hint says what is there instead of a name that scripts expect from elsewhere.
func hint(text string) string {
	m := undefinedRE.FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	switch m[1] {
	case "setTimeout", "setInterval", "setImmediate":
		return "\nThere are no timers: a script runs to its end at once."
	case "require", "module", "exports", "process", "Buffer", "global":
		return "\nThis is the language alone, not Node.js: there are input, console and tools."
	case "fetch", "XMLHttpRequest":
		return "\nThere is no network; call a tool for it, if one is allowed: tools.NAME(arguments)."
	case "window", "document", "navigator", "alert", "prompt":
		return "\nThis is the language alone, not a browser: there are input, console and tools."
	}
	return ""
}

// clip cuts text to at most n bytes, at a character.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}
