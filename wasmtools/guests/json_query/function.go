package main

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

type resultKind int

const (
	valueResult resultKind = iota
	testResult
)

// function is one that filters may call.
type function struct {
	name   string
	nodes  bool // takes nodes, else values
	args   int
	result resultKind
	do     func(ev *evaluation, args []any) (any, error) // values; absent ones are nothing
	onList func(nodes []Node) any
}

// nothing is the value of a path that leads nowhere. It equals itself alone.
type nothing struct{}

func functionNamed(name string) *function {
	for _, f := range []function{
		{name: "length", args: 1, do: length},
		{name: "count", args: 1, nodes: true, onList: func(n []Node) any { return number(len(n)) }},
		{name: "value", args: 1, nodes: true, onList: single},
		{name: "match", args: 2, result: testResult, do: (*evaluation).match},
		{name: "search", args: 2, result: testResult, do: (*evaluation).search},
	} {
		if f.name == name {
			return &f
		}
	}
	return nil
}

func (f *function) accept(args []expr) error {
	if len(args) != f.args {
		return fmt.Errorf("%s() takes %d arguments", f.name, f.args)
	}
	for _, a := range args {
		if f.nodes && a.op != "query" {
			return fmt.Errorf("%s() takes a path", f.name)
		}
		if !f.nodes {
			if err := a.comparable(); err != nil {
				return err
			}
		}
	}
	if f.result == testResult {
		if s, ok := args[1].value.(string); ok {
			if _, err := compileRegexp(s, false); err != nil {
				return fmt.Errorf("%q is no regular expression", s)
			}
		}
	}
	return nil
}

func length(ev *evaluation, a []any) (any, error) {
	switch v := a[0].(type) {
	case string:
		return number(utf8.RuneCountInString(v)), ev.charge(len(v) / charsPerVisit)
	case []any:
		return number(len(v)), nil
	case map[string]any:
		return number(len(v)), nil
	}
	return nothing{}, nil
}

func single(n []Node) any {
	if len(n) == 1 {
		return n[0].Value
	}
	return nothing{}
}

// compileRegexp compiles an I-Regexp, in which a dot matches all but line ends.
func compileRegexp(pattern string, whole bool) (*regexp.Regexp, error) {
	if whole {
		pattern = `\A(?:` + pattern + `)\z`
	}
	return regexp.Compile(strings.TrimSpace(pattern))
}
