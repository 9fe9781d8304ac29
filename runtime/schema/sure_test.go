package schema

import (
	"encoding/json"
	"testing"
)

// sureSchemas use the keywords that sure knows, and some that it does not.
var sureSchemas = []string{
	`{"properties":{"a":{"type":"string","minLength":1,"maxLength":3,"pattern":"^[a-z]*$"},"b":{"type":"integer","minimum":-5,"maximum":5},"c":{"enum":["x",1,true,null]}},"required":["a"],"additionalProperties":false}`,
	`{"additionalProperties":{"type":"array","items":{"type":["integer","null"]},"minItems":1,"maxItems":3}}`,
	`{"$defs":{"n":{"type":"object","properties":{"a":{"$ref":"#/$defs/n"},"b":{"anyOf":[{"type":"integer"},{"type":"string","format":"date"},false]}}}},"$ref":"#/$defs/n","additionalProperties":{"type":"boolean"}}`,
	`{"allOf":[{"properties":{"a":{"type":"number","maximum":2.5}}},{"required":["a"]}],"properties":{"b":false,"c":true}}`,
	`{"properties":{"a":{"allOf":[{"type":"string"},false]},"b":{"type":"array","items":false},"c":{"type":"number","enum":[1.0,2]}}}`,
	`{"properties":{"a":{"uniqueItems":true},"b":{"oneOf":[{"type":"integer"},{"minimum":3}]},"c":{"not":{"type":"null"}},"d":{"const":1}},"unevaluatedProperties":false}`,
	`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"$ref":"#/definitions/x","type":"string"}},"definitions":{"x":{"type":"integer"}}}`,
	`{"anyOf":[{"required":["a"]},{"properties":{"b":{"type":"integer"}},"required":["b"],"additionalProperties":false}]}`,
}

// FuzzSure holds the fast yes against the library: what it says is valid is.
func FuzzSure(f *testing.F) {
	var schemas []*Schema
	for i, text := range sureSchemas {
		s, err := Compile(json.RawMessage(text))
		if err != nil {
			f.Fatal(err)
		}
		schemas = append(schemas, s)
		for _, v := range []string{
			`{"a":"x","b":3,"c":true}`, `{"a":[1,null],"b":[]}`, `{"a":{"a":{"b":"2024-01-01"}},"b":1.0,"x":true}`, `{"a":2.50,"c":[]}`,
			`{"a":"","b":9223372036854775808,"c":1.0}`, `{"b":1,"c":2}`, `{"b":"5"}`, `{"a":{"a":1}}`, `{"b":3.5}`, `{"c":1}`, `{"c":1.0}`, `{}`,
		} {
			f.Add(i, v)
		}
	}
	f.Fuzz(func(t *testing.T, i int, text string) {
		v, err := decode(text, argumentBounds)
		if err != nil {
			return
		}
		s := schemas[uint(i)%uint(len(schemas))]
		if s.plan.sure(v, 0) {
			if err := s.compiled.Validate(v); err != nil {
				t.Fatalf("sure of %s against %s, but %v", text, s.JSON(), err)
			}
		}
	})
}

// TestSure says yes to what is plain, so that the fast way is taken at all.
func TestSure(t *testing.T) {
	for i, text := range map[int]string{
		0: `{"a":"x","b":3,"c":true}`, 1: `{"a":[1,null]}`, 3: `{"a":"x"}`, 7: `{"b":1}`,
	} {
		s, err := Compile(json.RawMessage(sureSchemas[i]))
		if err != nil {
			t.Fatal(err)
		}
		v, serr := decode(text, argumentBounds)
		if serr != nil {
			t.Fatal(serr)
		}
		if got, want := s.plan.sure(v, 0), i != 3; got != want {
			t.Errorf("%s against %s: %v", text, s.JSON(), got)
		}
	}
}
