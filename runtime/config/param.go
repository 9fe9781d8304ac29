package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/late"
	"github.com/hermes-runtime/hermes/runtime/schema"
)

// param is one param block.
type param struct {
	name     string
	at       hcl.Range
	block    *hclsyntax.Block
	typ      *typ
	text     Text
	required *bool
	// sensitive says that its value is masked where it would be shown or stored.
	sensitive bool
	// words are the keywords of JSON Schema that were given, with plain values.
	words map[string]any
}

// keyword is an attribute of param that becomes a keyword of JSON Schema.
type keyword struct {
	attr, word, doc string
	typ             string // of the attribute
	kinds           []string
}

func keywords() []keyword {
	numeric, text, lists := []string{"number", "integer"}, []string{"string"}, []string{"list", "set"}
	return []keyword{
		{"enum", "enum", "The values there are.", "list", nil},
		{"minimum", "minimum", "The least number.", "number", numeric},
		{"maximum", "maximum", "The greatest number.", "number", numeric},
		{"min_length", "minLength", "The fewest characters.", "integer", text},
		{"max_length", "maxLength", "The most characters.", "integer", text},
		{"pattern", "pattern", "An RE2 pattern that is found in it.", "pattern", text},
		{"format", "format", "The format, for example \"date-time\"; it is checked.", "string", text},
		{"min_items", "minItems", "The fewest elements.", "integer", lists},
		{"max_items", "maxItems", "The most elements.", "integer", lists},
		{"examples", "examples", "Examples for the model.", "list", nil},
		{"default", "default", "Its value if the model leaves it out, which makes it optional.", "any", nil},
	}
}

func paramField() *field[toolBlock] {
	b := paramBody()
	return many("param", b.describe(), func(f *frame, nb *hclsyntax.Block, t *toolBlock) {
		if !f.labels(nb, `param "NAME"`, 1) {
			return
		}
		p := &param{name: nb.Labels[0], at: nb.LabelRanges[0], block: nb, words: map[string]any{}}
		for _, o := range t.params {
			if o.name == p.name {
				f.errorf(p.at, fmt.Sprintf("Duplicate param %q", p.name), "The tool declares this parameter already, at %s.", f.pos(o.at))
			}
		}
		if !paramName(p.name) {
			f.errorf(p.at, fmt.Sprintf("Invalid name %q", p.name), "The name of a parameter has letters, digits, -, _ and . only, at most 64 characters.")
		}
		decode(f, b, nb, p)
		f.checkParam(p)
		t.params = append(t.params, p)
	})
}

func paramName(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.", r)
	}) < 0
}

func paramBody() *body[param] {
	fields := []*field[param]{
		custom("type", "type", "What it may be: string, number, integer, bool, any, list(T), set(T), map(T), tuple([…]) or object({ name = T, … }).", func(f *frame, a *hclsyntax.Attribute, p *param) { p.typ = f.typeExpr(a.Expr) }),
		custom("description", "string", "What the model reads about it.", func(f *frame, a *hclsyntax.Attribute, p *param) {
			if text, ok := f.text(a); ok {
				p.text = text
			}
		}),
		noted("required", pointer(boolKind()), "true without a default", "Whether the model must give it.", func(p *param) **bool { return &p.required }),
	}
	fields[0].required = true
	fields[1].late = descriptionNames()
	for _, k := range keywords() {
		fields = append(fields, custom(k.attr, k.typ, k.doc, func(f *frame, a *hclsyntax.Attribute, p *param) { f.keyword(k, a, p) }))
	}
	fields = append(fields, opt("sensitive", boolKind(), false, "Whether its value is masked in logs and stores.", func(p *param) *bool { return &p.sensitive }))
	return withHints(newBody(`param "NAME"`, "One argument of the tool.", fields...), map[string]string{
		"optional": "Write required = false, or give a default.", "values": `Did you mean "enum"?`, "min": `Did you mean "minimum"?`, "max": `Did you mean "maximum"?`,
	})
}

// keyword evaluates an attribute and checks its own form.
func (f *frame) keyword(k keyword, a *hclsyntax.Attribute, p *param) {
	v, ok := f.plainValue(k.attr, a.Expr)
	if !ok || (v == nil && k.attr != "default") {
		return
	}
	bad := ""
	switch k.typ {
	case "list":
		if list, ok := v.([]any); !ok || len(list) == 0 {
			bad = "This must be a list with at least one element."
		}
	case "number":
		bad = sentence((&typ{kind: "number"}).accepts(v))
	case "integer":
		n, ok := v.(json.Number)
		if !ok || !isInteger(n) || strings.HasPrefix(n.String(), "-") {
			bad = "This must be a whole number, 0 or more."
		}
	case "string":
		bad = sentence((&typ{kind: "string"}).accepts(v))
	case "pattern":
		s, ok := v.(string)
		if _, err := regexp.Compile(s); !ok {
			bad = "This must be a pattern in double quotes."
		} else if err != nil {
			bad = fmt.Sprintf("The pattern is not RE2: %s.", err)
		}
	}
	if bad != "" {
		f.errorf(a.Expr.Range(), "Invalid "+k.attr, "%s", bad)
		return
	}
	p.words[k.word] = v
}

// checkParam holds the keywords against the type and each other.
func (f *frame) checkParam(p *param) {
	if p.typ == nil {
		return
	}
	for _, k := range f.ld.lang.keywords {
		if _, ok := p.words[k.word]; ok && k.kinds != nil && !slices.Contains(k.kinds, p.typ.kind) {
			f.errorf(p.block.Body.Attributes[k.attr].NameRange, "Invalid "+k.attr, "%q is for parameters of type %s; this one is %s.", k.attr, strings.Join(k.kinds, " or "), article(p.typ.String()))
			delete(p.words, k.word)
		}
	}
	for _, pair := range [][2]string{{"minimum", "maximum"}, {"minLength", "maxLength"}, {"minItems", "maxItems"}} {
		if less(p.words[pair[1]], p.words[pair[0]]) {
			f.errorf(p.place(pair[1]), "Conflicting bounds", "The greatest value is less than the least, so nothing would fit.")
		}
	}
	if list, ok := p.words["enum"].([]any); ok {
		f.checkEnum(p, list)
	}
	if list, ok := p.words["examples"].([]any); ok {
		for i, v := range list {
			if bad := p.rejects(v); bad != "" {
				f.errorf(elementRange(p.block, "examples", i), "Invalid examples", "The example does not fit: %s.", bad)
			}
		}
	}
	if v, ok := p.words["default"]; ok {
		f.checkDefault(p, v)
	}
}

func (f *frame) checkEnum(p *param, list []any) {
	for i, v := range list {
		at := elementRange(p.block, "enum", i)
		if bad := p.typ.accepts(v); bad != "" {
			f.errorf(at, "Invalid enum", "The value does not fit the type %s: %s.", p.typ, bad)
		} else if bad := p.outOfBounds(v); bad != "" {
			f.errorf(at, "Invalid enum", "The value can never be given: %s.", bad)
		}
		for _, o := range list[:i] {
			if reflect.DeepEqual(o, v) {
				f.errorf(at, "Duplicate enum value", "The value stands in the list already.")
				break
			}
		}
	}
}

func (f *frame) checkDefault(p *param, v any) {
	at := attrRange(p.block, "default")
	if p.required != nil && *p.required {
		f.errorf(attrRange(p.block, "required"), "Conflicting required", "A parameter with a default is never required: remove one of the two.")
	}
	if bad := p.rejects(v); bad != "" {
		f.errorf(at, "Invalid default", "The default does not fit its parameter: %s.", bad)
		return
	}
	if p.words["format"] != nil || p.typ.elem != nil || p.typ.props != nil {
		f.againstSchema(p, v, at)
	}
}

// againstSchema leaves to the validator what it alone knows: formats, and what nests.
func (f *frame) againstSchema(p *param, v any, at hcl.Range) {
	raw, err := encodeJSON(map[string]any{"type": "object", "properties": map[string]any{"value": p.schema()}})
	if err != nil {
		return
	}
	s, err := f.ld.cache.compile(raw)
	if err != nil {
		return // the schema as a whole is reported
	}
	value, err := encodeJSON(map[string]any{"value": v})
	if err != nil {
		return
	}
	if err := s.Validate(value); err != nil {
		f.errorf(at, "Invalid default", "The default does not fit its parameter: %s", sentence(strings.TrimPrefix(err.Error(), "value: ")))
	}
}

// rejects says why a value does not fit, "" if it does.
func (p *param) rejects(v any) string {
	if bad := p.typ.accepts(v); bad != "" {
		return bad
	}
	if list, ok := p.words["enum"].([]any); ok && !slices.ContainsFunc(list, func(o any) bool { return equalPlain(o, v) }) {
		return "it is not in enum"
	}
	return p.outOfBounds(v)
}

func equalPlain(a, b any) bool {
	x, ok1 := a.(json.Number)
	y, ok2 := b.(json.Number)
	if ok1 && ok2 {
		return !less(x, y) && !less(y, x)
	}
	return jsonText(a) == jsonText(b)
}

func (p *param) outOfBounds(v any) string {
	switch v := v.(type) {
	case json.Number:
		if p.words["minimum"] != nil && less(v, p.words["minimum"]) {
			return fmt.Sprintf("it is less than the minimum %s", p.words["minimum"])
		}
		if p.words["maximum"] != nil && less(p.words["maximum"], v) {
			return fmt.Sprintf("it is greater than the maximum %s", p.words["maximum"])
		}
	case string:
		if pat, ok := p.words["pattern"].(string); ok {
			if re, err := regexp.Compile(pat); err == nil && !re.MatchString(v) {
				return "it does not match the pattern"
			}
		}
		return p.sized(utf8.RuneCountInString(v), "minLength", "maxLength", "characters")
	case []any:
		return p.sized(len(v), "minItems", "maxItems", "elements")
	}
	return ""
}

func (p *param) sized(n int, least, most, unit string) string {
	size := json.Number(fmt.Sprint(n))
	if p.words[least] != nil && less(size, p.words[least]) {
		return fmt.Sprintf("it has fewer than %s %s", p.words[least], unit)
	}
	if p.words[most] != nil && less(p.words[most], size) {
		return fmt.Sprintf("it has more than %s %s", p.words[most], unit)
	}
	return ""
}

// less compares two json.Numbers; false if either is none.
func less(a, b any) bool {
	x, ok1 := a.(json.Number)
	y, ok2 := b.(json.Number)
	if !ok1 || !ok2 {
		return false
	}
	ix, e1 := strconv.ParseInt(x.String(), 10, 64)
	iy, e2 := strconv.ParseInt(y.String(), 10, 64)
	if e1 == nil && e2 == nil {
		return ix < iy
	}
	fx, _, err1 := big.ParseFloat(x.String(), 10, 512, big.ToNearestEven)
	fy, _, err2 := big.ParseFloat(y.String(), 10, 512, big.ToNearestEven)
	return err1 == nil && err2 == nil && fx.Cmp(fy) < 0
}

func (p *param) place(word string) hcl.Range {
	for _, k := range keywords() {
		if k.word == word {
			return attrRange(p.block, k.attr)
		}
	}
	return p.at
}

// schema is the parameter's JSON Schema.
func (p *param) schema() map[string]any {
	s := p.typ.schema()
	maps.Copy(s, p.words)
	if p.text.Late == nil && p.text.Static != "" {
		s["description"] = p.text.Static
	}
	return s
}

func (p *param) isRequired() bool {
	if _, ok := p.words["default"]; ok {
		return false
	}
	return p.required == nil || *p.required
}

// parameters makes the schema of the tool.
func (f *frame) parameters(t *toolBlock, fn *hostfuncs.Func) {
	declared := t.schema != nil || len(t.params) > 0
	if t.schema != nil && len(t.params) > 0 {
		f.errorf(t.schema.NameRange, "Conflicting schema", "A tool has either param blocks or a schema, not both.")
		return
	}
	var raw json.RawMessage
	ok := true
	switch {
	case t.schema != nil:
		raw, ok = f.rawSchema(t.schema)
	case declared:
		raw, ok = f.paramSchema(t)
	case fn != nil && !fn.Open:
		raw = fn.Params
	default:
		raw = json.RawMessage(`{"additionalProperties":false,"properties":{},"type":"object"}`)
	}
	if !ok {
		return
	}
	s, err := f.ld.cache.compile(raw)
	if err != nil && t.schema != nil && !f.sound(t.schema) {
		return
	}
	if err != nil {
		at := t.block.DefRange()
		if t.schema != nil {
			at = t.schema.Expr.Range()
		}
		f.errorf(at, "Invalid schema", "The JSON Schema of the arguments does not compile: %s", sentence(err.Error()))
		return
	}
	t.out.Schema = s
	if t.schema != nil {
		f.unfitDefaults(t.schema, s.UnfitDefaults())
	}
	if declared && fn != nil && !fn.Open {
		f.accepted(t, fn, s)
	}
}

func (f *frame) rawSchema(a *hclsyntax.Attribute) (json.RawMessage, bool) {
	if raw, ok := f.schemaText(a.Expr); ok {
		return raw, len(raw) <= schema.MaxSchemaBytes || f.tooLarge(a)
	}
	v, ok := f.plainValue("schema", a.Expr)
	if !ok {
		return nil, false
	}
	if !is[map[string]any](v) {
		f.errorf(a.Expr.Range(), "Invalid schema", "This must be an object, for example jsondecode(file(\"weather.schema.json\")), not %s.", plainType(v))
		return nil, false
	}
	raw, err := encodeJSON(v)
	return raw, err == nil && len(raw) <= schema.MaxSchemaBytes || f.tooLarge(a)
}

// schemaText is the text that jsondecode is given, if the schema is nothing but its
// result: most schemas are, and the schema package reads the text itself, more strictly
// and without making values of the language of it.
func (f *frame) schemaText(expr hclsyntax.Expression) (json.RawMessage, bool) {
	call, ok := expr.(*hclsyntax.FunctionCallExpr)
	if !ok || call.Name != "jsondecode" || len(call.Args) != 1 || call.ExpandFinal {
		return nil, false
	}
	before, bad, poisoned := len(f.diags), f.bad, f.poisoned
	v, ok := f.value(call.Args[0])
	if !ok || v.ContainsMarked() || !v.IsKnown() || v.IsNull() || v.Type() != cty.String || !strings.HasPrefix(strings.TrimSpace(v.AsString()), "{") {
		f.diags, f.bad, f.poisoned = f.diags[:before], bad, poisoned // the whole expression says what is wrong
		return nil, false
	}
	return json.RawMessage(v.AsString()), true
}

// sound reports what is wrong with the expression of a schema, if anything is: then its
// text need not be reported too.
func (f *frame) sound(a *hclsyntax.Attribute) bool {
	_, ok := f.plainValue("schema", a.Expr)
	return ok
}

// unfitDefaults warns of defaults that are never filled in.
func (f *frame) unfitDefaults(a *hclsyntax.Attribute, unfit []string) {
	for _, place := range unfit {
		i := strings.LastIndexByte(place, ' ')
		where, name := place[:i], place[i+1:]
		if where != "its root" {
			name = where + "/properties/" + name
		}
		f.warnf(a.NameRange, fmt.Sprintf("Invalid default of %q", name), "The default does not fit the property itself, so it is never filled in: a call that leaves the argument out goes on without it. Correct the default or the type in the schema, or remove the default.")
	}
}

func (f *frame) tooLarge(a *hclsyntax.Attribute) bool {
	f.errorf(a.Expr.Range(), "Invalid schema", "The schema has more than %s.", ShowSize(schema.MaxSchemaBytes))
	return false
}

func (f *frame) paramSchema(t *toolBlock) (json.RawMessage, bool) {
	props, required := map[string]any{}, []any{}
	for _, p := range t.params {
		if p.typ == nil {
			return nil, false
		}
		props[p.name] = p.schema()
		if p.text.Late != nil {
			if t.out.ParamText == nil {
				t.out.ParamText = map[string]late.Expr{}
			}
			t.out.ParamText[p.name] = p.text.Late
		}
		if p.isRequired() {
			required = append(required, p.name)
		}
	}
	slices.SortFunc(required, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	s := map[string]any{"type": "object", "properties": props, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	raw, err := encodeJSON(s)
	return raw, err == nil
}
