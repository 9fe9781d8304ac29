package result

import (
	"fmt"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// walk finds the values that a path leads to.
type walk struct {
	*scanner
	steps []step
	at    trail
	// found is called at each value; false ends the walk.
	found func() bool
	done  bool
	many  bool // a step before was for many: what some do not have is no error
	name  []byte
}

// run walks from the value that is next.
func (w *walk) run() error {
	if err := w.follow(0); err != nil {
		return err
	}
	return w.err
}

// follow takes the steps from i on. It leaves the scanner anywhere.
func (w *walk) follow(i int) error {
	if i == len(w.steps) {
		w.done = !w.found()
		return nil
	}
	switch s, typ := w.steps[i], w.typ(); {
	case typ == "object" && s.kind == member:
		return w.member(i)
	case typ == "object" && s.kind == every:
		return w.each(i, func(int) bool { return true })
	case typ == "array" && s.kind != member:
		return w.elements(i)
	default:
		return w.wrong(i, fmt.Sprintf("is %s, which has no %s", article(typ), wanted(s)))
	}
}

func article(typ string) string {
	switch typ {
	case "object", "array":
		return "an " + typ
	case "null":
		return typ
	}
	return "a " + typ
}

func wanted(s step) string {
	switch s.kind {
	case member:
		return "members"
	case index, slice:
		return "items"
	case every:
	}
	return "items or members"
}

// wrong says that the path ends at step i.
func (w *walk) wrong(i int, what string) error {
	if w.many || w.err != nil {
		return nil
	}
	return fault.New(fault.Invalid, "the path is wrong at %q: %s %s", fault.Cut(w.steps[i].text, 80), w.at, what)
}

// below follows the rest of the path from the value that is next, and comes back to after
// that value.
func (w *walk) below(i int, at any) error {
	start := w.offset()
	w.at = append(w.at, at)
	err := w.follow(i + 1)
	w.at = w.at[:len(w.at)-1]
	if err != nil || w.done {
		return err
	}
	w.seek(start)
	w.skip()
	return w.err
}

func (w *walk) member(part int) error {
	want, names := w.steps[part].name, []string{}
	for w.i++; w.next(); w.skip() {
		w.name = w.scanner.name(w.name)
		if string(w.name) == want {
			return w.below(part, want)
		}
		if len(names) < maxNames {
			names = append(names, fault.Cut(strings.ToValidUTF8(string(w.name), "\uFFFD"), 40))
		} else if len(names) == maxNames {
			names = append(names, "…")
		}
	}
	if len(names) == 0 {
		return w.wrong(part, "is an object without members")
	}
	return w.wrong(part, fmt.Sprintf("is an object without a member %q; it has %s", fault.Cut(want, 80), strings.Join(names, ", ")))
}

// elements follows the items of an array that the step is for.
func (w *walk) elements(i int) error {
	s := w.steps[i]
	from, to, total := s.from, s.to, -1
	if s.kind == index {
		to = from + 1
	}
	if from < 0 || (s.kind == slice && !s.open && to < 0) {
		start := w.offset()
		total = w.count()
		w.seek(start)
		if from < 0 {
			if from += total; s.kind == index {
				to = from + 1
			}
		}
		if s.kind == slice && !s.open && to < 0 {
			to += total
		}
	}
	switch s.kind {
	case every:
		return w.each(i, func(int) bool { return true })
	case slice:
		return w.each(i, func(n int) bool { return n >= from && (s.open || n < to) })
	case index, member:
	}
	hit := false
	n, err := w.items(i, func(n int) bool { hit = hit || n == from; return n == from }, from)
	if err != nil || hit {
		return err
	}
	return w.wrong(i, fmt.Sprintf("is an array of %d items", max(n, total)))
}

// each follows all items or members that are wanted.
func (w *walk) each(i int, wanted func(n int) bool) error {
	before := w.many
	w.many = true
	_, err := w.items(i, wanted, -1)
	w.many = before
	return err
}

// items follows the items or members that are wanted, up to the one with the number last
// if it is not negative, and says how many there were.
func (w *walk) items(i int, wanted func(n int) bool, last int) (n int, err error) {
	named := w.peek() == '{'
	for w.i++; w.next(); n++ {
		if named {
			w.name = w.scanner.name(w.name)
		}
		if !wanted(n) {
			w.skip()
			continue
		}
		var at any = n
		if named {
			at = string(w.name)
		}
		if err := w.below(i, at); err != nil || w.done || n == last {
			return n, err
		}
	}
	return n, w.err
}
