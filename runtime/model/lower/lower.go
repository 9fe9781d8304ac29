// Package lower rewrites the definition of a tool into what a provider takes.
//
// It is pure: a definition and a [Profile] give a definition, and what was changed in
// words. The declared schema stays what calls are validated against (schema, dispatch).
//
// # Invariants
//
// Lowering only widens: arguments that are valid under the declared schema are valid under
// the lowered one. What could be said no more is told in a description. The result is
// sorted, the same for the same definition, and is not changed when it is lowered again.
//
// # Errors
//
// A definition of which no form can be sent is fault.Invalid, with the reason.
package lower

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
)

// Profile is what a provider takes as the parameters of a tool.
type Profile struct {
	Name string
	// Keywords are all that may stand in a schema; nil: any.
	Keywords map[string]bool
	// Refs says that $ref and $defs are understood; else they are written out.
	Refs bool
	// TypeLists says that type may be a list.
	TypeLists bool
	// MaxBytes bounds a whole definition.
	MaxBytes int
}

// OpenAI is what OpenAI and its imitators take: an object at the root without combinators.
// Anything is allowed below, as a hint.
func OpenAI() Profile {
	return Profile{Name: "openai", Refs: true, TypeLists: true, MaxBytes: 256 << 10}
}

// Anthropic refuses combinators at the root as well, and takes everything else of 2020-12.
func Anthropic() Profile {
	return Profile{Name: "anthropic", Refs: true, TypeLists: true, MaxBytes: 256 << 10}
}

// Gemini takes the fields of its own message alone.
func Gemini() Profile {
	words := map[string]bool{}
	for _, w := range []string{
		"type", "description", "enum", "items", "properties", "required", "nullable", "format", "minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength",
		"pattern", "anyOf", "title", "minProperties", "maxProperties", "example", "default",
	} {
		words[w] = true
	}
	return Profile{Name: "gemini", Keywords: words, MaxBytes: 256 << 10}
}

// envelope is a definition as the wire of OpenAI has it.
type envelope struct {
	Function function `json:"function"`
	Type     string   `json:"type"`
}

type function struct {
	Description string          `json:"description"`
	Name        string          `json:"name"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      *bool           `json:"strict,omitempty"`
}

// maxDepth is how deep schemas that are written out in place of references may nest.
const maxDepth = 12

// Definition lowers d for a profile. changes is empty if nothing was changed; then d is
// given back as it is.
func Definition(d chat.Definition, p Profile) (sent chat.Definition, changes []string, err error) {
	var e envelope
	if err := json.Unmarshal(d.JSON, &e); err != nil {
		return d, nil, fault.Wrap(fault.Invalid, err, "the definition of tool %q is not one", d.Name)
	}
	var root any = map[string]any{"type": "object", "properties": map[string]any{}}
	if len(e.Function.Parameters) > 0 && string(e.Function.Parameters) != "null" {
		dec := json.NewDecoder(bytes.NewReader(e.Function.Parameters))
		dec.UseNumber()
		if err := dec.Decode(&root); err != nil {
			return d, nil, fault.Wrap(fault.Invalid, err, "the parameters of tool %q are not JSON", d.Name)
		}
	}
	l := &lowering{profile: p}
	lowered, err := l.root(root)
	if err != nil {
		return d, nil, fault.New(fault.Invalid, "%s", err)
	}
	if len(l.changes) > 0 || len(e.Function.Parameters) == 0 {
		if e.Function.Parameters, err = encode(lowered); err != nil {
			return d, nil, fault.Wrap(fault.Internal, err, "encoding the parameters of tool %q", d.Name)
		}
		e.Function.Description = withNotes(e.Function.Description, l.notes)
		e.Function.Strict = nil
		if d.JSON, err = encode(e); err != nil {
			return d, nil, fault.Wrap(fault.Internal, err, "encoding the definition of tool %q", d.Name)
		}
	}
	if len(d.JSON) > p.MaxBytes {
		return d, nil, fault.New(fault.Invalid, "it has %d bytes, and %s takes %d at most", len(d.JSON), p.Name, p.MaxBytes)
	}
	return d, l.changes, nil
}

func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// maxNotes bounds what is added to a description, in characters.
const maxNotes = 600

// withNotes tells a model what the schema could not say.
func withNotes(description string, notes []string) string {
	for i, n := range notes {
		text := " " + n
		if len(text) > maxNotes {
			text = " " + fault.Cut(n, maxNotes) + "…"
		}
		if i == 0 {
			text = "\n" + strings.TrimPrefix(text, " ")
		}
		description += text
	}
	return strings.TrimPrefix(description, "\n")
}

// lowering is one definition on its way.
type lowering struct {
	profile Profile
	defs    map[string]any
	changes []string
	notes   []string
}

func (l *lowering) changed(format string, args ...any) {
	if c := fmt.Sprintf(format, args...); !slices.Contains(l.changes, c) {
		l.changes = append(l.changes, c)
	}
}

func (l *lowering) note(format string, args ...any) {
	l.notes = append(l.notes, fmt.Sprintf(format, args...))
}

// root makes the schema an object without combinators at its top.
func (l *lowering) root(tree any) (map[string]any, error) {
	s, ok := tree.(map[string]any)
	if b, is := tree.(bool); is && b {
		l.changed("any arguments: an object that takes any")
		return map[string]any{"type": "object", "properties": map[string]any{}}, nil
	}
	if !ok {
		return nil, fmt.Errorf("its schema is not an object")
	}
	l.collectDefs(s)
	s = l.resolved(s, 8)
	s = l.folded(s)
	switch t := s["type"].(type) {
	case nil:
		s["type"] = "object"
		l.changed("the root has no type: object")
	case string:
		if t != "object" {
			return nil, fmt.Errorf("its arguments are of type %s, and every provider takes an object alone", t)
		}
	case []any:
		if !slices.Contains(t, any("object")) {
			return nil, fmt.Errorf("its arguments can be no object, and every provider takes an object alone")
		}
		s["type"] = "object"
		l.changed("the root has several types: object")
	}
	if _, ok := s["properties"].(map[string]any); !ok {
		s["properties"] = map[string]any{}
		l.changed("the root has no properties: none are declared")
	}
	for _, w := range []string{"$schema", "$id", "id"} {
		if _, ok := s[w]; ok {
			delete(s, w)
			l.changed("%s at the root: left out", w)
		}
	}
	out := l.schema(s, 0)
	if l.profile.Refs {
		l.keepDefs(out)
	}
	return out, nil
}

// collectDefs remembers what references may name.
func (l *lowering) collectDefs(s map[string]any) {
	l.defs = map[string]any{}
	for _, w := range []string{"$defs", "definitions"} {
		defs, _ := s[w].(map[string]any)
		for name, d := range defs {
			l.defs["#/"+w+"/"+name] = d
		}
	}
}

// keepDefs lowers the definitions that stand beside the schema.
func (l *lowering) keepDefs(s map[string]any) {
	for _, w := range []string{"$defs", "definitions"} {
		defs, ok := s[w].(map[string]any)
		if !ok {
			continue
		}
		out := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(defs)) {
			out[name] = l.value(defs[name], 0)
		}
		s[w] = out
	}
}

// resolved is a schema with what its reference leads to merged in; what stands beside the
// reference wins.
func (l *lowering) resolved(s map[string]any, times int) map[string]any {
	ref, ok := s["$ref"].(string)
	if !ok || times == 0 {
		return maps.Clone(s)
	}
	target, _ := l.defs[ref].(map[string]any)
	out := map[string]any{}
	maps.Copy(out, l.resolved(target, times-1))
	for k, v := range s {
		if k != "$ref" {
			out[k] = v
		}
	}
	l.changed("$ref at the root: written out")
	return out
}
