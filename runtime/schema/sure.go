package schema

import (
	"encoding/json"
	"math/big"
	"strconv"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Most schemas use few keywords and most arguments are valid. For those, sure says yes
// without the library, which allocates for every property. Its no means nothing: the
// library then decides, and explains.

// isPlain says whether s uses only keywords that sure knows.
func isPlain(s *jsonschema.Schema) bool {
	return s.DraftVersion >= 2020 &&
		s.RecursiveRef == nil && s.DynamicRef == nil && s.Const == nil && s.Not == nil && s.OneOf == nil && s.If == nil &&
		s.MaxProperties == nil && s.MinProperties == nil && s.PropertyNames == nil && s.PatternProperties == nil &&
		s.Dependencies == nil && s.DependentRequired == nil && s.DependentSchemas == nil && s.UnevaluatedProperties == nil &&
		!s.UniqueItems && s.Contains == nil && s.PrefixItems == nil && s.UnevaluatedItems == nil &&
		s.ContentEncoding == nil && s.ContentMediaType == nil && s.ContentSchema == nil &&
		s.ExclusiveMaximum == nil && s.ExclusiveMinimum == nil && s.MultipleOf == nil && s.Extensions == nil
}

// sure says that v is valid. depth counts nested schemas.
func (n *node) sure(v any, depth int) bool {
	if !n.plain || depth > maxFitDepth || n.types != 0 && n.types&typeBit(n.types, v) == 0 {
		return false
	}
	s := n.schema
	if s.Enum != nil && !enumerates(s.Enum.Values, v) || s.Format != nil && s.Format.Validate(v) != nil {
		return false
	}
	for _, part := range n.parts {
		if !part.sure(v, depth+1) {
			return false
		}
	}
	if s.AnyOf != nil && !n.anySure(v, depth) {
		return false
	}
	switch x := v.(type) {
	case string:
		return sureString(s, x)
	case json.Number:
		return within(s.Minimum, s.Maximum, x)
	case []any:
		return n.sureArray(x, depth)
	case map[string]any:
		return n.sureObject(x, depth)
	}
	return true
}

// typeBit is the bit of v's type; for a number, integer where only integers are wanted.
func typeBit(want mask, v any) mask {
	switch x := v.(type) {
	case nil:
		return nullBit
	case bool:
		return boolBit
	case string:
		return stringBit
	case []any:
		return arrayBit
	case map[string]any:
		return objectBit
	case json.Number:
		if want&numberBit != 0 {
			return numberBit
		}
		if _, ok := integral(string(x)); ok {
			return integerBit
		}
	}
	return 0
}

// enumerates finds scalars that are written the same.
func enumerates(values []any, v any) bool {
	switch v.(type) {
	case nil, bool, string, json.Number:
		for _, want := range values {
			switch want.(type) {
			case nil, bool, string, json.Number:
				if want == v {
					return true
				}
			}
		}
	}
	return false
}

func (n *node) anySure(v any, depth int) bool {
	for _, branch := range n.anyOf {
		if branch == nil || branch.sure(v, depth+1) {
			return true
		}
	}
	return false
}

func sureString(s *jsonschema.Schema, x string) bool {
	if s.MinLength != nil || s.MaxLength != nil {
		count := utf8.RuneCountInString(x)
		if s.MinLength != nil && count < *s.MinLength || s.MaxLength != nil && count > *s.MaxLength {
			return false
		}
	}
	return s.Pattern == nil || s.Pattern.MatchString(x)
}

// within compares integers with integer bounds; anything else is left to the library.
func within(least, most *big.Rat, x json.Number) bool {
	if least == nil && most == nil {
		return true
	}
	i, err := strconv.ParseInt(string(x), 10, 64)
	if err != nil {
		return false
	}
	return (least == nil || isInt64(least) && i >= least.Num().Int64()) &&
		(most == nil || isInt64(most) && i <= most.Num().Int64())
}

func isInt64(r *big.Rat) bool { return r.IsInt() && r.Num().IsInt64() }

func (n *node) sureArray(list []any, depth int) bool {
	s := n.schema
	if s.MinItems != nil && len(list) < *s.MinItems || s.MaxItems != nil && len(list) > *s.MaxItems {
		return false
	}
	if s.Items2020 == nil {
		return true
	}
	for _, v := range list {
		if !sureOf(s.Items2020, n.items, v, depth) {
			return false
		}
	}
	return true
}

func (n *node) sureObject(m map[string]any, depth int) bool {
	s := n.schema
	for _, name := range s.Required {
		if _, ok := m[name]; !ok {
			return false
		}
	}
	for name, v := range m {
		if sub, ok := s.Properties[name]; ok {
			if !sureOf(sub, n.properties[name], v, depth) {
				return false
			}
			continue
		}
		switch more := s.AdditionalProperties.(type) {
		case bool:
			if !more {
				return false
			}
		case *jsonschema.Schema:
			if !sureOf(more, n.additional, v, depth) {
				return false
			}
		}
	}
	return true
}

// sureOf asks a subschema, which has no node if it is true or false.
func sureOf(s *jsonschema.Schema, n *node, v any, depth int) bool {
	if n == nil {
		return s.Bool != nil && *s.Bool
	}
	return n.sure(v, depth+1)
}
