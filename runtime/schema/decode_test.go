package schema_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/schema"
)

func TestCanonical(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{` {"b" : [ ] , "a":{}} `, `{"a":{},"b":[]}`},
		{`{"é":1,"z":2,"a\u0000":3}`, `{"a\u0000":3,"z":2,"é":1}`},
		{`"\u003c\/\u2028\u00e9\ud83d\ude00\b\f\n\r\t\u001f\u007f"`, `"</` + "\u2028é😀" + `\b\f\n\r\t\u001f` + "\x7f" + `"`},
		{`[1.0,1e2,-0,0.10,12345678901234567890]`, `[1.0,1e2,-0,0.10,12345678901234567890]`},
		{`"&<>'"`, `"&<>'"`},
		{`{"":{"":{}}}`, `{"":{"":{}}}`},
		{`true`, `true`},
	} {
		got, err := schema.Canonical([]byte(test.in))
		if err != nil {
			t.Errorf("%s: %v", test.in, err)
		} else if diff := cmp.Diff(test.want, string(got)); diff != "" {
			t.Error(diff)
		}
	}
	for _, bad := range []string{``, ` `, `nul`, `[1`, `1 2`, `{"a":1,"a":1}`, "\ufeff{}", "{}\x00", `'a'`, `[1,]`, `+1`, `.5`, `0x1`, `"\x41"`, `1e`, `--1`} {
		if got, err := schema.Canonical([]byte(bad)); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q: got %s, %v", bad, got, err)
		}
	}
}

// FuzzCanonical holds the decoder against the standard library's: the same texts are
// JSON, up to what is stricter here, and they mean the same.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,2.5e3,{"b":null}],"c":"\u00e9\ud83d\ude00"}`, `"\ud83d"`, "\"\xff\"", `[1,]`, `01`, `-`, `{"a":1,"a":2}`, `1e400`, ` true `, `"\`, `{"a"`,
		`[[[[]]]]`, `"\u12`, `nul`, `-0.0e-0`, "\"\x7f\x00\"", `{"":0}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := schema.Canonical(raw)
		if err != nil {
			return
		}
		if !json.Valid(raw) || !utf8.Valid(got) {
			t.Fatalf("%q became %q", raw, got)
		}
		if diff := cmp.Diff(standard(t, raw), standard(t, got)); diff != "" {
			t.Fatalf("%q became %q: %s", raw, got, diff)
		}
		if again, err := schema.Canonical(got); err != nil || !bytes.Equal(again, got) {
			t.Fatalf("%q became %q (%v)", got, again, err)
		}
	})
}

func standard(t *testing.T, raw []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%q: %v", raw, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		t.Fatalf("%q: more than one value", raw)
	}
	return v
}

// FuzzCompile compiles any text: it never panics, and what compiles is canonical,
// compiles again to the same, and takes arguments without a panic.
func FuzzCompile(f *testing.F) {
	for _, s := range []string{
		`{}`, weather, `{"properties":{"a":{"$ref":"#/properties/b"},"b":{"anyOf":[{"$ref":"#"},{"type":"null"}]}}}`,
		`{"$defs":{"a":{"$dynamicAnchor":"x"}},"$dynamicRef":"#x"}`, `{"$id":"x","$ref":"x"}`, `{"type":["object"],"if":true,"then":false}`,
		`{"$schema":"http://json-schema.org/draft-04/schema#","id":"x","properties":{"a":{"exclusiveMinimum":true,"minimum":1}}}`,
		`{"properties":{"a":{"default":{"b":1},"properties":{"b":{"type":"string","default":"x"}}}}}`, `{"allOf":[{"$ref":"#/$defs/x"}],"$defs":{"x":{"allOf":[{"$ref":"#"}]}}}`,
		`{"unevaluatedProperties":{"type":"integer"},"dependentSchemas":{"a":{"required":["b"]}},"patternProperties":{"^x":{"type":"array","prefixItems":[{}],"items":false}}}`,
	} {
		f.Add(s, `{"a":"1","b":[{}],"x":["2"]}`)
	}
	f.Fuzz(func(t *testing.T, text, arguments string) {
		s, err := schema.Compile(json.RawMessage(text))
		if err != nil {
			if k := fault.KindOf(err); k != fault.Invalid && k != fault.TooLarge || len(fault.Message(err)) > 3000 {
				t.Fatalf("%v", err)
			}
			return
		}
		again, err := schema.Compile(s.JSON())
		if err != nil || !bytes.Equal(again.JSON(), s.JSON()) {
			t.Fatalf("%s became %s (%v)", s.JSON(), again.JSON(), err)
		}
		s.Property("a", "b", "0")
		if out, err := s.Parse(arguments); err == nil {
			if err := s.Validate(out); err != nil {
				t.Fatalf("%s takes %s as %s, which is invalid: %v", s.JSON(), arguments, out, err)
			}
		}
	})
}
