package schema

import (
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// mask is a set of JSON types.
type mask uint8

const (
	nullBit mask = 1 << iota
	boolBit
	integerBit
	numberBit // any number, so it includes integers
	stringBit
	arrayBit
	objectBit
)

// node is what coercion and defaults need of one schema. Nodes form a graph with the
// cycles of the schema's references. They are read only once the plan is made.
type node struct {
	schema     *jsonschema.Schema
	types      mask // 0: any
	parts      []*node
	unions     [][]*node // anyOf, oneOf
	properties map[string]*node
	additional *node
	prefix     []*node
	items      *node
	defaults   []fallback
	anyOf      []*node // for sure: nil takes anything
	idle       bool    // nothing below here can change a value
	plain      bool    // sure knows all of its keywords
}

// fallback is the value of a property that is left out.
type fallback struct {
	name  string
	value any // defaults nested in it are filled in; copied before use
}

// planner makes the nodes of one schema.
type planner struct {
	nodes map[*jsonschema.Schema]*node
	order []*node
	unfit []string // see Schema.UnfitDefaults
}

func newPlan(root *jsonschema.Schema) (*node, []string) {
	p := planner{nodes: map[*jsonschema.Schema]*node{}}
	n := p.node(root)
	p.markIdle()
	p.fallbacks()
	slices.Sort(p.unfit)
	return n, slices.Compact(p.unfit)
}

func (p *planner) node(s *jsonschema.Schema) *node {
	if s == nil || s.Bool != nil {
		return nil
	}
	if n, ok := p.nodes[s]; ok {
		return n
	}
	n := &node{schema: s, types: maskOf(s.Types), plain: isPlain(s)}
	p.nodes[s] = n
	p.order = append(p.order, n)
	if s.Ref != nil {
		p.part(n, s.Ref)
	}
	for _, sub := range s.AllOf {
		p.part(n, sub)
	}
	for _, list := range [...][]*jsonschema.Schema{s.AnyOf, s.OneOf} {
		if union := p.branches(list); union != nil {
			n.unions = append(n.unions, union)
		}
	}
	for _, sub := range s.AnyOf {
		if branch := p.node(sub); branch != nil || *sub.Bool {
			n.anyOf = append(n.anyOf, branch)
		}
	}
	p.object(n, s)
	p.array(n, s)
	return n
}

// part adds a schema that applies to the same value.
func (p *planner) part(n *node, s *jsonschema.Schema) {
	if sub := p.node(s); sub != nil {
		n.parts = append(n.parts, sub)
	} else if s.Bool != nil && !*s.Bool {
		n.plain = false
	}
}

// branches are the nodes of a union; a branch that takes anything makes the union
// useless for coercion.
func (p *planner) branches(list []*jsonschema.Schema) []*node {
	var out []*node
	for _, s := range list {
		n := p.node(s)
		if n == nil {
			if s.Bool != nil && !*s.Bool {
				continue
			}
			return nil
		}
		out = append(out, n)
	}
	return out
}

func (p *planner) object(n *node, s *jsonschema.Schema) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if sub := p.node(s.Properties[name]); sub != nil {
			if n.properties == nil {
				n.properties = map[string]*node{}
			}
			n.properties[name] = sub
		}
	}
	// With patternProperties it is not known which schema a name falls under.
	if sub, ok := s.AdditionalProperties.(*jsonschema.Schema); ok && len(s.PatternProperties) == 0 {
		n.additional = p.node(sub)
	}
}

func (p *planner) array(n *node, s *jsonschema.Schema) {
	prefix, rest := s.PrefixItems, s.Items2020
	if s.DraftVersion < 2020 {
		switch items := s.Items.(type) {
		case *jsonschema.Schema:
			rest = items
		case []*jsonschema.Schema:
			prefix = items
			rest, _ = s.AdditionalItems.(*jsonschema.Schema)
		}
	}
	for _, sub := range prefix {
		n.prefix = append(n.prefix, p.node(sub))
	}
	n.items = p.node(rest)
}

func maskOf(types *jsonschema.Types) mask {
	if types == nil {
		return 0
	}
	var m mask
	for _, name := range types.ToStrings() {
		switch name {
		case "null":
			m |= nullBit
		case "boolean":
			m |= boolBit
		case "integer":
			m |= integerBit
		case "number":
			m |= numberBit | integerBit
		case "string":
			m |= stringBit
		case "array":
			m |= arrayBit
		case "object":
			m |= objectBit
		}
	}
	return m
}

// markIdle marks the leaves that leave every value alone: any type, or only strings.
func (p *planner) markIdle() {
	for _, n := range p.order {
		n.idle = n.types&^stringBit == 0 && len(n.parts) == 0 && len(n.unions) == 0 &&
			n.properties == nil && n.additional == nil && n.prefix == nil && n.items == nil &&
			len(n.schema.Properties) == 0
	}
}

// fallbacks collects the defaults of every object: those that are valid themselves.
// First as declared, then with the defaults nested in them filled in, so that the
// order of the nodes does not matter; a default that contains itself is filled once.
func (p *planner) fallbacks() {
	for _, n := range p.order {
		n.defaults = p.declared(n.schema)
	}
	for _, n := range p.order {
		for i, f := range n.defaults {
			if sub := n.properties[f.name]; sub != nil {
				v := newFitter(true).fit(sub, clone(f.value))
				if n.schema.Properties[f.name].Validate(v) == nil {
					n.defaults[i].value = v
				}
			}
		}
	}
}

func (p *planner) declared(s *jsonschema.Schema) []fallback {
	var out []fallback
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		sub := s.Properties[name]
		v, ok := defaultOf(sub)
		switch {
		case !ok:
		case sub.Validate(v) == nil:
			out = append(out, fallback{name: name, value: v})
		default:
			p.unfit = append(p.unfit, place(s.Location)+" "+name)
		}
	}
	return out
}

// defaultOf is the default of a property schema, or of what it refers to.
func defaultOf(s *jsonschema.Schema) (any, bool) {
	for range 8 {
		switch {
		case s.Default != nil:
			return *s.Default, true
		case s.Ref == nil:
			return nil, false
		}
		s = s.Ref
	}
	return nil, false
}
