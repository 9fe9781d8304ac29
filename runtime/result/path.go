package result

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

const (
	maxPath  = 2000 // bytes
	maxSteps = 64
)

// step is one part of a path.
type step struct {
	kind     stepKind
	name     string
	from, to int  // an index is from; a slice goes up to, and without, to
	open     bool // a slice without an end
	text     string
}

type stepKind int

const (
	member stepKind = iota
	index
	slice
	every
)

// many says that the step leads to any number of values.
func (s step) many() bool { return s.kind == slice || s.kind == every }

// parsePath reads $.a.b[3]['x y'][-1][2:5][*]; the $ may be left out.
func parsePath(text string) ([]step, error) {
	if len(text) > maxPath {
		return nil, fault.New(fault.Invalid, "the path has %d bytes, and may have %d", len(text), maxPath)
	}
	rest := strings.TrimPrefix(strings.TrimSpace(text), "$")
	if rest != "" && rest[0] != '.' && rest[0] != '[' {
		rest = "." + rest
	}
	var steps []step
	for rest != "" {
		s, n, err := parseStep(rest)
		if err != nil {
			return nil, fault.New(fault.Invalid, "the path %q is wrong at %q: %s", fault.Cut(text, 200), fault.Cut(rest, 40), err)
		}
		s.text, rest = rest[:n], rest[n:]
		if steps = append(steps, s); len(steps) > maxSteps {
			return nil, fault.New(fault.Invalid, "the path has more than %d parts", maxSteps)
		}
	}
	return steps, nil
}

const grammar = "a part is .name, ['name'], [3], [-1] (from the end), [2:5] or [*]"

// parseStep reads the first part of a path, n bytes long.
func parseStep(text string) (s step, n int, err error) {
	if text[0] == '.' {
		n = len(text)
		if end := strings.IndexAny(text[1:], ".["); end >= 0 {
			n = end + 1
		}
		switch name := text[1:n]; name {
		case "":
			return step{}, 0, fmt.Errorf("a name is missing; %s", grammar)
		case "*":
			return step{kind: every}, n, nil
		default:
			return step{kind: member, name: name}, n, nil
		}
	}
	if strings.HasPrefix(text, "['") || strings.HasPrefix(text, `["`) {
		return quoted(text)
	}
	inside, _, ok := strings.Cut(text[1:], "]")
	if !ok {
		return step{}, 0, fmt.Errorf("a bracket is not closed; %s", grammar)
	}
	s, err = bracket(strings.TrimSpace(inside))
	return s, len(inside) + 2, err
}

// quoted reads ['name'] or ["name"]; a backslash takes the next byte as it is.
func quoted(text string) (step, int, error) {
	var name strings.Builder
	for i := 2; i < len(text); i++ {
		switch c := text[i]; {
		case c == text[1] && strings.HasPrefix(text[i+1:], "]"):
			return step{kind: member, name: name.String()}, i + 2, nil
		case c == text[1]:
			return step{}, 0, fmt.Errorf("a ] must follow the name; %s", grammar)
		case c == '\\' && i+1 < len(text):
			i++
			name.WriteByte(text[i])
		default:
			name.WriteByte(c)
		}
	}
	return step{}, 0, fmt.Errorf("the name is not closed; %s", grammar)
}

// bracket is what stands in [ ] without quotes.
func bracket(inside string) (s step, err error) {
	if inside == "*" {
		return step{kind: every}, nil
	}
	from, to, isSlice := strings.Cut(inside, ":")
	if !isSlice {
		s.kind = index
		s.from, err = number(inside)
		return s, err
	}
	s.kind, s.open = slice, strings.TrimSpace(to) == ""
	if strings.TrimSpace(from) != "" {
		if s.from, err = number(from); err != nil {
			return s, err
		}
	}
	if !s.open {
		s.to, err = number(to)
	}
	return s, err
}

func number(text string) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return 0, fmt.Errorf("%q is no index; %s; a name in brackets needs quotes", text, grammar)
	}
	return n, nil
}

// trail is a place in a document: names (string) and indexes (int).
type trail []any

const maxTrail = 200

// String writes the place as a path, cut if it is long.
func (t trail) String() string {
	var b strings.Builder
	b.WriteByte('$')
	for _, at := range t {
		switch at := at.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", at)
		case string:
			b.WriteString(nameStep(at))
		}
		if b.Len() > maxTrail {
			return fault.Cut(b.String(), maxTrail)
		}
	}
	return b.String()
}

// nameStep is the part of a path that leads to a member.
func nameStep(name string) string {
	plain := name != "" && strings.IndexFunc(name, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) < 0
	if plain {
		return "." + name
	}
	name = strings.ToValidUTF8(name, "\uFFFD")
	return "['" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(name) + "']"
}
