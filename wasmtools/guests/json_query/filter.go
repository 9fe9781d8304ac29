package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// expr is a part of a filter. What it may be used for depends on its type: a test, a
// value to compare, or nodes.
type expr struct {
	op    string // "||" "&&" "!" "==" … "query" "call" "literal"
	args  []expr
	query *Query
	value any // of a literal
	fn    *function
}

// test checks that the expression can stand as a condition.
func (e expr) test() error {
	switch {
	case e.op == "literal":
		return fmt.Errorf("a literal alone is no condition; compare it")
	case e.op == "call" && e.fn.result == valueResult:
		return fmt.Errorf("%s() gives a value; compare it", e.fn.name)
	}
	return nil
}

// comparable checks that the expression has one value.
func (e expr) comparable() error {
	switch {
	case e.op == "query" && !e.query.singular():
		return fmt.Errorf("only a path to a single value can be compared; use value(…) or count(…)")
	case e.op == "call" && e.fn.result != valueResult:
		return fmt.Errorf("%s() gives true or false and is not compared", e.fn.name)
	case e.op == "query", e.op == "literal", e.op == "call":
		return nil
	}
	return fmt.Errorf("a condition cannot be compared")
}

// singular says whether the query leads to one node at most.
func (q *Query) singular() bool {
	for _, s := range q.segments {
		if s.deep || len(s.selectors) != 1 || s.selectors[0].kind > selIndex {
			return false
		}
	}
	return true
}

func (p *parser) or() (expr, error)  { return p.chain("||", p.and) }
func (p *parser) and() (expr, error) { return p.chain("&&", p.basic) }

// chain reads operands with one operator between them.
func (p *parser) chain(op string, operand func() (expr, error)) (expr, error) {
	first, err := operand()
	if err != nil {
		return first, err
	}
	all := []expr{first}
	for p.space(); p.take(op); p.space() {
		p.space()
		next, err := operand()
		if err != nil {
			return next, err
		}
		all = append(all, next)
	}
	if len(all) == 1 {
		return first, nil
	}
	for _, e := range all {
		if err := e.test(); err != nil {
			return e, err
		}
	}
	return expr{op: op, args: all}, nil
}

// basic reads a negation, parentheses, a comparison or an existence test.
func (p *parser) basic() (expr, error) {
	if p.depth++; p.depth > maxNesting {
		return expr{}, fmt.Errorf("nested more than %d deep", maxNesting)
	}
	defer func() { p.depth-- }()
	p.space()
	if p.peek() == '!' && !strings.HasPrefix(p.s[p.pos:], "!=") {
		p.pos++
		e, err := p.basic()
		if err == nil {
			err = e.test()
		}
		return expr{op: "!", args: []expr{e}}, err
	}
	if p.take("(") {
		e, err := p.or()
		p.space()
		if err == nil && !p.take(")") {
			err = fmt.Errorf(") is expected")
		}
		if err == nil {
			err = e.test()
		}
		return e, err
	}
	return p.comparison()
}

func (p *parser) comparison() (expr, error) {
	left, err := p.operand()
	if err != nil {
		return left, err
	}
	p.space()
	for _, op := range []string{"==", "!=", "<=", ">=", "<", ">"} {
		if !p.take(op) {
			continue
		}
		p.space()
		right, err := p.operand()
		for _, e := range []expr{left, right} {
			if err == nil {
				err = e.comparable()
			}
		}
		return expr{op: op, args: []expr{left, right}}, err
	}
	if p.peek() == '=' {
		return left, fmt.Errorf("equality is written ==")
	}
	return left, nil
}

// operand reads a literal, a path or a function call.
func (p *parser) operand() (expr, error) {
	switch c := p.peek(); c {
	case '@', '$':
		p.pos++
		q, err := p.path()
		if err != nil {
			return expr{}, err
		}
		q.relative = c == '@'
		return expr{op: "query", query: q}, nil
	case '\'', '"':
		s, err := p.quoted()
		return expr{op: "literal", value: s}, err
	}
	if n := numberRE.FindString(p.s[p.pos:]); n != "" {
		p.pos += len(n)
		return expr{op: "literal", value: json.Number(n)}, nil
	}
	name, err := p.memberName()
	if err != nil {
		return expr{}, fmt.Errorf("a path that starts with @ or $, a literal or a function is expected")
	}
	switch name {
	case "true", "false":
		return expr{op: "literal", value: name == "true"}, nil
	case "null":
		return expr{op: "literal"}, nil
	}
	return p.call(name)
}

func (p *parser) call(name string) (expr, error) {
	fn := functionNamed(name)
	if fn == nil {
		return expr{}, fmt.Errorf("there is no function %s; there are length, count, match, search, value", name)
	}
	if !p.take("(") {
		return expr{}, fmt.Errorf("( is expected after %s", name)
	}
	e := expr{op: "call", fn: fn}
	for p.space(); !p.take(")"); p.space() {
		if len(e.args) > 0 && !p.take(",") {
			return e, fmt.Errorf(", or ) is expected")
		}
		p.space()
		arg, err := p.operand()
		if err != nil {
			return e, err
		}
		e.args = append(e.args, arg)
	}
	return e, fn.accept(e.args)
}
