package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dop251/goja"
)

const (
	maxLines   = 200
	maxLine    = 2000     // bytes
	maxConsole = 16 << 10 // bytes of all lines
	maxTail    = 600      // bytes beside an error
)

// console keeps what a script wrote, up to a bound, and counts the rest.
type console struct {
	kept  []string
	bytes int
	lost  int
}

// object is the console of a script.
func (c *console) object(s *script) *goja.Object {
	o := s.rt.NewObject()
	for name, mark := range map[string]string{
		"log": "", "info": "", "debug": "", "dir": "", "table": "", "trace": "",
		"warn": "warning: ", "error": "error: ",
	} {
		c.method(s, o, name, func(call goja.FunctionCall) { c.add(mark + c.line(s, call.Arguments)) })
	}
	c.method(s, o, "assert", func(call goja.FunctionCall) {
		if !call.Argument(0).ToBoolean() {
			c.add("assertion failed: " + c.line(s, call.Arguments[min(1, len(call.Arguments)):]))
		}
	})
	return o
}

func (c *console) method(s *script, o *goja.Object, name string, f func(goja.FunctionCall)) {
	v := s.rt.ToValue(func(call goja.FunctionCall) goja.Value {
		f(call)
		return goja.Undefined()
	})
	_ = o.DefineDataProperty(name, v, goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_FALSE) // of a new object, so it can be defined
}

// line joins the arguments: texts as they are, the rest as JSON.
func (c *console) line(s *script, args []goja.Value) string {
	var b strings.Builder
	for i, v := range args {
		if b.Len() > maxLine {
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		if o, ok := v.(*goja.Object); ok && o.ClassName() == "Error" {
			b.WriteString(s.textOf(v))
			continue
		}
		e := encoder{rt: s.rt, max: maxLine, lenient: true}
		b.WriteString(e.text(s, v))
	}
	return clip(b.String(), maxLine)
}

func (c *console) add(line string) {
	if len(c.kept) == maxLines || c.bytes+len(line) > maxConsole {
		c.lost++
		return
	}
	c.kept = append(c.kept, line)
	c.bytes += len(line)
}

// lines are what was written, and how much was left out.
func (c *console) lines() []string {
	if c.lost == 0 {
		return c.kept
	}
	return append(slices.Clip(c.kept), fmt.Sprintf("… %d more lines were left out", c.lost))
}

// tail is the end of it, to stand behind an error.
func (c *console) tail() string {
	all := c.lines()
	n, from := 0, len(all)
	for from > 0 && n+len(all[from-1]) <= maxTail {
		from--
		n += len(all[from])
	}
	if from == len(all) {
		return ""
	}
	return "\nconsole:\n" + strings.Join(all[from:], "\n")
}
