package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// Condition is one test of a row.
type Condition struct {
	Column string `json:"column"`
	Op     string `json:"op"`
	Value  any    `json:"value"`
}

// compile makes the test of rows of t.
func (c Condition) compile(t *table) (func(row []string) bool, error) {
	k, err := t.column(c.Column)
	if err != nil {
		return nil, err
	}
	test, err := c.test()
	if err != nil {
		return nil, fmt.Errorf("where %s %s: %w", c.Column, c.Op, err)
	}
	return func(row []string) bool { return test(row[k]) }, nil
}

func (c Condition) test() (func(cell string) bool, error) {
	switch c.Op {
	case "empty":
		return func(s string) bool { return strings.TrimSpace(s) == "" }, nil
	case "not_empty":
		return func(s string) bool { return strings.TrimSpace(s) != "" }, nil
	case "in":
		return oneOf(c.Value)
	}
	v, err := text(c.Value)
	if err != nil {
		return nil, err
	}
	switch c.Op {
	case "contains":
		return func(s string) bool { return strings.Contains(s, v) }, nil
	case "starts_with":
		return func(s string) bool { return strings.HasPrefix(s, v) }, nil
	case "ends_with":
		return func(s string) bool { return strings.HasSuffix(s, v) }, nil
	case "matches":
		re, err := regexp.Compile(v)
		if err != nil {
			return nil, fmt.Errorf("%q is no regular expression", v)
		}
		return re.MatchString, nil
	}
	return ordering(c.Op, v)
}

// ordering compares as numbers if both are, else as texts; a text is neither less nor
// more than a number.
func ordering(op, v string) (func(cell string) bool, error) {
	holds, ok := map[string]func(c int) bool{
		"<": func(c int) bool { return c < 0 }, "<=": func(c int) bool { return c <= 0 },
		">": func(c int) bool { return c > 0 }, ">=": func(c int) bool { return c >= 0 },
		"=": func(c int) bool { return c == 0 }, "!=": func(c int) bool { return c != 0 },
	}[op]
	if !ok {
		return nil, fmt.Errorf("there is no such operator")
	}
	want, isNumber := numeric(v)
	return func(cell string) bool {
		if got, ok := numeric(cell); ok && isNumber {
			return holds(got.Cmp(want))
		} else if ok != isNumber {
			return op == "!="
		}
		return holds(strings.Compare(cell, v))
	}, nil
}

// oneOf compares as = does, with all of a list at once.
func oneOf(value any) (func(cell string) bool, error) {
	list, ok := value.([]any)
	if !ok {
		return nil, fmt.Errorf("the value must be a list")
	}
	wanted := make(map[string]bool, len(list))
	for _, x := range list {
		v, err := text(x)
		if err != nil {
			return nil, err
		}
		wanted[identity(v)] = true
	}
	return func(cell string) bool { return wanted[identity(cell)] }, nil
}

// identity is the same for cells that are equal: a number in lowest terms, or the text.
func identity(cell string) string {
	if n, ok := numeric(cell); ok {
		return "n" + n.RatString()
	}
	return "t" + cell
}

// text is a value as a cell would have it.
func text(v any) (string, error) {
	switch x := v.(type) {
	case string:
		return x, nil
	case json.Number:
		return x.String(), nil
	case bool:
		return fmt.Sprint(x), nil
	}
	return "", fmt.Errorf("a value is needed: a string, a number or true or false")
}
