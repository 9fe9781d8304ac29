package schema

import (
	"encoding/json"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// Parse brings the argument text of a call, as a model wrote it, to canonical,
// validated arguments.
//
// No text, white space and null mean that there are no arguments, which is {} and is
// validated. Anything else must be exactly one complete JSON object: a text that is
// malformed, cut off or holds several values is an error and never repaired.
//
// A value whose type its schema does not allow is read as one it does, where exactly
// one reading exists: a string that is a number, true, false, or a JSON list or
// object. Defaults are filled in where a property is left out, if they are valid
// themselves. What is not valid then is read once more, see repair.go. The result is
// sorted, and valid.
func (s *Schema) Parse(arguments string) (json.RawMessage, error) {
	v, err := object(arguments)
	if err != nil {
		return nil, err
	}
	f := fitter{defaults: true, trials: maxTrials}
	fitted := f.run(s, v)
	err = s.check(fitted)
	if err != nil && f.filled {
		fitted, err = s.withoutDefaults(arguments)
	}
	if err != nil {
		repaired, ok := s.repaired(arguments)
		if !ok {
			return nil, err
		}
		fitted = repaired
	}
	return encode(fitted, len(arguments)+32), nil
}

// run fits v unless that would take too long, in which case validation says so.
func (f *fitter) run(s *Schema, v any) any {
	if f.costly = s.costly; f.costly && s.affordable(v) != nil {
		return v
	}
	return f.fit(s.plan, v)
}

// withoutDefaults is for schemas in which a default contradicts what was given, for
// example alternatives of which one has a default.
func (s *Schema) withoutDefaults(arguments string) (any, error) {
	v, err := object(arguments)
	if err != nil {
		return nil, err
	}
	v = newFitter(false).run(s, v)
	return v, s.check(v)
}

// repaired reads arguments that are not valid with more good will.
func (s *Schema) repaired(arguments string) (any, bool) {
	v, err := object(arguments)
	if err != nil {
		return nil, false
	}
	f := fitter{defaults: true, trials: maxTrials, repair: true}
	v = f.run(s, v)
	return v, s.check(v) == nil
}

// object decodes an argument text.
func object(arguments string) (any, error) {
	if blank(arguments) {
		return map[string]any{}, nil
	}
	v, err := decode(arguments, argumentBounds)
	if err != nil {
		return nil, syntaxFault(arguments, err)
	}
	if _, ok := v.(map[string]any); !ok {
		return nil, fault.New(fault.Invalid, "the arguments must be one JSON object, got %s", typeName(v))
	}
	return v, nil
}

// blank says that no arguments were given.
func blank(arguments string) bool {
	const space = " \t\r\n"
	rest := strings.TrimLeft(arguments, space)
	return rest == "" || strings.TrimRight(rest, space) == "null"
}

func syntaxFault(arguments string, err *syntaxError) error {
	switch {
	case err.cut:
		return fault.New(fault.Invalid, "the arguments are cut off: %s; nothing was run; send the complete JSON object again", err.what)
	case err.extra && strings.HasPrefix(arguments[err.offset:], "{"):
		return fault.New(fault.Invalid, "the arguments hold more than one JSON object (the second begins at byte %d); nothing was run; make one call for each", err.offset)
	}
	return err.fault("the arguments")
}
