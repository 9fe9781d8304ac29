package schema_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/schema"
)

func compile(t testing.TB, text string) *schema.Schema {
	t.Helper()
	s, err := schema.Compile(json.RawMessage(text))
	if err != nil {
		t.Fatalf("compiling %s: %v", text, err)
	}
	return s
}

func closed(properties string) string {
	return `{"type":"object","additionalProperties":false,"properties":{` + properties + `}}`
}

// TestParse gives arguments and expects canonical bytes, or "! " and a part of the
// error.
func TestParse(t *testing.T) {
	const tree = `{"$defs":{"n":{"type":"object","additionalProperties":false,"properties":{"v":{"type":"integer","default":7},"kids":{"type":"array","items":{"$ref":"#/$defs/n"}}}}},"$ref":"#/$defs/n"}`
	city := `{"type":"object","additionalProperties":false,"required":["city"],"properties":{"city":{"type":"string"},"days":{"type":"integer","minimum":1,"default":1}}}`
	for _, test := range []struct{ name, schema, in, want string }{
		{"sorted", `{}`, `{"b":1, "a":[ 1 , {"z":0,"y":null} ]}`, `{"a":[1,{"y":null,"z":0}],"b":1}`},
		{"empty text", closed(``), ``, `{}`},
		{"white space", closed(``), " \n\t", `{}`},
		{"null", closed(``), ` null `, `{}`},
		{"absence is validated", city, ``, `! city: required`},
		{"default", city, `{"city":"Oslo"}`, `{"city":"Oslo","days":1}`},
		{"given beats default", city, `{"city":"Oslo","days":3}`, `{"city":"Oslo","days":3}`},

		{"cut in string", city, `{"city":"Os`, `! cut off`},
		{"cut after value", city, `{"city":"Oslo"`, `! cut off`},
		{"cut in word", closed(`"b":{"type":"boolean"}`), `{"b":tru`, `! cut off`},
		{"cut in escape", city, `{"city":"a\u00`, `! cut off`},
		{"two objects", city, `{"city":"Oslo"}{"city":"Rome"}`, `! more than one JSON object`},
		{"garbage after", city, `{"city":"Oslo"} done`, `! after the value`},
		{"line break in string", city, "{\"city\":\"a\nb\"}", `! a line break inside a string; write \n`},
		{"backslash-n outside", city, `{\n"city":"Oslo"}`, `! quoted property name`},
		{"trailing comma", city, `{"city":"Oslo",}`, `! quoted property name`},
		{"single quotes", city, `{'city':'Oslo'}`, `! quoted property name`},
		{"array", city, `["Oslo"]`, `! must be one JSON object, got array`},
		{"string", city, `"{\"city\":\"Oslo\"}"`, `! must be one JSON object, got string`},
		{"duplicate key", city, `{"city":"Oslo","city":"Rome"}`, `! "city" is given twice`},
		{"duplicate key escaped", city, `{"city":"Oslo","c\u0069ty":"Rome"}`, `! "city" is given twice`},
		{"lone surrogate", city, `{"city":"\ud83d"}`, `! unpaired surrogate`},
		{"pair", city, `{"city":"\ud83d\ude00"}`, `{"city":"😀","days":1}`},
		{"bad UTF-8", city, "{\"city\":\"\xff\"}", `! not UTF-8`},
		{"leading zero", `{}`, `{"n":01}`, `! in a number`},
		{"no digits", `{}`, `{"n":1.}`, `! in a number`},
		{"huge exponent", `{"properties":{"n":{"type":"integer","minimum":0}}}`, `{"n":1e999999999}`, `! out of range`},
		{"NaN", `{}`, `{"n":NaN}`, `! where a value should begin`},
		{"deep", `{}`, `{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, `! levels deep`},
		{"no HTML escaping", city, `{"city":"<a & b>"}`, `{"city":"<a & b>","days":1}`},

		{"64-bit", closed(`"id":{"type":"integer"}`), `{"id":9223372036854775807}`, `{"id":9223372036854775807}`},
		{"bigger", closed(`"id":{"type":"integer"}`), `{"id":"123456789012345678901234567890"}`, `{"id":123456789012345678901234567890}`},
		{"exact decimals", closed(`"n":{"type":"number"}`), `{"n":0.10000000000000000555}`, `{"n":0.10000000000000000555}`},
		{"3.0", closed(`"n":{"type":"integer"}`), `{"n":3.0}`, `{"n":3}`},
		{"30e-1", closed(`"n":{"type":"integer"}`), `{"n":"30e-1"}`, `{"n":3}`},
		{"3.0 as number", closed(`"n":{"type":"number"}`), `{"n":3.0}`, `{"n":3.0}`},
		{"3.5 no integer", closed(`"n":{"type":"integer"}`), `{"n":"3.5"}`, `! n: expected integer, got string "3.5"`},
		{"number text", closed(`"n":{"type":"number"}`), `{"n":"-1.50"}`, `{"n":-1.50}`},
		{"loose number", closed(`"n":{"type":"number"}`), `{"n":"+5"}`, `! expected number`},
		{"number with unit", closed(`"n":{"type":"number"}`), `{"n":"5 km"}`, `! expected number`},
		{"boolean text", closed(`"b":{"type":"boolean"}`), `{"b":"false"}`, `{"b":false}`},
		{"boolean text for an integer", closed(`"n":{"type":"integer"}`), `{"n":"true"}`, `! got string "true"`},
		{"null text for an integer", closed(`"n":{"type":"integer"}`), `{"n":"null"}`, `! got string "null"`},
		{"boolean shout", closed(`"b":{"type":"boolean"}`), `{"b":"False"}`, `! expected boolean`},
		{"boolean number", closed(`"b":{"type":"boolean"}`), `{"b":1}`, `! expected boolean`},
		{"number to string", closed(`"s":{"type":"string"}`), `{"s":5}`, `! expected string, got number 5`},
		{"bool to string enum", closed(`"s":{"type":"string","enum":["true","false"]}`), `{"s":true}`, `! expected string, got true`},
		{"list text", closed(`"l":{"type":"array","items":{"type":"integer"}}`), `{"l":"[1,\"2\"]"}`, `{"l":[1,2]}`},
		{"object text", closed(`"o":{"type":"object"}`), `{"o":" {\"b\":1,\"a\":2}"}`, `{"o":{"a":2,"b":1}}`},
		{"list text, string allowed", closed(`"l":{"type":["array","string"]}`), `{"l":"[1]"}`, `{"l":"[1]"}`},
		{"list text broken", closed(`"l":{"type":"array"}`), `{"l":"[1,"}`, `! expected array`},
		{"no wrapping", closed(`"l":{"type":"array"}`), `{"l":1}`, `! expected array, got number 1`},
		{"null optional", closed(`"s":{"type":"string","default":null}`), `{"s":null}`, `! expected string, got null`},
		{"nullable text", closed(`"n":{"type":["integer","null"]}`), `{"n":"null"}`, `{"n":null}`},
		{"string stays", closed(`"s":{"type":["integer","string"]}`), `{"s":"5"}`, `{"s":"5"}`},
		{"enum of numbers", closed(`"n":{"type":"integer","enum":[1,2]}`), `{"n":"3"}`, `! must be one of number 1, number 2, got number 3`},

		{"anyOf null", closed(`"n":{"anyOf":[{"type":"integer"},{"type":"null"}]}`), `{"n":"5"}`, `{"n":5}`},
		{"anyOf string first", closed(`"n":{"anyOf":[{"type":"integer"},{"type":"string"}]}`), `{"n":"5"}`, `{"n":"5"}`},
		{"anyOf two readings", closed(`"n":{"anyOf":[{"type":"array","items":{"type":"integer"}},{"type":"array","items":{"type":"string"}}]}`), `{"n":"[\"1\"]"}`, `! n:`},
		{"anyOf same reading", closed(`"n":{"anyOf":[{"type":"integer"},{"type":"number"}]}`), `{"n":"5"}`, `{"n":5}`},
		{"oneOf nested default", closed(`"x":{"oneOf":[{"type":"object","required":["a"],"properties":{"a":{"type":"integer"},"b":{"default":2}}},{"type":"string"}]}`), `{"x":{"a":1}}`, `{"x":{"a":1,"b":2}}`},
		{"default spoils oneOf", `{"properties":{"a":{"type":"integer","default":1},"b":{"type":"integer"}},"oneOf":[{"required":["a"]},{"required":["b"]}]}`, `{"b":"2"}`, `{"b":2}`},

		{"through ref", tree, `{"kids":[{"v":"1"},{}]}`, `{"kids":[{"v":1},{"v":7}],"v":7}`},
		{"allOf", `{"allOf":[{"properties":{"n":{"type":"integer"}}},{"properties":{"m":{"default":"x"}}}]}`, `{"n":"1"}`, `{"m":"x","n":1}`},
		{"additional", `{"additionalProperties":{"type":"integer"}}`, `{"a":"1"}`, `{"a":1}`},
		{"any property is not additional", `{"properties":{"a":{}},"additionalProperties":{"type":"integer"}}`, `{"a":"1"}`, `{"a":"1"}`},
		{"prefixItems", closed(`"t":{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],"items":{"type":"boolean"}}`), `{"t":["1","2","true"]}`, `{"t":["1",2,true]}`},
		{"invalid default", closed(`"n":{"type":"integer","default":"5"}`), `{}`, `{}`},
		{"nested default in default", closed(`"o":{"type":"object","default":{},"properties":{"n":{"type":"integer","default":5}}}`), `{}`, `{"o":{"n":5}}`},
		{"default containing itself", `{"properties":{"child":{"$ref":"#","default":{}}}}`, `{}`, `{"child":{"child":{}}}`},
		{"falsy defaults", closed(`"a":{"default":false},"b":{"default":0},"c":{"default":""},"d":{"default":null}`), `{}`, `{"a":false,"b":0,"c":"","d":null}`},

		{"did you mean", city, `{"cty":"Oslo"}`, `! Did you mean "city"?`},
		{"allowed names", city, `{"city":"Oslo","zzz":1}`, `! allowed: city, days`},
		{"did you mean value", closed(`"u":{"type":"string","enum":["celsius","kelvin"]}`), `{"u":"celsiuss"}`, `! Did you mean "celsius"?`},
		{"nested path", closed(`"l":{"type":"array","items":{"type":"object","required":["name"]}}`), `{"l":[{"name":1},{}]}`, `! l[1].name: required`},
		{"minimum", city, `{"city":"x","days":0}`, `! days: must be at least 1, got 0`},
		{"format", closed(`"d":{"type":"string","format":"date"}`), `{"d":"tomorrow"}`, `! "tomorrow" is not a valid date`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := compile(t, test.schema).Parse(test.in)
			if want, ok := strings.CutPrefix(test.want, "! "); ok {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Fatalf("got %s, error %v; want an error with %q", got, err, want)
				}
				if k := fault.KindOf(err); k != fault.Invalid && k != fault.TooLarge {
					t.Errorf("kind %v", k)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestDefaultsAreNotShared fills the same default in many calls at once, while a second
// schema for the same property goes on to change it.
func TestDefaultsAreNotShared(t *testing.T) {
	s := compile(t, `{"allOf":[{"properties":{"o":{"default":{"k":"5"}}}},{"properties":{"o":{"properties":{"k":{"type":"integer"},"l":{"default":[]}}}}}]}`)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if got, err := s.Parse(`{}`); err != nil || string(got) != `{"o":{"k":5,"l":[]}}` {
					t.Errorf("got %s, %v", got, err)
				}
			}
		})
	}
	wg.Wait()
}
