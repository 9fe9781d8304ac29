package schema

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// lint looks for what strangers' schemas get wrong most often and says how to write
// it, since the meta-schema's own complaint explains nothing. Keywords whose value is
// data (enum, const, default, examples) are not looked into.
func lint(tree map[string]any) error {
	l := linter{old: isOld(tree)}
	l.schema("", tree)
	return l.err
}

// isOld says whether the schema declares a dialect in which the older spellings are
// right.
func isOld(tree map[string]any) bool {
	dialect, _ := tree["$schema"].(string)
	return dialect != "" && !strings.Contains(dialect, "2020-12")
}

type linter struct {
	old bool
	err error // the first finding
}

func (l *linter) report(at, format string, args ...any) {
	if l.err != nil {
		return
	}
	if at == "" {
		at = "its root"
	}
	l.err = fault.New(fault.Invalid, "the schema at "+at+": "+format, args...)
}

func (l *linter) schema(at string, v any) {
	m, ok := v.(map[string]any)
	if !ok || l.err != nil {
		return
	}
	l.ref(at, m)
	l.patterns(at, m)
	l.types(at, m)
	if !l.old {
		l.old2020(at, m)
	}
	l.below(at, m)
}

func (l *linter) ref(at string, m map[string]any) {
	for _, key := range [...]string{"$ref", "$dynamicRef", "$recursiveRef"} {
		ref, ok := m[key].(string)
		if !ok || strings.HasPrefix(ref, "#") {
			continue
		}
		if scheme, _, found := strings.Cut(ref, ":"); found && scheme != "urn" {
			l.report(at, "%q to %q: nothing outside the schema is read; copy the definition into \"$defs\" and refer to it as \"#/$defs/…\"", key, excerpt(ref))
		}
	}
}

// patterns compiles the patterns of m: the meta-schema's complaint would not say why.
func (l *linter) patterns(at string, m map[string]any) {
	if p, ok := m["pattern"].(string); ok {
		l.pattern(at+"/pattern", p)
	}
	if named, ok := m["patternProperties"].(map[string]any); ok {
		for _, p := range slices.Sorted(maps.Keys(named)) {
			l.pattern(at+"/patternProperties", p)
		}
	}
}

func (l *linter) pattern(at, p string) {
	if _, err := regexp.Compile(p); err != nil {
		l.report(at, "the pattern %q is not RE2 syntax, which has no lookahead, lookbehind or backreference", excerpt(p))
	}
}

func (l *linter) types(at string, m map[string]any) {
	switch t := m["type"].(type) {
	case string:
		l.typeWord(at, t)
	case []any:
		for _, one := range t {
			if word, ok := one.(string); ok {
				l.typeWord(at, word)
			}
		}
	}
}

func (l *linter) typeWord(at, word string) {
	const known = "null boolean object array number string integer"
	if slices.Contains(strings.Fields(known), word) {
		return
	}
	hint := map[string]string{
		"any": "leave \"type\" out", "dict": "write \"object\"", "map": "write \"object\"",
		"float": "write \"number\"", "double": "write \"number\"", "int": "write \"integer\"",
		"long": "write \"integer\"", "bool": "write \"boolean\"", "list": "write \"array\"",
		"tuple": "write \"array\"", "str": "write \"string\"", "none": "write \"null\"",
	}[strings.ToLower(word)]
	if hint == "" {
		hint = "the types are " + strings.ReplaceAll(known, " ", ", ")
	}
	l.report(at, "%q is not a JSON Schema type: %s", excerpt(word), hint)
}

// old2020 finds keywords whose older form 2020-12 refuses or ignores.
func (l *linter) old2020(at string, m map[string]any) {
	for _, key := range [...]string{"exclusiveMinimum", "exclusiveMaximum"} {
		if _, ok := m[key].(bool); ok {
			l.report(at, "%q with a boolean is draft-04; give the bound itself as a number, or declare \"$schema\": \"http://json-schema.org/draft-04/schema#\"", key)
		}
	}
	if _, ok := m["items"].([]any); ok {
		l.report(at, "\"items\" with a list is the tuple form of draft-07 and older; use \"prefixItems\", or declare \"$schema\": \"http://json-schema.org/draft-07/schema#\"")
	}
	if _, ok := m["required"].(bool); ok {
		l.report(at, "\"required\" with a boolean is draft-03; list the names of required properties in the \"required\" of the object")
	}
}

// below visits the subschemas of m.
func (l *linter) below(at string, m map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		next := at + "/" + key
		switch key {
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
			if named, ok := m[key].(map[string]any); ok {
				for _, name := range slices.Sorted(maps.Keys(named)) {
					l.schema(next+"/"+name, named[name])
				}
			}
		case "allOf", "anyOf", "oneOf", "prefixItems", "items":
			if list, ok := m[key].([]any); ok {
				for i, sub := range list {
					l.schema(next+"/"+strconv.Itoa(i), sub)
				}
				continue
			}
			l.schema(next, m[key])
		case "additionalProperties", "additionalItems", "unevaluatedProperties", "unevaluatedItems", "not", "if",
			"then", "else", "contains", "propertyNames", "contentSchema":
			l.schema(next, m[key])
		}
	}
}
