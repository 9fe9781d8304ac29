package lower

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// folded takes combinators off the root: what all branches of allOf say is merged, and of
// anyOf and oneOf the properties of all branches remain, with what each of them asks for in
// words. Conditions that cannot be said without are told.
func (l *lowering) folded(s map[string]any) map[string]any {
	for range maxDepth { // branches may have combinators of their own
		switch {
		case isList(s["allOf"]):
			s = l.all(s)
		case isList(s["anyOf"]):
			s = l.any(s, "anyOf", "At least one of these sets of arguments")
		case isList(s["oneOf"]):
			s = l.any(s, "oneOf", "Exactly one of these sets of arguments")
		default:
			return l.unconditional(s)
		}
	}
	for _, w := range []string{"allOf", "anyOf", "oneOf"} {
		delete(s, w)
	}
	l.changed("combinators nested too deep at the root: left out")
	return l.unconditional(s)
}

func isList(v any) bool { _, ok := v.([]any); return ok }

// unconditional leaves out what constrains the object as a whole.
func (l *lowering) unconditional(s map[string]any) map[string]any {
	for _, w := range []string{"not", "if", "then", "else", "enum", "const", "dependentRequired", "dependentSchemas", "dependencies", "propertyNames", "unevaluatedProperties"} {
		v, ok := s[w]
		if !ok {
			continue
		}
		delete(s, w)
		l.changed("%s at the root: told in the description", w)
		if w != "then" && w != "else" && w != "unevaluatedProperties" {
			l.note("The arguments must also satisfy %s: %s.", w, inWords(v))
		}
	}
	return s
}

// all merges the branches of allOf into the schema.
func (l *lowering) all(s map[string]any) map[string]any {
	branches, _ := s["allOf"].([]any)
	delete(s, "allOf")
	l.changed("allOf at the root: merged")
	for _, b := range branches {
		branch, ok := b.(map[string]any)
		if !ok {
			continue
		}
		l.merge(s, l.resolved(branch, 8))
	}
	return s
}

// merge adds what a branch demands as well. What two say of one property both hold; of what
// cannot be merged less is said.
func (l *lowering) merge(s, branch map[string]any) {
	for _, k := range slices.Sorted(maps.Keys(branch)) {
		v := branch[k]
		have, both := s[k]
		switch {
		case k == "properties":
			s[k] = mergedProperties(asMap(have), asMap(v))
		case k == "required":
			s[k] = union(asList(have), asList(v))
		case k == "additionalProperties":
			// A branch that is closed knows only its own names: it closes nothing here.
			if !both && len(asMap(s["properties"])) == 0 {
				s[k] = v
			} else if !reflect.DeepEqual(have, v) {
				delete(s, k)
			}
		case k == "allOf" || k == "anyOf" || k == "oneOf":
			s[k] = append(slices.Clone(asList(have)), asList(v)...)
			if both && k != "allOf" {
				delete(s, k) // two choices at once: neither can be said alone
				l.note("The arguments must also satisfy %s: %s.", k, inWords(v))
			}
		case !both:
			s[k] = v
		}
	}
}

func mergedProperties(a, b map[string]any) map[string]any {
	out := maps.Clone(a)
	if out == nil {
		out = map[string]any{}
	}
	for name, v := range b {
		if have, ok := out[name]; ok && !reflect.DeepEqual(have, v) {
			v = map[string]any{"allOf": []any{have, v}}
		}
		out[name] = v
	}
	return out
}

// any makes one object of the branches of a choice.
func (l *lowering) any(s map[string]any, word, told string) map[string]any {
	branches := l.objects(asList(s[word]))
	delete(s, word)
	l.changed("%s at the root: its properties together", word)
	var forms []string
	var required []any
	names := map[string]bool{}
	for i, b := range branches {
		for name := range asMap(b["properties"]) {
			names[name] = true
		}
		if i == 0 {
			required = asList(b["required"])
		} else {
			required = intersection(required, asList(b["required"]))
		}
		forms = append(forms, formOf(b))
	}
	if len(forms) > 0 {
		l.note("%s: %s.", told, strings.Join(forms, "; "))
	}
	own := maps.Clone(asMap(s["properties"]))
	if own == nil {
		own = map[string]any{}
	}
	for name := range names {
		if _, ok := own[name]; !ok { // else what holds for all branches is said already
			own[name] = inAny(branches, name)
		}
	}
	s["properties"] = own
	if all := union(asList(s["required"]), required); len(all) > 0 {
		s["required"] = all
	}
	return s
}

// objects are the branches that arguments can satisfy. One that is not known in detail is
// an object of anything.
func (l *lowering) objects(branches []any) []map[string]any {
	var out []map[string]any
	for _, b := range branches {
		branch, ok := b.(map[string]any)
		if !ok {
			if b == true {
				out = append(out, map[string]any{})
			}
			continue
		}
		branch = l.resolved(branch, 8)
		if t, has := branch["type"].(string); has && t != "object" {
			continue
		}
		if isList(branch["allOf"]) || isList(branch["anyOf"]) || isList(branch["oneOf"]) || branch["$ref"] != nil {
			branch = map[string]any{}
		}
		out = append(out, branch)
	}
	return out
}

// inAny is what a property may be in any of the branches. Where one that takes other names
// does not declare it, it may be anything there.
func inAny(branches []map[string]any, name string) any {
	var distinct []any
	free := false
	for _, b := range branches {
		v, ok := asMap(b["properties"])[name]
		switch {
		case !ok && b["additionalProperties"] != false:
			free = true
		case ok && !slices.ContainsFunc(distinct, func(o any) bool { return reflect.DeepEqual(o, v) }):
			distinct = append(distinct, v)
		}
	}
	switch {
	case free:
		return described(distinct)
	case len(distinct) == 1:
		return distinct[0]
	}
	return map[string]any{"anyOf": distinct}
}

// described says what a value is for, and of what type it usually is, and demands nothing.
func described(usual []any) map[string]any {
	out := map[string]any{}
	if len(usual) != 1 {
		return out
	}
	v := asMap(usual[0])
	text, _ := v["description"].(string)
	if t, ok := v["type"].(string); ok {
		text = strings.TrimSpace(text + " (" + t + ")")
	}
	if text != "" {
		out["description"] = text
	}
	return out
}

// formOf is what a branch asks for, in words.
func formOf(branch map[string]any) string {
	names := []string{}
	required := asList(branch["required"])
	for _, n := range slices.Sorted(maps.Keys(asMap(branch["properties"]))) {
		if slices.Contains(required, any(n)) {
			names = append(names, n)
		} else {
			names = append(names, n+" (optional)")
		}
	}
	for _, r := range required {
		if n, ok := r.(string); ok && asMap(branch["properties"])[n] == nil {
			names = append(names, n)
		}
	}
	if len(names) == 0 {
		return "no particular ones"
	}
	return "{" + strings.Join(names, ", ") + "}"
}

func asMap(v any) map[string]any { m, _ := v.(map[string]any); return m }
func asList(v any) []any         { l, _ := v.([]any); return l }

func union(a, b []any) []any {
	out := slices.Clone(a)
	for _, v := range b {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

func intersection(a, b []any) []any {
	return slices.DeleteFunc(slices.Clone(a), func(v any) bool { return !slices.Contains(b, v) })
}

// inWords is a schema as short as it can be told.
func inWords(v any) string {
	b, err := encode(v)
	if err != nil {
		return "a condition"
	}
	if len(b) > 200 {
		return string(b[:200]) + "…"
	}
	return string(b)
}
