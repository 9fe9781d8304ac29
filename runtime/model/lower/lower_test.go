package lower_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/model/lower"
	"github.com/hermes-runtime/hermes/runtime/schema"
)

func definition(t testing.TB, parameters string) chat.Definition {
	t.Helper()
	b, err := json.Marshal(map[string]any{"type": "function", "function": map[string]any{"name": "x", "description": "d", "parameters": json.RawMessage(parameters)}})
	if err != nil {
		t.Fatal(err)
	}
	return chat.Definition{Name: "x", JSON: b}
}

func parametersOf(t testing.TB, d chat.Definition) (json.RawMessage, string) {
	t.Helper()
	var e struct {
		Function struct {
			Parameters  json.RawMessage
			Description string
		}
	}
	if err := json.Unmarshal(d.JSON, &e); err != nil {
		t.Fatal(err)
	}
	return e.Function.Parameters, e.Function.Description
}

func profiles() []lower.Profile {
	return []lower.Profile{lower.OpenAI(), lower.Anthropic(), lower.Gemini()}
}

// nasty are schemas that providers refused, and arguments that each allows.
var nasty = map[string]struct {
	parameters string
	valid      []string
}{
	"anyOf of required":          {`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"anyOf":[{"required":["a"]},{"required":["b"]}]}`, []string{`{"a":"x"}`, `{"b":"x"}`}},
	"oneOf of objects":           {`{"oneOf":[{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false},{"type":"object","properties":{"b":{"type":"integer"},"a":{"type":"integer"}},"required":["b"],"additionalProperties":false}]}`, []string{`{"a":"x"}`, `{"b":1}`, `{"b":1,"a":2}`}},
	"open branches":              {`{"anyOf":[{"properties":{"a":{"type":"string","description":"A"}},"required":["a"]},{"properties":{"b":{"type":"integer"}},"required":["b"]}]}`, []string{`{"a":"x"}`, `{"b":1,"a":7}`}},
	"allOf":                      {`{"allOf":[{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"a":{"maxLength":3},"b":{}},"required":["b"]}]}`, []string{`{"a":"x","b":1}`}},
	"a reference at the root":    {`{"$ref":"#/$defs/in","$defs":{"in":{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}}},"n":{"type":"integer"}}}`, []string{`{"n":1}`}},
	"recursive":                  {`{"type":"object","properties":{"tree":{"$ref":"#/$defs/node"}},"$defs":{"node":{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#/$defs/node"}},"v":{"type":"integer"}}}}}`, []string{`{"tree":{"kids":[{"kids":[{"v":1}]}],"v":2}}`}},
	"lists without items":        {`{"type":"object","properties":{"l":{"type":"array"},"m":{"type":["array","null"]}}}`, []string{`{"l":[1,"x"],"m":null}`}},
	"no type":                    {`{"properties":{"a":{}}}`, []string{`{"a":[]}`}},
	"nothing at all":             {`{}`, []string{`{}`, `{"x":1}`}},
	"conditions":                 {`{"type":"object","properties":{"a":{},"b":{}},"if":{"properties":{"a":{"const":1}}},"then":{"required":["b"]},"not":{"required":["c"]},"dependentRequired":{"a":["b"]}}`, []string{`{"a":2,"b":1}`, `{"b":1}`}},
	"several types":              {`{"type":["object","null"],"properties":{"a":{"type":["string","integer"]},"b":{"type":["string","null"]}}}`, []string{`{"a":1,"b":null}`, `{"a":"x","b":"y"}`}},
	"numbers":                    {`{"type":"object","properties":{"n":{"type":"number","exclusiveMinimum":0,"multipleOf":0.5},"c":{"const":7},"e":{"enum":[1,2,"x"]}}}`, []string{`{"n":0.5,"c":7,"e":"x"}`, `{"e":2}`}},
	"texts":                      {`{"type":"object","properties":{"u":{"type":"string","format":"uri"},"k":{"const":"v"},"o":{"oneOf":[{"type":"string"},{"type":"integer"}]}},"additionalProperties":{"type":"string"}}`, []string{`{"u":"https://x","k":"v","o":1,"more":"x"}`}},
	"a place that cannot be":     {`{"type":"object","properties":{"a":false,"b":true}}`, []string{`{"b":1}`}},
	"tuples and unique":          {`{"type":"object","properties":{"t":{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],"items":false},"s":{"type":"array","items":{"type":"string"},"uniqueItems":true}}}`, []string{`{"t":["x",1],"s":["a","b"]}`}},
	"combinators in combinators": {`{"anyOf":[{"allOf":[{"required":["a"]}]},{"oneOf":[{"required":["b"]}]}],"properties":{"a":{},"b":{}}}`, []string{`{"a":1}`, `{"b":1}`}},
	"a schema of its own":        {`{"$schema":"http://json-schema.org/draft-07/schema#","$id":"https://x/y","type":"object","properties":{"a":{"$ref":"#/definitions/a"}},"definitions":{"a":{"type":"string"}}}`, []string{`{"a":"x"}`}},
}

// TestLowering: no combinator is left at the root, lists have items, references lead
// somewhere, the same comes out a second time, and what was valid is.
func TestLowering(t *testing.T) {
	for name, c := range nasty {
		for _, p := range profiles() {
			d := definition(t, c.parameters)
			sent, changes, err := lower.Definition(d, p)
			if err != nil {
				t.Errorf("%s, %s: %v", name, p.Name, err)
				continue
			}
			low, _ := parametersOf(t, sent)
			acceptable(t, name+", "+p.Name, low, p)
			again, more, err := lower.Definition(sent, p)
			if err != nil || len(more) > 0 || !bytes.Equal(again.JSON, sent.JSON) {
				t.Errorf("%s, %s: a second time it changes (%v): %v\n%s\n%s", name, p.Name, err, more, sent.JSON, again.JSON)
			}
			if len(changes) == 0 && !bytes.Equal(sent.JSON, d.JSON) {
				t.Errorf("%s, %s: changed without a word", name, p.Name)
			}
			wider(t, name+", "+p.Name, json.RawMessage(c.parameters), low, c.valid)
		}
	}
}

// wider holds arguments that the declared schema allows against the lowered one.
func wider(t *testing.T, name string, declared, low json.RawMessage, valid []string) {
	t.Helper()
	was, err := schema.Compile(declared)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	// nullable is a provider's own word.
	now, err := schema.Compile(bytes.ReplaceAll(low, []byte(`"nullable":true,"type":"string"`), []byte(`"type":["string","null"]`)))
	if err != nil {
		t.Fatalf("%s: %s: %v", name, low, err)
	}
	for _, v := range valid {
		if err := was.Validate(json.RawMessage(v)); err != nil {
			t.Errorf("%s: %s is not valid as declared: %v", name, v, err)
		}
		if err := now.Validate(json.RawMessage(v)); err != nil && !strings.Contains(string(low), "nullable") {
			t.Errorf("%s: %s is not valid any more under %s: %v", name, v, low, err)
		}
	}
}

// acceptable holds a schema against what providers refuse.
func acceptable(t *testing.T, name string, low json.RawMessage, p lower.Profile) {
	t.Helper()
	var root map[string]any
	if err := json.Unmarshal(low, &root); err != nil {
		t.Fatal(err)
	}
	if root["type"] != "object" {
		t.Errorf("%s: the root is of type %v", name, root["type"])
	}
	for _, w := range []string{"anyOf", "oneOf", "allOf", "not", "enum", "const", "if", "$ref"} {
		if root[w] != nil {
			t.Errorf("%s: %s at the root", name, w)
		}
	}
	var walk func(v any, inNames bool)
	walk = func(v any, inNames bool) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e, false)
			}
		case map[string]any:
			if !inNames {
				if v["type"] == "array" && v["items"] == nil && v["prefixItems"] == nil {
					t.Errorf("%s: a list without items: %v", name, v)
				}
				if ref, ok := v["$ref"].(string); ok {
					parts := strings.Split(ref, "/")
					if defs, _ := root[parts[1]].(map[string]any); defs[parts[len(parts)-1]] == nil {
						t.Errorf("%s: %s leads nowhere", name, ref)
					}
				}
			}
			for k, e := range v {
				if !inNames && p.Keywords != nil && !p.Keywords[k] {
					t.Errorf("%s: %s is not known to %s", name, k, p.Name)
				}
				if k != "enum" && k != "default" && k != "example" {
					walk(e, !inNames && (k == "properties" || k == "$defs" || k == "definitions"))
				}
			}
		}
	}
	walk(root, false)
}

func TestWhatCannotBeSent(t *testing.T) {
	for parameters, want := range map[string]string{
		`{"type":"string"}`: "of type string", `{"type":["array","null"]}`: "no object", `[1]`: "not an object", `"x"`: "not an object",
		`{"type":"object","properties":{"a":{"type":"string","description":"` + strings.Repeat("x", 256<<10) + `"}}}`: "takes 262144 at most",
	} {
		if _, _, err := lower.Definition(definition(t, parameters), lower.OpenAI()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", parameters, err, want)
		}
	}
}

// TestWhatIsFineStays: a plain definition is sent byte for byte.
func TestWhatIsFineStays(t *testing.T) {
	d := definition(t, `{"additionalProperties":false,"properties":{"city":{"description":"City","type":"string"},"l":{"items":{"oneOf":[{"type":"string"},{"type":"null"}]},"type":"array"}},"required":["city"],"type":"object"}`)
	sent, changes, err := lower.Definition(d, lower.OpenAI())
	if err != nil || len(changes) > 0 || !bytes.Equal(sent.JSON, d.JSON) {
		t.Errorf("%v, %v: %s", err, changes, sent.JSON)
	}
}

// TestDataSet lowers the tools of a data set for every provider; the valid calls stay so.
func TestDataSet(t *testing.T) {
	f, err := os.Open(filepath.Join("..", "..", "..", "..", "shared", "data", "bfcl", "calls.jsonl"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the data set is not there: put calls.jsonl of BFCL into ../shared/data/bfcl beside the repository")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	n := 0
	for lines := bufio.NewScanner(bufio.NewReaderSize(f, 1<<20)); lines.Scan(); {
		var c struct {
			Schema    json.RawMessage
			Arguments json.RawMessage
			Valid     bool
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		if !c.Valid {
			continue
		}
		n++
		for _, p := range profiles() {
			sent, _, err := lower.Definition(definition(t, string(c.Schema)), p)
			if err != nil {
				t.Fatal(err)
			}
			low, _ := parametersOf(t, sent)
			acceptable(t, p.Name, low, p)
			wider(t, p.Name, c.Schema, low, []string{string(c.Arguments)})
		}
	}
	if n < 1000 {
		t.Errorf("%d calls: too little was tried", n)
	}
}
