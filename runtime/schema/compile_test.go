package schema_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/schema"
)

func TestCanonicalSchema(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{`{}`, `{"type":"object"}`},
		{` { "type" : "object", "additionalProperties" : false } `, `{"additionalProperties":false,"type":"object"}`},
		{`{"properties":{"n":{"minimum":1.50}}}`, `{"properties":{"n":{"minimum":1.50}},"type":"object"}`},
	} {
		s := compile(t, test.in)
		if diff := cmp.Diff(test.want, string(s.JSON())); diff != "" {
			t.Error(diff)
		}
		if again := compile(t, string(s.JSON())); again.Digest() != s.Digest() || len(s.Digest()) != 64 {
			t.Errorf("%s: digests %s, %s", test.in, s.Digest(), again.Digest())
		}
	}
}

// TestCompileRefuses gives schemas of strangers: each is refused with the place and
// what to write instead.
func TestCompileRefuses(t *testing.T) {
	deep := strings.Repeat(`{"not":`, 70) + `{}` + strings.Repeat(`}`, 70)
	var many strings.Builder
	for i := range 5001 {
		fmt.Fprintf(&many, `,"p%d":{}`, i)
	}
	for _, test := range []struct{ name, schema, want string }{
		{"not JSON", `{`, "not valid JSON"},
		{"not an object", `true`, "must be a JSON object, got boolean"},
		{"list", `[]`, "must be a JSON object, got array"},
		{"root of another type", `{"type":"array"}`, `the root needs "type":"object"`},
		{"root of other types", `{"type":["string","null"]}`, `the root needs "type":"object"`},
		{"duplicate key", `{"type":"object","type":"object"}`, "given twice"},
		{"deep", deep, "levels deep"},
		{"many nodes", `{"properties":{"p":{}` + many.String() + `}}`, "more than 5000 JSON values"},
		{"large", `{"description":"` + strings.Repeat("x", 256<<10) + `"}`, "bytes are more than the 262144 allowed"},
		{"file reference", `{"properties":{"a":{"$ref":"file:///etc/passwd"}}}`, `at /properties/a: "$ref" to "file:///etc/passwd"`},
		{"http reference", `{"$ref":"http://127.0.0.1/x.json"}`, "nothing outside the schema is read"},
		{"relative reference", `{"properties":{"a":{"$ref":"other.json#/x"}}}`, "outside the schema"},
		{"path reference", `{"properties":{"a":{"$ref":"/etc/passwd"}}}`, "outside the schema"},
		{"reference below an id", `{"$id":"https://example.com/a.json","properties":{"a":{"$ref":"b.json"}}}`, "outside the schema"},
		{"urn reference", `{"properties":{"a":{"$ref":"urn:x:y"}}}`, "outside the schema"},
		{"dynamic reference", `{"properties":{"a":{"$dynamicRef":"https://example.com/x#y"}}}`, "nothing outside the schema is read"},
		{"dialect from outside", `{"$schema":"https://example.com/dialect"}`, `"https://example.com/dialect" is outside the schema`},
		{"dialect from a file", `{"$schema":"file:///etc/passwd"}`, "is outside the schema"},
		{"reference to nothing", `{"properties":{"a":{"$ref":"#/$defs/x"}}}`, `"#/$defs/x" points to nothing`},
		{"definitions dropped", `{"properties":{"a":{"$ref":"#/definitions/x"}}}`, "points to nothing"},
		{"anchor of nothing", `{"properties":{"a":{"$ref":"#x"}}}`, `"#x" names an anchor`},
		{"lookahead", `{"properties":{"a":{"pattern":"^(?=x)"}}}`, `/properties/a/pattern: the pattern "^(?=x)" is not RE2 syntax`},
		{"backreference", `{"properties":{"a":{"pattern":"(a)\\1"}}}`, "not RE2 syntax"},
		{"lookahead in a name", `{"patternProperties":{"(?!x)":{}}}`, "not RE2 syntax"},
		{"draft-04 bound", `{"properties":{"a":{"minimum":0,"exclusiveMinimum":true}}}`, `/properties/a: "exclusiveMinimum" with a boolean is draft-04`},
		{"draft-07 tuple", `{"properties":{"a":{"type":"array","items":[{"type":"string"}]}}}`, `use "prefixItems"`},
		{"draft-03 required", `{"properties":{"a":{"type":"string","required":true}}}`, `list the names`},
		{"type of another language", `{"properties":{"a":{"type":"float"}}}`, `"float" is not a JSON Schema type: write "number"`},
		{"type any", `{"properties":{"a":{"type":["string","any"]}}}`, `leave "type" out`},
		{"unknown type", `{"properties":{"a":{"type":"date"}}}`, "the types are null, boolean"},
		{"type of a number", `{"properties":{"a":{"type":3}}}`, "properties.a.type"},
		{"properties as a list", `{"properties":[]}`, "properties: expected object, got array"},
		{"negative length", `{"properties":{"a":{"maxLength":-1}}}`, "properties.a.maxLength"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := schema.Compile(json.RawMessage(test.schema))
			if err == nil {
				t.Fatal("compiled")
			}
			if k := fault.KindOf(err); k != fault.Invalid && k != fault.TooLarge {
				t.Errorf("kind %s", k)
			}
			if m := fault.Message(err); !strings.Contains(m, test.want) || strings.Contains(m, "hermes:") {
				t.Errorf("got %q", m)
			}
		})
	}
}

// TestOldDialects declares older dialects, in which their spellings are right.
func TestOldDialects(t *testing.T) {
	for _, test := range []struct{ name, schema, valid, invalid string }{
		{"draft-04", `{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"a":{"type":"number","minimum":0,"exclusiveMinimum":true}}}`, `{"a":1}`, `{"a":0}`},
		{"draft-07", `{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"x":{"type":"integer"}},"properties":{"a":{"items":[{"$ref":"#/definitions/x"}],"additionalItems":false}}}`, `{"a":[1]}`, `{"a":["x"]}`},
		{"2019-09", `{"$schema":"https://json-schema.org/draft/2019-09/schema","properties":{"a":{"type":"string","format":"date"}}}`, `{"a":"2024-02-29"}`, `{"a":"2023-02-29"}`},
		{"definitions in 2020-12", `{"definitions":{"x":{"type":"integer"}},"properties":{"a":{"$ref":"#/definitions/x"}}}`, `{"a":1}`, `{"a":"x"}`},
		{"data is not a schema", `{"properties":{"a":{"default":{"type":"float","required":true},"enum":[{"$ref":"file:///x"},1]}}}`, `{"a":1}`, `{"a":2}`},
		{"a property named type", `{"properties":{"type":{"type":"string"},"items":{"type":"array"},"$ref":{"type":"string"}}}`, `{"type":"float"}`, `{"type":1}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := compile(t, test.schema)
			if err := s.Validate(json.RawMessage(test.valid)); err != nil {
				t.Error(err)
			}
			if err := s.Validate(json.RawMessage(test.invalid)); err == nil {
				t.Errorf("%s is valid", test.invalid)
			}
		})
	}
}

// TestNothingIsRead points references at a file and a server that exist.
func TestNothingIsRead(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte(`{}`))
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "x.json")
	if err := os.WriteFile(file, []byte(`{}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"file://" + file, file, server.URL + "/x.json"} {
		for _, text := range []string{
			`{"properties":{"a":{"$ref":%q}}}`, `{"$schema":%q}`, `{"$id":%q,"properties":{"a":{"$ref":"y.json"}}}`, `{"properties":{"a":{"$schema":%q,"$id":"z"}}}`,
		} {
			if _, err := schema.Compile(json.RawMessage(fmt.Sprintf(text, target))); err == nil {
				t.Errorf(text+": compiled", target)
			}
		}
	}
	if asked.Load() > 0 {
		t.Errorf("the server was asked %d times", asked.Load())
	}
}

// TestExplosiveSchema gives alternatives that all lead back to the same definition:
// a small value would take exponential time.
func TestExplosiveSchema(t *testing.T) {
	recursive := compile(t, `{"$defs":{"n":{"anyOf":[{"properties":{"c":{"$ref":"#/$defs/n"}},"required":["x"]},{"properties":{"c":{"$ref":"#/$defs/n"}},"required":["y"]},{"properties":{"c":{"$ref":"#/$defs/n"}},"required":["z"]}]}},"$ref":"#/$defs/n"}`)
	deep := strings.Repeat(`{"c":`, 60) + `{}` + strings.Repeat(`}`, 60)
	if _, err := recursive.Parse(deep); fault.KindOf(err) != fault.TooLarge {
		t.Errorf("deep value: %v", err)
	}
	if _, err := recursive.Parse(`{"x":1,"c":{"y":1,"c":{"z":1,"c":{"x":1}}}}`); err != nil {
		t.Errorf("plain value: %v", err)
	}
	inString := compile(t, `{"$defs":{"n":{"anyOf":[{"type":"object","properties":{"c":{"$ref":"#/$defs/n"}},"required":["x"]},{"type":"object","properties":{"c":{"$ref":"#/$defs/n"}},"required":["y"]}]}},"properties":{"t":{"type":"object","properties":{"c":{"$ref":"#/$defs/n"}}}}}`)
	text, _ := json.Marshal(map[string]string{"t": deep})
	if _, err := inString.Parse(string(text)); fault.KindOf(err) != fault.Invalid {
		t.Errorf("deep value in a string: %v", err)
	}
	var chain strings.Builder
	for i := range 40 {
		fmt.Fprintf(&chain, `"d%d":{"anyOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	doubling := compile(t, `{"$defs":{`+chain.String()+`"d40":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/d0"}}}`)
	if _, err := doubling.Parse(`{"a":1}`); fault.KindOf(err) != fault.TooLarge {
		t.Errorf("doubling chain: %v", err)
	}
}

// TestSelfReference refers to itself without end, in place.
func TestSelfReference(t *testing.T) {
	s, err := schema.Compile(json.RawMessage(`{"$ref":"#"}`))
	if err == nil {
		_, err = s.Parse(`{}`)
	}
	if fault.KindOf(err) != fault.Invalid {
		t.Errorf("got %v", err)
	}
}

func TestProperty(t *testing.T) {
	const text = `{"additionalProperties":false,
		"$defs":{"node":{"type":"object","additionalProperties":false,"properties":{"v":{"type":"integer"},"kids":{"type":"array","items":{"$ref":"#/$defs/node"}}}},"a":{"$anchor":"here","type":"boolean"}},
		"properties":{
			"city":{"type":"string"},"open":{"type":"object","properties":{"known":{"type":"string"}}},"any":{},"map":{"type":"object","additionalProperties":{"type":"integer"}},
			"tree":{"$ref":"#/$defs/node"},"pair":{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],"items":false},
			"maybe":{"anyOf":[{"type":"null"},{"type":"object","additionalProperties":false,"properties":{"x":{"type":"number"}}}]},
			"both":{"allOf":[{"properties":{"l":{"type":"string"}}},{"properties":{"r":{"type":"integer"}}}]},
			"anchored":{"$ref":"#here"},"described":{"$ref":"#/$defs/node","description":"d"},"a/b~c":{"type":"null"},"never":false
		}}`
	s := compile(t, text)
	for _, test := range []struct{ path, want string }{
		{"city", `{"type":"string"}`},
		{"cty", ""},
		{"city.x", ""},
		{"open.known", `{"type":"string"}`},
		{"open.other.deep", `{}`},
		{"any", `{}`},
		{"any.x.0.y", `{}`},
		{"map.x", `{"type":"integer"}`},
		{"map.x.y", ""},
		{"tree.v", `{"type":"integer"}`},
		{"tree.kids.0.kids.*.v", `{"type":"integer"}`},
		{"tree.kids.first", ""},
		{"tree.nope", ""},
		{"pair.0", `{"type":"string"}`},
		{"pair.1", `{"type":"integer"}`},
		{"pair.2", ""},
		{"maybe.x", `{"type":"number"}`},
		{"maybe.y", ""},
		{"both.l", `{"type":"string"}`},
		{"both.r", `{"type":"integer"}`},
		{"anchored", `{"$anchor":"here","type":"boolean"}`},
		{"described.v", `{"type":"integer"}`},
		{"a/b~c", `{"type":"null"}`},
		{"never", ""},
	} {
		got, ok := s.Property(strings.Split(test.path, ".")...)
		if ok != (test.want != "") || string(got) != test.want {
			t.Errorf("%s: got %s, %v; want %s", test.path, got, ok, test.want)
		}
	}
	if got, ok := s.Property(); !ok || string(got) != string(s.JSON()) {
		t.Errorf("the root: %s, %v", got, ok)
	}
	loop := compile(t, `{"properties":{"a":{"$ref":"#/properties/b"},"b":{"$ref":"#/properties/a"}}}`)
	if got, ok := loop.Property("a", "x"); !ok || string(got) != `{}` {
		t.Errorf("a loop: %s, %v", got, ok)
	}
}

func TestNear(t *testing.T) {
	names := []string{"get_weather", "getWeatherForecast", "set_alarm", "get_time", "delete_alarm", "temperature"}
	for _, test := range []struct {
		name string
		want []string
	}{
		{"get_wether", []string{"get_weather"}},
		{"GetTime", []string{"get_time"}},
		{"weather_report", []string{"getWeatherForecast", "get_weather"}},
		{"alarm", []string{"delete_alarm", "set_alarm"}},
		{"zzz", []string{}},
		{"", []string{}},
		{"\xff\xfe日本", []string{}},
	} {
		if diff := cmp.Diff(test.want, schema.Near(test.name, names, 3)); diff != "" {
			t.Errorf("%q: %s", test.name, diff)
		}
	}
}

// TestManyFaults bounds the error of a value in which everything is wrong.
func TestManyFaults(t *testing.T) {
	var properties, value []string
	for i := range 100 {
		properties = append(properties, fmt.Sprintf(`"property_%03d":{"type":"integer"}`, i))
		value = append(value, fmt.Sprintf(`"property_%03d":%q`, i, strings.Repeat("é", 500)))
	}
	_, err := compile(t, closed(strings.Join(properties, ","))).Parse("{" + strings.Join(value, ",") + "}")
	m := fault.Message(err)
	if len(m) > 2048 || strings.Count(m, "expected integer") != 8 || !strings.Contains(m, "and 92 more") || !strings.Contains(m, "property_000") {
		t.Errorf("%d bytes: %s", len(m), m)
	}
}

// TestAlternatives explains values that fit no branch of a union.
func TestAlternatives(t *testing.T) {
	for _, test := range []struct{ schema, value, want string }{
		{`{"anyOf":[{"type":"integer"},{"type":"null"}]}`, `"x"`, `a: expected integer or null, got string "x"`},
		{`{"anyOf":[{"type":"null"},{"type":"object","required":["k"]}]}`, `{}`, `a.k: required`},
		{`{"oneOf":[{"type":"object","required":["k"]},{"type":"object","required":["l"]}]}`, `{}`, `fits none of the alternatives: (1) a.k: required, but missing (2) a.l: required`},
		{`{"oneOf":[{"type":"integer"},{"minimum":1}]}`, `2`, `fits more than one of the alternatives (numbers 1 and 2)`},
		{`{"not":{"type":"string"}}`, `"x"`, `a: has a form that is excluded`},
		{`{"const":"v1"}`, `"v2"`, `a: must be string "v1", got string "v2"`},
		{`{"dependentRequired":{"x":["y"]}}`, `{"x":1}`, `with "x" also required: y`},
		{`{"type":"array","uniqueItems":true}`, `[1,1.0]`, `items 0 and 1 are equal`},
		{`{"multipleOf":0.1}`, `0.25`, `must be a multiple of 0.1, got 0.25`},
		{`{"maximum":9007199254740992}`, `9007199254740993`, `must be at most 9007199254740992, got 9007199254740993`},
		{`{"propertyNames":{"pattern":"^x"}}`, `{"y":1}`, `property name "y" is not allowed`},
		{`{"type":"string","maxLength":2}`, `"é😀z"`, `at most 2 characters, has 3`},
		{`{"type":"string","pattern":"^a"}`, `"b"`, `string "b" does not match the pattern ^a`},
		{`{"contains":{"type":"string"}}`, `[1]`, `too few items of the required form`},
		{`{"unevaluatedProperties":false,"properties":{"b":{}}}`, `{"c":1}`, `a.c: must not be given`},
	} {
		_, err := compile(t, `{"properties":{"a":`+test.schema+`}}`).Parse(`{"a":` + test.value + `}`)
		if err == nil || !strings.Contains(fault.Message(err), test.want) {
			t.Errorf("%s of %s: %v", test.value, test.schema, err)
		}
	}
}

// TestUnfitDefaults finds defaults that their own property refuses, wherever they stand.
func TestUnfitDefaults(t *testing.T) {
	s := compile(t, `{
		"$defs":{"n":{"type":"integer","default":"x"}},
		"properties":{
			"a":{"type":"integer","default":"1"},"b":{"type":"integer","default":1},"c":{"$ref":"#/$defs/n"},"d":{"default":null},
			"e":{"type":"object","properties":{"f":{"enum":["x"],"default":"y"}}}
		}}`)
	if diff := cmp.Diff([]string{"/properties/e f", "its root a", "its root c"}, s.UnfitDefaults()); diff != "" {
		t.Error(diff)
	}
	if got := compile(t, weather).UnfitDefaults(); len(got) > 0 {
		t.Errorf("fitting defaults: %v", got)
	}
}
