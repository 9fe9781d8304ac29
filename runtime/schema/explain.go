package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// maxFindings is how many faults one error names; the rest is counted.
const maxFindings = 8

// finding is one broken rule, at one place.
type finding struct {
	at   []string // path in the value
	text string
}

// explainer turns the library's errors about one value into findings.
type explainer struct {
	value any            // nil: unknown
	tree  map[string]any // the schema, for the names it allows
}

// explain says what is wrong with v.
func (s *Schema) explain(v any, err error) error {
	var verr *jsonschema.ValidationError
	if !errors.As(err, &verr) {
		return fault.Wrap(fault.Internal, err, "the schema could not be applied")
	}
	x := explainer{value: v, tree: s.tree}
	return fault.New(fault.Invalid, "%s", x.join(x.findings(verr)))
}

// findings is for errors of the meta-schema, whose value is not at hand.
func findings(verr *jsonschema.ValidationError) []finding {
	x := explainer{}
	return x.findings(verr)
}

func joinFindings(list []finding) string {
	x := explainer{}
	return x.join(list)
}

func (x *explainer) join(list []finding) string {
	lines := make([]string, 0, len(list))
	for _, f := range list {
		line := f.text
		if len(f.at) > 0 {
			line = x.path(f.at) + ": " + f.text
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	lines = slices.Compact(lines)
	if more := len(lines) - maxFindings; more > 0 {
		lines = append(lines[:maxFindings], fmt.Sprintf("and %d more", more))
	}
	return fault.Cut(strings.Join(lines, "; "), fault.MaxToolMessage)
}

// path renders a place in the value: items[2].name.
func (x *explainer) path(at []string) string {
	var b strings.Builder
	v := x.value
	for _, token := range at {
		switch here := v.(type) {
		case []any:
			b.WriteString("[" + token + "]")
			v = nil
			if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(here) {
				v = here[i]
			}
			continue
		case map[string]any:
			v = here[token]
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(excerpt(token))
	}
	return fault.Cut(b.String(), 200)
}

// at gives the part of the value a path leads to.
func (x *explainer) at(path []string) any {
	v := x.value
	for _, token := range path {
		switch here := v.(type) {
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(here) {
				return nil
			}
			v = here[i]
		case map[string]any:
			v = here[token]
		default:
			return nil
		}
	}
	return v
}

// findings flattens the tree of errors: what groups other errors is not shown itself.
func (x *explainer) findings(e *jsonschema.ValidationError) []finding {
	switch k := e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf, nil:
		return x.all(e.Causes)
	case *kind.AnyOf:
		return x.alternatives(e)
	case *kind.OneOf:
		if len(k.Subschemas) == 2 {
			return []finding{{e.InstanceLocation, fmt.Sprintf("fits more than one of the alternatives (numbers %d and %d) but must fit exactly one", k.Subschemas[0]+1, k.Subschemas[1]+1)}}
		}
		return x.alternatives(e)
	case *kind.Required:
		return each(e.InstanceLocation, k.Missing, func(string) string { return "required, but missing" })
	case *kind.AdditionalProperties:
		return x.unknown(e, k.Properties)
	case *kind.PropertyNames:
		return []finding{{e.InstanceLocation, fmt.Sprintf("the property name %q is not allowed", excerpt(k.Property))}}
	}
	return []finding{{e.InstanceLocation, x.rule(e)}}
}

func (x *explainer) all(causes []*jsonschema.ValidationError) []finding {
	var out []finding
	for _, c := range causes {
		out = append(out, x.findings(c)...)
	}
	return out
}

func each(at, names []string, text func(name string) string) []finding {
	out := make([]finding, 0, len(names))
	for _, name := range names {
		out = append(out, finding{append(slices.Clone(at), name), text(name)})
	}
	return out
}

// unknown explains properties that the schema does not have.
func (x *explainer) unknown(e *jsonschema.ValidationError, names []string) []finding {
	allowed := x.names(e.SchemaURL)
	given, _ := x.at(e.InstanceLocation).(map[string]any)
	return each(e.InstanceLocation, names, func(name string) string {
		free := slices.DeleteFunc(slices.Clone(allowed), func(a string) bool { _, ok := given[a]; return ok })
		if near, ok := nearest(name, free); ok {
			return fmt.Sprintf("not a property here. Did you mean %q?", near)
		}
		if len(allowed) == 0 {
			return "not a property here; none are allowed"
		}
		return "not a property here; allowed: " + list(allowed, 20)
	})
}

// names are the properties of the schema at a location.
func (x *explainer) names(url string) []string {
	m, _ := pointed(x.tree, fragment(url)).(map[string]any)
	properties, _ := m["properties"].(map[string]any)
	out := make([]string, 0, len(properties))
	for name := range properties {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// alternatives explains a value that fits no branch of a union: only types are wrong:
// the types; one branch has the right type: what is wrong there; else a short list.
func (x *explainer) alternatives(e *jsonschema.ValidationError) []finding {
	var wants []string
	var closer [][]finding
	for _, c := range e.Causes {
		if t, ok := typeOnly(c, len(e.InstanceLocation)); ok {
			wants = append(wants, t.Want...)
			continue
		}
		closer = append(closer, x.findings(c))
	}
	switch {
	case len(closer) == 0 && len(wants) > 0:
		slices.Sort(wants)
		return []finding{{e.InstanceLocation, x.wrongType(e.InstanceLocation, slices.Compact(wants))}}
	case len(closer) == 1:
		return closer[0]
	}
	texts := make([]string, 0, len(closer))
	for i, list := range closer {
		if i == 4 {
			texts = append(texts, fmt.Sprintf("and %d more", len(closer)-i))
			break
		}
		texts = append(texts, "("+strconv.Itoa(i+1)+") "+fault.Cut(x.join(list), 200))
	}
	return []finding{{e.InstanceLocation, "fits none of the alternatives: " + strings.Join(texts, " ")}}
}

// typeOnly says whether a branch failed because of the value's own type.
func typeOnly(e *jsonschema.ValidationError, depth int) (*kind.Type, bool) {
	for len(e.Causes) == 1 {
		e = e.Causes[0]
	}
	t, ok := e.ErrorKind.(*kind.Type)
	return t, ok && len(e.InstanceLocation) == depth
}

func (x *explainer) wrongType(at, want []string) string {
	text := "expected " + strings.Join(want, " or ")
	if x.value != nil {
		text += ", got " + show(x.at(at))
	}
	return text
}

// rule says which rule one error broke.
func (x *explainer) rule(e *jsonschema.ValidationError) string {
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		if x.value == nil {
			return "expected " + strings.Join(k.Want, " or ") + ", got " + k.Got
		}
		return x.wrongType(e.InstanceLocation, k.Want)
	case *kind.Enum:
		return x.oneOf(k)
	case *kind.Const:
		return fmt.Sprintf("must be %s, got %s", show(k.Want), show(k.Got))
	case *kind.Format:
		return fmt.Sprintf("%s is not a valid %s", show(k.Got), k.Want)
	case *kind.Pattern:
		return fmt.Sprintf("%s does not match the pattern %s", show(k.Got), excerpt(k.Want))
	case *kind.FalseSchema:
		return "must not be given"
	case *kind.Not:
		return "has a form that is excluded"
	case *kind.RefCycle:
		return "the schema refers to itself without end"
	case *kind.Dependency:
		return fmt.Sprintf("with %q also required: %s", k.Prop, list(k.Missing, 8))
	case *kind.DependentRequired:
		return fmt.Sprintf("with %q also required: %s", k.Prop, list(k.Missing, 8))
	}
	if text, ok := size(e.ErrorKind); ok {
		return text
	}
	return "breaks the rule " + strings.Join(e.ErrorKind.KeywordPath(), "/")
}

// size words the rules about counts, lengths and ranges.
func size(k jsonschema.ErrorKind) (string, bool) {
	switch k := k.(type) {
	case *kind.Minimum:
		return fmt.Sprintf("must be at least %s, got %s", decimal(k.Want), decimal(k.Got)), true
	case *kind.Maximum:
		return fmt.Sprintf("must be at most %s, got %s", decimal(k.Want), decimal(k.Got)), true
	case *kind.ExclusiveMinimum:
		return fmt.Sprintf("must be more than %s, got %s", decimal(k.Want), decimal(k.Got)), true
	case *kind.ExclusiveMaximum:
		return fmt.Sprintf("must be less than %s, got %s", decimal(k.Want), decimal(k.Got)), true
	case *kind.MultipleOf:
		return fmt.Sprintf("must be a multiple of %s, got %s", decimal(k.Want), decimal(k.Got)), true
	case *kind.MinLength:
		return fmt.Sprintf("must have at least %d characters, has %d", k.Want, k.Got), true
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %d characters, has %d", k.Want, k.Got), true
	case *kind.MinItems:
		return fmt.Sprintf("must have at least %d items, has %d", k.Want, k.Got), true
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %d items, has %d", k.Want, k.Got), true
	case *kind.AdditionalItems:
		return fmt.Sprintf("has %d items too many", k.Count), true
	case *kind.MinProperties:
		return fmt.Sprintf("must have at least %d properties, has %d", k.Want, k.Got), true
	case *kind.MaxProperties:
		return fmt.Sprintf("must have at most %d properties, has %d", k.Want, k.Got), true
	case *kind.UniqueItems:
		return fmt.Sprintf("items %d and %d are equal; all must differ", k.Duplicates[0], k.Duplicates[1]), true
	case *kind.Contains, *kind.MinContains:
		return "has too few items of the required form", true
	case *kind.MaxContains:
		return fmt.Sprintf("has more than %d items of the limited form", k.Want), true
	}
	return "", false
}

func (x *explainer) oneOf(k *kind.Enum) string {
	wants := make([]string, 0, len(k.Want))
	var words []string
	for _, w := range k.Want {
		wants = append(wants, show(w))
		if s, ok := w.(string); ok {
			words = append(words, s)
		}
	}
	text := fmt.Sprintf("must be one of %s, got %s", list(wants, 20), show(k.Got))
	if got, ok := k.Got.(string); ok {
		if near, ok := nearest(got, words); ok {
			text += fmt.Sprintf(". Did you mean %q?", near)
		}
	}
	return text
}

// show renders a value for a message: scalars by value, the rest by type.
func show(v any) string {
	switch x := v.(type) {
	case string:
		return "string " + strconv.Quote(excerpt(x))
	case json.Number:
		return "number " + excerpt(string(x))
	case bool:
		return strconv.FormatBool(x)
	}
	return typeName(v)
}

func decimal(r *big.Rat) string {
	if r.IsInt() {
		return excerpt(r.Num().String())
	}
	return strings.TrimRight(r.FloatString(12), "0")
}

// list joins at most n words and counts the rest.
func list(words []string, n int) string {
	if len(words) <= n {
		return strings.Join(words, ", ")
	}
	return strings.Join(words[:n], ", ") + fmt.Sprintf(" and %d more", len(words)-n)
}

// nearest finds the candidate a misspelt name was probably meant to be.
func nearest(name string, candidates []string) (string, bool) {
	for _, c := range Near(name, candidates, 1) {
		if _, ok := edits(name, c); ok {
			return c, true
		}
	}
	return "", false
}
