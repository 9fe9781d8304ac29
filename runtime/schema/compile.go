package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// location is the address a schema is compiled under. It leads nowhere.
const location = "hermes:///schema"

// closed is the loader of schemas: it refuses everything. The library's own would
// read files.
type closed struct{}

// errOutside is the cause of an error about a reference that leaves the schema.
var errOutside = errors.New("outside references are refused")

// Load refuses.
func (closed) Load(string) (any, error) { return nil, errOutside }

// Compile checks a JSON Schema and prepares it for arguments. The dialect is 2020-12
// unless "$schema" names another that is known (draft-04 to 2019-09). Formats are
// asserted, patterns are RE2, references to anything outside the schema are refused.
// The root must be an object schema whose values are objects; "type":"object" is
// added where it is missing, so that every provider reads it the same.
func Compile(raw json.RawMessage) (*Schema, error) {
	v, syntax := decode(string(raw), schemaBounds)
	if syntax != nil {
		return nil, syntax.fault("the schema")
	}
	tree, ok := v.(map[string]any)
	if !ok {
		return nil, fault.New(fault.Invalid, "the schema: must be a JSON object, got %s", typeName(v))
	}
	if err := rootType(tree); err != nil {
		return nil, err
	}
	if err := lint(tree); err != nil {
		return nil, err
	}
	compiled, err := compile(tree)
	if err != nil {
		return nil, err
	}
	canonical := encode(tree, len(raw)+16)
	s := &Schema{raw: canonical, digest: digestOf(canonical), tree: tree, compiled: compiled}
	s.costly = isCostly(compiled)
	s.plan, s.unfit = newPlan(compiled)
	return s, nil
}

// rootType makes sure that the root describes objects and says so.
func rootType(tree map[string]any) error {
	switch t := tree["type"].(type) {
	case nil:
		tree["type"] = "object"
	case string:
		if t != "object" {
			return errRoot()
		}
	case []any:
		if !slices.Contains(t, any("object")) {
			return errRoot()
		}
	}
	return nil
}

func errRoot() error {
	return fault.New(fault.Invalid, "the schema: arguments are an object, so the root needs \"type\":\"object\"")
}

func compile(tree map[string]any) (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(closed{})
	c.AssertFormat()
	if err := c.AddResource(location, tree); err != nil {
		return nil, explainCompile(err)
	}
	compiled, err := c.Compile(location)
	if err != nil {
		return nil, explainCompile(err)
	}
	return compiled, nil
}

// explainCompile says in our words what the library found wrong with a schema.
func explainCompile(err error) error {
	var (
		load    *jsonschema.LoadURLError
		meta    *jsonschema.SchemaValidationError
		regex   *jsonschema.InvalidRegexError
		pointer *jsonschema.JSONPointerNotFoundError
		anchor  *jsonschema.AnchorNotFoundError
		draft   *jsonschema.UnsupportedDraftError
		verr    *jsonschema.ValidationError
	)
	switch {
	case errors.As(err, &load):
		return fault.New(fault.Invalid, "the schema: %q is outside the schema; only references into the schema itself (\"#/$defs/…\") and the standard dialects are allowed", excerpt(strings.TrimPrefix(load.URL, "hermes:///")))
	case errors.As(err, &draft):
		return fault.New(fault.Invalid, "the schema: the dialect %q is not known; leave \"$schema\" out for 2020-12", excerpt(draft.URL))
	case errors.As(err, &regex):
		return fault.New(fault.Invalid, "the schema at %s: the pattern %q is not RE2 syntax (no lookahead, lookbehind or backreference)", place(regex.URL), excerpt(regex.Regex))
	case errors.As(err, &pointer):
		return fault.New(fault.Invalid, "the schema: the reference %q points to nothing in the schema", "#"+fragment(pointer.URL))
	case errors.As(err, &anchor):
		return fault.New(fault.Invalid, "the schema: the reference %q names an anchor that the schema does not have", strings.TrimPrefix(anchor.Reference, location))
	case errors.As(err, &meta) && errors.As(meta.Err, &verr):
		return fault.New(fault.Invalid, "the schema: %s", joinFindings(findings(verr)))
	}
	return fault.New(fault.Invalid, "the schema: %s", fault.Cut(strings.ReplaceAll(err.Error(), location, ""), 500))
}

// place is the readable position in the schema that a location of the library names.
func place(url string) string {
	if f := fragment(url); f != "" {
		return f
	}
	return "its root"
}

// typeName is the JSON type of a decoded value.
func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case json.Number:
		return "number"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return fmt.Sprintf("%T", v)
}
