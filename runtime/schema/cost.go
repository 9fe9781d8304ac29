package schema

import (
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// A schema can be written so that validating a small value takes exponential time:
// alternatives that all lead back to the same definition. The library cannot be
// interrupted, so the visits are counted beforehand, for schemas where it matters.
const (
	plainVisits = 2_000   // visits per value that need no counting
	maxVisits   = 500_000 // some tenths of a second
)

// isCostly says whether the number of visits per value can grow out of proportion:
// the schema has more than plainVisits ways through its in-place subschemas, or it
// refers back to itself and has alternatives.
func isCostly(root *jsonschema.Schema) bool {
	g := graph{ways: map[*jsonschema.Schema]int{}, open: map[*jsonschema.Schema]bool{}}
	g.walk(root)
	for _, n := range g.ways {
		if n > plainVisits {
			return true
		}
	}
	return g.cyclic && g.branching
}

type graph struct {
	ways      map[*jsonschema.Schema]int // in-place visits, memoised
	open      map[*jsonschema.Schema]bool
	cyclic    bool
	branching bool
}

// walk visits everything below s once and returns its in-place visits, saturated.
func (g *graph) walk(s *jsonschema.Schema) int {
	if s == nil || s.Bool != nil {
		return 1
	}
	if n, ok := g.ways[s]; ok {
		return n
	}
	if g.open[s] {
		g.cyclic = true
		return 1
	}
	g.open[s] = true
	n := 1
	place := inPlace(s)
	if len(place) > 1 {
		g.branching = true
	}
	for _, sub := range place {
		n = min(n+g.walk(sub), maxVisits)
	}
	for _, sub := range below(s) {
		g.walk(sub)
	}
	delete(g.open, s)
	g.ways[s] = n
	return n
}

// inPlace are the subschemas that apply to the same value.
func inPlace(s *jsonschema.Schema) []*jsonschema.Schema {
	var out []*jsonschema.Schema
	for _, one := range [...]*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else} {
		if one != nil {
			out = append(out, one)
		}
	}
	if s.DynamicRef != nil {
		out = append(out, s.DynamicRef.Ref)
	}
	for _, list := range [...][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf} {
		out = append(out, list...)
	}
	for _, sub := range s.DependentSchemas {
		out = append(out, sub)
	}
	for _, d := range s.Dependencies {
		if sub, ok := d.(*jsonschema.Schema); ok {
			out = append(out, sub)
		}
	}
	return out
}

// below are the subschemas that apply to the values inside.
func below(s *jsonschema.Schema) []*jsonschema.Schema {
	out := append([]*jsonschema.Schema{}, s.PrefixItems...)
	for _, one := range [...]*jsonschema.Schema{
		s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems, s.ContentSchema,
	} {
		if one != nil {
			out = append(out, one)
		}
	}
	for _, sub := range s.Properties {
		out = append(out, sub)
	}
	for _, sub := range s.PatternProperties {
		out = append(out, sub)
	}
	for _, v := range [...]any{s.AdditionalProperties, s.AdditionalItems, s.Items} {
		switch sub := v.(type) {
		case *jsonschema.Schema:
			out = append(out, sub)
		case []*jsonschema.Schema:
			out = append(out, sub...)
		}
	}
	return out
}

// affordable refuses a value whose validation would visit more than maxVisits schemas.
func (s *Schema) affordable(v any) error {
	if !s.costly {
		return nil
	}
	if !cheap(s.compiled, v) {
		return fault.New(fault.TooLarge, "the value: nested too deeply for the alternatives of this schema to be checked; send a simpler one")
	}
	return nil
}

// cheap says whether validating v against s takes at most maxVisits visits.
func cheap(s *jsonschema.Schema, v any) bool {
	c := counter{left: maxVisits}
	c.visit(s, v, 0)
	return c.left >= 0
}

type counter struct{ left int }

// visit counts the schemas that validating v against s would visit, at most.
func (c *counter) visit(s *jsonschema.Schema, v any, inPlaceDepth int) {
	if c.left--; c.left < 0 || s == nil || s.Bool != nil {
		return
	}
	if inPlaceDepth > MaxSchemaNodes { // a reference to itself
		c.left = -1
		return
	}
	for _, sub := range inPlace(s) {
		c.visit(sub, v, inPlaceDepth+1)
	}
	switch x := v.(type) {
	case map[string]any:
		for name, value := range x {
			c.property(s, name, value)
		}
	case []any:
		for i, value := range x {
			c.item(s, i, value)
		}
	}
}

func (c *counter) property(s *jsonschema.Schema, name string, value any) {
	if sub := s.Properties[name]; sub != nil {
		c.visit(sub, value, 0)
	}
	for _, sub := range s.PatternProperties {
		c.visit(sub, value, 0)
	}
	if sub, ok := s.AdditionalProperties.(*jsonschema.Schema); ok && s.Properties[name] == nil {
		c.visit(sub, value, 0)
	}
	if s.UnevaluatedProperties != nil {
		c.visit(s.UnevaluatedProperties, value, 0)
	}
}

func (c *counter) item(s *jsonschema.Schema, i int, value any) {
	for _, sub := range [...]*jsonschema.Schema{s.Items2020, s.Contains, s.UnevaluatedItems} {
		if sub != nil {
			c.visit(sub, value, 0)
		}
	}
	if i < len(s.PrefixItems) {
		c.visit(s.PrefixItems[i], value, 0)
	}
	switch items := s.Items.(type) {
	case *jsonschema.Schema:
		c.visit(items, value, 0)
	case []*jsonschema.Schema:
		if i < len(items) {
			c.visit(items[i], value, 0)
		}
	}
}
