package main

import (
	"encoding/json"
	"errors"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Node is a value and where it was found.
type Node struct {
	Value any
	up    *Node
	key   string // of an object's member
	index int    // of an array's element; -1 for a member
}

// Path is the normalized path: $['a'][0]. One that is longer than most bytes is cut in
// front, and still longer.
func (n *Node) Path(most int) string {
	var parts []string
	for length := 0; n.up != nil && length <= most; n = n.up {
		part := "[" + strconv.Itoa(n.index) + "]"
		if n.index < 0 {
			quoted := string(appendString(nil, n.key))
			part = strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
			part = "['" + strings.ReplaceAll(part, "'", `\'`) + "']"
		}
		parts = append(parts, part)
		length += len(part)
	}
	parts = append(parts, "$")
	slices.Reverse(parts)
	return strings.Join(parts, "")
}

// maxVisits bounds the work of a query, in values that are looked at: nested .. visits some
// many times, and a filter compares whole values.
const maxVisits = 500_000

// charsPerVisit is how much text counts for as much as a value.
const charsPerVisit = 64

var errTooMany = errors.New("the query visits more than 500,000 values; make it more specific")

// evaluation is one run of a query.
type evaluation struct {
	root    Node
	visits  int
	regexps map[string]*regexp.Regexp // by pattern; nil for what is none
}

// charge counts work.
func (ev *evaluation) charge(visits int) error {
	if ev.visits += visits; ev.visits > maxVisits {
		return errTooMany
	}
	return nil
}

// Select gives the nodes that the query leads to, in the order of the document; members
// of an object in the order of their names.
func (q *Query) Select(root any) ([]Node, error) {
	ev := &evaluation{root: Node{Value: root, index: -1}, regexps: map[string]*regexp.Regexp{}}
	return ev.query(q, &ev.root)
}

func (ev *evaluation) query(q *Query, from *Node) ([]Node, error) {
	nodes := []Node{*from}
	for _, seg := range q.segments {
		var next []Node
		for i := range nodes {
			if err := ev.segment(seg, &nodes[i], &next); err != nil {
				return nil, err
			}
		}
		nodes = next
	}
	return nodes, nil
}

func (ev *evaluation) segment(seg segment, n *Node, out *[]Node) error {
	for _, s := range seg.selectors {
		before := len(*out)
		if err := ev.selector(s, n, out); err != nil {
			return err
		}
		if err := ev.charge(1 + len(*out) - before); err != nil {
			return err
		}
	}
	if !seg.deep {
		return nil
	}
	for _, c := range children(n) {
		if err := ev.segment(seg, &c, out); err != nil {
			return err
		}
	}
	return nil
}

func (ev *evaluation) selector(s selector, n *Node, out *[]Node) error {
	switch s.kind {
	case selName:
		if m, ok := n.Value.(map[string]any); ok {
			if v, ok := m[s.name]; ok {
				*out = append(*out, Node{Value: v, up: n, key: s.name, index: -1})
			}
		}
	case selIndex:
		if a, ok := n.Value.([]any); ok {
			i := s.index
			if i < 0 {
				i += len(a)
			}
			if i >= 0 && i < len(a) {
				*out = append(*out, Node{Value: a[i], up: n, index: i})
			}
		}
	case selSlice:
		if a, ok := n.Value.([]any); ok {
			for _, i := range s.indexes(len(a)) {
				*out = append(*out, Node{Value: a[i], up: n, index: i})
			}
		}
	case selWildcard:
		all := children(n)
		*out = append(*out, all...)
		return ev.charge(len(all)) // those it took to list them; the caller counts them once more
	case selFilter:
		all := children(n)
		if err := ev.charge(len(all)); err != nil {
			return err
		}
		for _, c := range all {
			ok, err := ev.holds(s.filter, &c)
			if err != nil {
				return err
			}
			if ok {
				*out = append(*out, c)
			}
		}
	}
	return nil
}

func children(n *Node) []Node {
	switch v := n.Value.(type) {
	case []any:
		out := make([]Node, len(v))
		for i := range v {
			out[i] = Node{Value: v[i], up: n, index: i}
		}
		return out
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		out := make([]Node, len(keys))
		for i, k := range keys {
			out[i] = Node{Value: v[k], up: n, key: k, index: -1}
		}
		return out
	}
	return nil
}

// indexes lists what start:end:step selects of n elements.
func (s selector) indexes(n int) []int {
	step := 1
	if s.step != nil {
		step = *s.step
	}
	if step == 0 {
		return nil
	}
	bound := func(v *int, def, lo, hi int) int {
		if v == nil {
			return def
		}
		x := *v
		if x < 0 {
			x += n
		}
		return max(lo, min(hi, x))
	}
	var out []int
	if step > 0 {
		for i, end := bound(s.start, 0, 0, n), bound(s.end, n, 0, n); i < end; i += step {
			out = append(out, i)
		}
		return out
	}
	for i, end := bound(s.start, n-1, -1, n-1), bound(s.end, -1, -1, n-1); i > end; i += step {
		out = append(out, i)
	}
	return out
}

// holds evaluates a filter as a condition.
func (ev *evaluation) holds(e expr, at *Node) (bool, error) {
	switch e.op {
	case "||", "&&":
		for _, a := range e.args {
			ok, err := ev.holds(a, at)
			if err != nil || ok == (e.op == "||") {
				return ok, err
			}
		}
		return e.op == "&&", nil
	case "!":
		ok, err := ev.holds(e.args[0], at)
		return !ok, err
	case "query":
		nodes, err := ev.nodes(e, at)
		return len(nodes) > 0, err
	case "call":
		v, err := ev.value(e, at)
		return v == true, err
	}
	left, err := ev.value(e.args[0], at)
	if err != nil {
		return false, err
	}
	right, err := ev.value(e.args[1], at)
	if err != nil {
		return false, err
	}
	return ev.compare(e.op, left, right)
}

func (ev *evaluation) nodes(e expr, at *Node) ([]Node, error) {
	if e.query.relative {
		return ev.query(e.query, at)
	}
	return ev.query(e.query, &ev.root)
}

func (ev *evaluation) value(e expr, at *Node) (any, error) {
	switch {
	case e.op == "literal":
		return e.value, nil
	case e.op == "query":
		nodes, err := ev.nodes(e, at)
		return single(nodes), err
	case e.fn.nodes:
		nodes, err := ev.nodes(e.args[0], at)
		if err != nil {
			return nil, err
		}
		return e.fn.onList(nodes), nil
	}
	args := make([]any, len(e.args))
	for i, a := range e.args {
		v, err := ev.value(a, at)
		if err != nil {
			return nil, err
		}
		args[i] = v
	}
	return e.fn.do(ev, args)
}

func number(n int) any { return json.Number(strconv.Itoa(n)) }

// compare compares as RFC 9535 has it: numbers and strings have an order, everything else
// is equal or not.
func (ev *evaluation) compare(op string, a, b any) (bool, error) {
	equal := ev.same(a, b)
	if err := ev.charge(0); err != nil {
		return false, err
	}
	switch op {
	case "==":
		return equal, nil
	case "!=":
		return !equal, nil
	}
	c, ordered := order(a, b)
	switch op {
	case "<":
		return ordered && c < 0, nil
	case ">":
		return ordered && c > 0, nil
	case "<=":
		return ordered && c < 0 || equal, nil
	}
	return ordered && c > 0 || equal, nil
}

func (ev *evaluation) match(a []any) (any, error)  { return ev.matches(a, true) }
func (ev *evaluation) search(a []any) (any, error) { return ev.matches(a, false) }

func (ev *evaluation) matches(a []any, whole bool) (any, error) {
	s, ok := a[0].(string)
	pattern, okPattern := a[1].(string)
	if !ok || !okPattern || len(pattern) > maxQuery {
		return false, nil
	}
	if err := ev.charge(len(s) * (1 + len(pattern)/charsPerVisit) / charsPerVisit); err != nil {
		return nil, err
	}
	key := strconv.FormatBool(whole) + pattern
	re, known := ev.regexps[key]
	if !known {
		if err := ev.charge(10 + len(pattern)); err != nil { // patterns may be in the data
			return nil, err
		}
		re, _ = compileRegexp(pattern, whole) // nil for what is none, and matches nothing
		ev.regexps[key] = re
	}
	return re != nil && re.MatchString(s), nil
}

func order(a, b any) (int, bool) {
	if x, ok := a.(string); ok {
		y, ok := b.(string)
		return strings.Compare(x, y), ok
	}
	x, ok := rational(a)
	if !ok {
		return 0, false
	}
	y, ok := rational(b)
	if !ok {
		return 0, false
	}
	return x.Cmp(y), true
}

// maxDigits bounds the numbers that are compared by value; longer ones are by their text.
const maxDigits = 400

// rational is a number exactly, unless it or its exponent is absurd.
func rational(v any) (*big.Rat, bool) {
	n, ok := v.(json.Number)
	if !ok || len(n) > maxDigits {
		return nil, false
	}
	if i := strings.IndexAny(string(n), "eE"); i >= 0 {
		if e, err := strconv.Atoi(string(n[i+1:])); err != nil || e > maxDigits || e < -maxDigits {
			return nil, false
		}
	}
	return new(big.Rat).SetString(string(n))
}

// same says whether values are equal. It counts what it looks at, and gives up, with false,
// when that is too much: the next charge is an error then.
func (ev *evaluation) same(a, b any) bool {
	if ev.charge(1) != nil {
		return false
	}
	if x, ok := rational(a); ok {
		y, ok := rational(b)
		return ok && x.Cmp(y) == 0
	}
	switch x := a.(type) {
	case string:
		y, ok := b.(string)
		return ok && len(x) == len(y) && ev.charge(len(x)/charsPerVisit) == nil && x == y
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, ev.same)
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for k := range x {
			if v, ok := y[k]; !ok || !ev.same(x[k], v) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(a, b)
}
