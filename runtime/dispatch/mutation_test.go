package dispatch_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/dispatch"
	"github.com/hermes-runtime/hermes/runtime/fault"
)

// mutant is a call that was changed by one rule, and what the oracle says of it. The oracle
// knows the call as it was and the rule, and nothing of how arguments are read.
type mutant struct {
	name string // of the tool, as written
	text string // of the arguments
	// want is what the handler must get; nil: the call must not run.
	want []byte
}

// mutation makes a mutant of a valid call, if it applies to it.
type mutation struct {
	name  string
	apply func(m *mutator) *mutant
}

// mutator is one call under a rule.
type mutator struct {
	t    *testing.T
	rnd  *rand.Rand
	call bfclCall
	tool *bfclTool
}

// TestMutations changes valid calls by rules: each is repaired exactly where the schema
// makes it unambiguous, and is an error else; none runs with another meaning.
func TestMutations(t *testing.T) {
	calls := bfclCalls(t)
	tools := bfclTools(t, calls)
	recorder := &recording{}
	view := bfclView(t, bfclLoad(t, tools, recorder.function()), recorder)
	d := dispatch.New(dispatch.Options{Log: slog.New(slog.DiscardHandler)})
	rnd := rand.New(rand.NewPCG(1, 2))
	rnd.Shuffle(len(calls), func(i, j int) { calls[i], calls[j] = calls[j], calls[i] })
	const each = 40
	made, repaired := map[string]int{}, map[string]int{}
	for _, r := range mutations() {
		for _, c := range calls {
			if made[r.name] >= each {
				break
			}
			b := tools[c.key(t)]
			if !c.Valid || !b.params {
				continue
			}
			m := r.apply(&mutator{t, rnd, c, b})
			if m == nil {
				continue
			}
			made[r.name]++
			recorder.seen = nil
			o := d.Dispatch(context.Background(), request(view, m.name, m.text))
			switch {
			case m.want == nil && (recorder.seen != nil || !o.Failed || o.Kind != fault.Invalid && o.Kind != fault.NotFound):
				t.Errorf("%s: %s %s ran with %s", r.name, m.name, m.text, recorder.seen)
			case m.want != nil && !bytes.Equal(recorder.seen, m.want):
				t.Errorf("%s: %s %s\n got %s\nwant %s\n%s", r.name, m.name, m.text, recorder.seen, m.want, o.Content)
			case m.want != nil:
				repaired[r.name]++
			}
		}
	}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(made)) {
		total += made[name]
		t.Logf("%-36s %3d made, %3d repaired", name, made[name], repaired[name])
	}
	t.Logf("%d mutations by %d rules", total, len(made))
	if total < 500 || len(made) != len(mutations()) {
		t.Errorf("too little was tried")
	}
}

func mutations() []mutation {
	return []mutation{
		{"a number as a string", (*mutator).numberAsString},
		{"a boolean as a string", (*mutator).boolAsString},
		{"a list or object as a string", (*mutator).nestedAsString},
		{"a scalar in a list", (*mutator).wrapped},
		{"a list of one as its scalar", (*mutator).unwrapped},
		{"a text for a list of texts", (*mutator).textForList},
		{"another case of an argument's name", (*mutator).argumentName},
		{"an argument under two names", (*mutator).twoNames},
		{"another case of the tool's name", (*mutator).toolName},
		{"a comma at the end", (*mutator).trailingComma},
		{"cut off", (*mutator).cut},
		{"a large integer", (*mutator).large},
		{"a large integer as a string", (*mutator).largeAsString},
		{"an integer with a fraction of zero", (*mutator).zeroFraction},
		{"two objects", (*mutator).twice},
		{"single quotes", (*mutator).singleQuotes},
		{"a line break within a string", (*mutator).lineBreak},
		{"a number in words", (*mutator).inWords},
		{"not a number", (*mutator).notANumber},
		{"null for a value", (*mutator).null},
		{"no value for a required argument", (*mutator).missing},
	}
}

// text writes arguments as a model would.
func (m *mutator) text(arguments map[string]any) string {
	m.t.Helper()
	b, err := json.Marshal(arguments)
	if err != nil {
		m.t.Fatal(err)
	}
	return string(b)
}

// with is the call with one argument changed.
func (m *mutator) with(name string, v any) map[string]any {
	out := maps.Clone(m.call.Arguments)
	out[name] = v
	return out
}

// pick gives an argument that is, by itself and by its schema alone, of one of the types.
func (m *mutator) pick(ok func(schema map[string]any, v any) bool) (string, map[string]any, any) {
	names := slices.Sorted(maps.Keys(m.call.Arguments))
	m.rnd.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, n := range names {
		s, _ := propertiesOf(m.call.Schema)[n].(map[string]any)
		if s != nil && ok(s, m.call.Arguments[n]) {
			return n, s, m.call.Arguments[n]
		}
	}
	return "", nil, nil
}

func typed(types ...string) func(map[string]any, any) bool {
	return func(s map[string]any, v any) bool {
		t, _ := s["type"].(string)
		return v != nil && slices.Contains(types, t)
	}
}

// same is a mutant that must run as the call did before.
func (m *mutator) same(text string) *mutant {
	return &mutant{name: m.tool.name, text: text, want: expected(m.t, m.call)}
}

// never is a mutant that must not run.
func (m *mutator) never(text string) *mutant { return &mutant{name: m.tool.name, text: text} }

func (m *mutator) numberAsString() *mutant {
	n, _, v := m.pick(typed("integer", "number"))
	if n == "" {
		return nil
	}
	return m.same(m.text(m.with(n, fmt.Sprint(v))))
}

func (m *mutator) boolAsString() *mutant {
	n, _, v := m.pick(typed("boolean"))
	if n == "" {
		return nil
	}
	return m.same(m.text(m.with(n, fmt.Sprint(v))))
}

func (m *mutator) nestedAsString() *mutant {
	n, _, v := m.pick(typed("array", "object"))
	if n == "" {
		return nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		m.t.Fatal(err)
	}
	return m.same(m.text(m.with(n, string(b))))
}

// wrapped: no list is allowed there, so that a list of one scalar can only mean that.
func (m *mutator) wrapped() *mutant {
	n, _, v := m.pick(typed("integer", "number", "boolean", "string"))
	if n == "" {
		return nil
	}
	return m.same(m.text(m.with(n, []any{v})))
}

// unwrapped: a number or boolean for a list of them can only mean a list of one.
func (m *mutator) unwrapped() *mutant {
	n, _, v := m.pick(func(s map[string]any, v any) bool {
		list, ok := v.([]any)
		items, _ := s["items"].(map[string]any)
		return ok && len(list) == 1 && s["type"] == "array" && typed("integer", "number", "boolean")(items, list[0])
	})
	if n == "" {
		return nil
	}
	return m.same(m.text(m.with(n, v.([]any)[0])))
}

// textForList: "a, b" may mean two, so that no text is taken for a list of it.
func (m *mutator) textForList() *mutant {
	n, _, v := m.pick(func(s map[string]any, v any) bool {
		list, ok := v.([]any)
		items, _ := s["items"].(map[string]any)
		return ok && len(list) >= 1 && s["type"] == "array" && typed("string")(items, list[0])
	})
	if n == "" {
		return nil
	}
	var texts []string
	for _, e := range v.([]any) {
		texts = append(texts, fmt.Sprint(e))
	}
	if text := strings.Join(texts, ", "); !strings.HasPrefix(strings.TrimSpace(text), "[") {
		return m.never(m.text(m.with(n, text)))
	}
	return nil
}

// respelled is a name in another case, or with other separators.
func (m *mutator) respelled(name string) string {
	forms := []string{strings.ToUpper(name), strings.ToUpper(name[:1]) + name[1:], strings.ReplaceAll(name, "_", "-"), strings.ReplaceAll(name, "_", ""), camel(name)}
	forms = slices.DeleteFunc(forms, func(f string) bool { return f == name || f == "" })
	if len(forms) == 0 {
		return ""
	}
	return forms[m.rnd.IntN(len(forms))]
}

func camel(name string) string {
	parts := strings.Split(name, "_")
	for i, p := range parts[1:] {
		if p != "" {
			parts[i+1] = strings.ToUpper(p[:1]) + p[1:]
		}
	}
	return strings.Join(parts, "")
}

// alike says whether two names differ in case and separators alone.
func alike(a, b string) bool {
	bare := func(s string) string {
		return strings.ToLower(strings.NewReplacer("_", "", "-", "", ".", "").Replace(s))
	}
	return bare(a) == bare(b)
}

// argumentName: one declared name is alike, and the tool takes no others.
func (m *mutator) argumentName() *mutant {
	n, _, v := m.pick(func(map[string]any, any) bool { return true })
	if n == "" {
		return nil
	}
	other := m.respelled(n)
	similar := 0
	for declared := range propertiesOf(m.call.Schema) {
		if declared == other {
			return nil
		}
		if alike(declared, other) {
			similar++
		}
	}
	if other == "" {
		return nil
	}
	changed := m.with(other, v)
	delete(changed, n)
	if similar != 1 {
		return m.never(m.text(changed))
	}
	return m.same(m.text(changed))
}

func (m *mutator) twoNames() *mutant {
	n, _, v := m.pick(func(map[string]any, any) bool { return true })
	if n == "" {
		return nil
	}
	other := m.respelled(n)
	if _, declared := propertiesOf(m.call.Schema)[other]; declared || other == "" {
		return nil
	}
	return m.never(m.text(m.with(other, v)))
}

func (m *mutator) toolName() *mutant {
	out := m.same(m.text(m.call.Arguments))
	if out.name = m.respelled(m.tool.name); out.name == "" {
		return nil
	}
	return out
}

func (m *mutator) trailingComma() *mutant {
	text := m.text(m.call.Arguments)
	if text == "{}" {
		return nil
	}
	return m.never(text[:len(text)-1] + ",}")
}

func (m *mutator) cut() *mutant {
	text := m.text(m.call.Arguments)
	return m.never(text[:1+m.rnd.IntN(len(text)-1)])
}

// unbounded is an integer that may be of any size.
func (m *mutator) unbounded() string {
	n, _, _ := m.pick(func(s map[string]any, v any) bool {
		return typed("integer")(s, v) && s["enum"] == nil && s["maximum"] == nil && s["exclusiveMaximum"] == nil
	})
	return n
}

func (m *mutator) exact() string {
	return []string{"9007199254740993", "1234567890123456789", "-9007199254740993", "123456789012345678901234567890"}[m.rnd.IntN(4)]
}

// exactly is a mutant whose integer must arrive digit by digit.
func (m *mutator) exactly(n, digits string, as any) *mutant {
	changed := m.call
	changed.Arguments = m.with(n, json.Number(digits))
	return &mutant{name: m.tool.name, text: m.text(m.with(n, as)), want: expected(m.t, changed)}
}

func (m *mutator) large() *mutant {
	n := m.unbounded()
	if n == "" {
		return nil
	}
	digits := m.exact()
	return m.exactly(n, digits, json.Number(digits))
}

func (m *mutator) largeAsString() *mutant {
	n := m.unbounded()
	if n == "" {
		return nil
	}
	digits := m.exact()
	return m.exactly(n, digits, digits)
}

func (m *mutator) zeroFraction() *mutant {
	n := m.unbounded()
	if n == "" {
		return nil
	}
	digits := m.exact()
	return m.exactly(n, digits, json.Number(digits+".0"))
}

func (m *mutator) twice() *mutant {
	text := m.text(m.call.Arguments)
	return m.never(text + []string{"", "\n", " "}[m.rnd.IntN(3)] + text)
}

func (m *mutator) singleQuotes() *mutant {
	text := m.text(m.call.Arguments)
	if text == "{}" {
		return nil
	}
	return m.never(strings.ReplaceAll(text, `"`, `'`))
}

func (m *mutator) lineBreak() *mutant {
	n, _, v := m.pick(typed("string"))
	if n == "" || fmt.Sprint(v) == "" {
		return nil
	}
	return m.never(strings.Replace(m.text(m.with(n, "a-mark-b")), "a-mark-b", "a\nb", 1))
}

func (m *mutator) inWords() *mutant {
	n, _, _ := m.pick(typed("integer", "number"))
	if n == "" {
		return nil
	}
	return m.never(m.text(m.with(n, []string{"five", "5 km", "1,000", "0x10", "٣", "1e", "--1", " "}[m.rnd.IntN(8)])))
}

func (m *mutator) notANumber() *mutant {
	n, _, _ := m.pick(typed("integer", "number"))
	if n == "" {
		return nil
	}
	word := []string{"NaN", "Infinity", "-Infinity", "+1", "01", ".5", "5."}[m.rnd.IntN(7)]
	return m.never(strings.Replace(m.text(m.with(n, "a-mark-b")), `"a-mark-b"`, word, 1))
}

func (m *mutator) null() *mutant {
	n, _, _ := m.pick(typed("integer", "number", "boolean", "string", "array", "object"))
	if n == "" {
		return nil
	}
	return m.never(m.text(m.with(n, nil)))
}

func (m *mutator) missing() *mutant {
	required, _ := m.call.Schema["required"].([]any)
	if len(required) == 0 {
		return nil
	}
	n := required[m.rnd.IntN(len(required))].(string)
	if s, _ := propertiesOf(m.call.Schema)[n].(map[string]any); s["default"] != nil {
		return nil
	}
	changed := maps.Clone(m.call.Arguments)
	delete(changed, n)
	return m.never(m.text(changed))
}

// violation is one thing that is wrong with arguments: where, and which rule of the schema.
type violation struct{ path, says string }

// violations are found by a walk of its own over the schema, as far as the data set uses
// schemas.
func violations(path string, s map[string]any, v any) []violation {
	var out []violation
	at := func(says string) { out = append(out, violation{path, says}) }
	if t, ok := s["type"].(string); ok && !isOf(t, v) {
		at("expected " + t)
		return out
	}
	if enum, ok := s["enum"].([]any); ok && !slices.ContainsFunc(enum, func(e any) bool { return fmt.Sprint(e) == fmt.Sprint(v) }) {
		at("must be one of")
	}
	switch v := v.(type) {
	case map[string]any:
		for n, e := range v {
			if p, ok := propertiesOf(s)[n].(map[string]any); ok {
				out = append(out, violations(strings.TrimPrefix(path+"."+n, "."), p, e)...)
			}
		}
		required, _ := s["required"].([]any)
		for _, r := range required {
			if _, ok := v[r.(string)]; !ok {
				out = append(out, violation{strings.TrimPrefix(path+"."+r.(string), "."), "required"})
			}
		}
	case []any:
		items, _ := s["items"].(map[string]any)
		for i, e := range v {
			out = append(out, violations(fmt.Sprintf("%s[%d]", path, i), items, e)...)
		}
	}
	return out
}

func isOf(t string, v any) bool {
	switch v := v.(type) {
	case nil:
		return t == "null"
	case bool:
		return t == "boolean"
	case string:
		return t == "string"
	case json.Number:
		return t == "number" || t == "integer" && !strings.ContainsAny(v.String(), ".eE")
	case []any:
		return t == "array"
	case map[string]any:
		return t == "object"
	}
	return false
}
