package dispatch_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/dispatch"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// bfclCall is one call of the Berkeley Function Calling Leaderboard.
type bfclCall struct {
	ID        string         `json:"id"`
	Tool      string         `json:"tool"`
	Schema    map[string]any `json:"schema"`
	Arguments map[string]any `json:"arguments"`
	Valid     bool           `json:"valid"`
}

// bfclTool is a distinct tool of the calls, under a name of its own.
type bfclTool struct {
	name   string
	schema map[string]any
	params bool // declared with param blocks
}

// TestBFCL declares the tools of the data set in HCL, loads them, and dispatches every
// call: a recording handler gets the canonical arguments of each valid call, with the
// defaults that are valid, and is never reached for an invalid one.
func TestBFCL(t *testing.T) {
	calls := bfclCalls(t)
	tools := bfclTools(t, calls)
	recorder := &recording{}
	view := bfclView(t, bfclLoad(t, tools, recorder.function()), recorder)
	d := dispatch.New(dispatch.Options{Log: slog.New(slog.DiscardHandler)})
	var valid, invalid, wrong, told int
	for _, c := range calls {
		arguments, err := json.Marshal(c.Arguments)
		if err != nil {
			t.Fatal(err)
		}
		recorder.seen = nil
		o := d.Dispatch(context.Background(), request(view, tools[c.key(t)].name, string(arguments)))
		if !c.Valid {
			invalid++
			if recorder.seen != nil || o.Kind != fault.Invalid || !o.Failed {
				t.Errorf("%s: an invalid call reached its handler: %s", c.ID, recorder.seen)
				wrong++
			}
			told += named(t, c, o.Content)
			continue
		}
		valid++
		if want := expected(t, c); !bytes.Equal(recorder.seen, want) {
			t.Errorf("%s:\n got %s\nwant %s\n%s", c.ID, recorder.seen, want, o.Content)
			wrong++
		}
		if wrong > 10 {
			t.Fatal("and more")
		}
	}
	t.Logf("the errors of %d invalid calls name %d paths with their rule", invalid, told)
	declared := 0
	for _, b := range tools {
		if b.params {
			declared++
		}
	}
	t.Logf("%d valid and %d invalid calls of %d tools, %d of them (%d %%) declared with param blocks", valid, invalid, len(tools), declared, 100*declared/len(tools))
	if valid < 1000 || invalid < 50 || declared*10 < len(tools)*7 {
		t.Errorf("too little was tried")
	}
}

// named holds the error of an invalid call against what an independent walk finds wrong
// with it: every path and its rule, or as many as the bound on errors lets through.
func named(t *testing.T, c bfclCall, content string) int {
	t.Helper()
	found := violations("", c.Schema, c.Arguments)
	if len(found) == 0 {
		t.Errorf("%s: the walk finds nothing wrong; the error is %s", c.ID, content)
	}
	n := 0
	for _, v := range found {
		if strings.Contains(content, v.path+": "+v.says) {
			n++
		}
	}
	if n == 0 || n < len(found) && !strings.Contains(content, "more") {
		t.Errorf("%s: %d of %d are told, of %v: %s", c.ID, n, len(found), found, content)
	}
	return n
}

func bfclCalls(t *testing.T) []bfclCall {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "..", "shared", "data", "bfcl", "calls.jsonl"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the data set is not there: put calls.jsonl of BFCL into ../shared/data/bfcl beside the repository")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var out []bfclCall
	for lines := bufio.NewReader(f); ; {
		line, err := lines.ReadBytes('\n')
		if len(line) == 0 {
			return out
		}
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		var c bfclCall
		if derr := d.Decode(&c); derr != nil {
			t.Fatal(derr)
		}
		out = append(out, c)
		if err != nil {
			return out
		}
	}
}

func (c bfclCall) key(t *testing.T) string {
	t.Helper()
	raw, err := json.Marshal(c.Schema)
	if err != nil {
		t.Fatal(err)
	}
	return c.Tool + string(raw)
}

// bfclTools finds the distinct tools. One whose valid call has an argument that is not
// declared cannot be said with param blocks, which are closed.
func bfclTools(t *testing.T, calls []bfclCall) map[string]*bfclTool {
	t.Helper()
	out := map[string]*bfclTool{}
	for _, c := range calls {
		b := out[c.key(t)]
		if b == nil {
			b = &bfclTool{name: fmt.Sprintf("%.50s_%d", c.Tool, len(out)), schema: c.Schema, params: sayable(c.Schema)}
			out[c.key(t)] = b
		}
		for name := range c.Arguments {
			if _, ok := propertiesOf(c.Schema)[name]; !ok && c.Valid {
				b.params = false
			}
		}
	}
	return out
}

func propertiesOf(schema map[string]any) map[string]any {
	m, _ := schema["properties"].(map[string]any)
	return m
}

func requiredOf(schema map[string]any) []any {
	list, _ := schema["required"].([]any)
	return list
}

// sayable says whether param blocks can declare the schema.
func sayable(schema map[string]any) bool {
	for name, p := range propertiesOf(schema) {
		s, _ := p.(map[string]any)
		_, hasDefault := s["default"]
		if typeOf(s) == "" || hasDefault && slices.Contains(requiredOf(schema), any(name)) {
			return false
		}
		enum, _ := s["enum"].([]any)
		for i, v := range enum {
			bare := maps.Clone(s)
			delete(bare, "enum")
			if !fits(bare, v) || slices.ContainsFunc(enum[:i], func(o any) bool { return reflect.DeepEqual(o, v) }) {
				return false
			}
		}
	}
	return true
}

// typeOf is the type expression that says what s does; "" if there is none. Object types
// are closed and have no descriptions, so they cannot say what these schemas do.
func typeOf(s map[string]any) string {
	switch s["type"] {
	case nil:
		return "any"
	case "string", "number", "integer":
		return fmt.Sprint(s["type"])
	case "boolean":
		return "bool"
	case "object":
		if s["properties"] == nil {
			return "map(any)"
		}
	case "array":
		items, _ := s["items"].(map[string]any)
		for key := range items {
			if key != "type" && key != "items" {
				return ""
			}
		}
		if item := typeOf(items); item != "" {
			return "list(" + item + ")"
		}
	}
	return ""
}

// writeTool writes the block of one tool.
func writeTool(body *hclwrite.Body, b *bfclTool) error {
	block := body.AppendNewBlock("tool", []string{b.name}).Body()
	block.SetAttributeValue("description", cty.StringVal("A tool of the data set."))
	if b.params {
		for _, name := range slices.Sorted(maps.Keys(propertiesOf(b.schema))) {
			s, _ := propertiesOf(b.schema)[name].(map[string]any)
			writeParam(block.AppendNewBlock("param", []string{name}).Body(), s, slices.Contains(requiredOf(b.schema), any(name)))
		}
	} else {
		raw, err := json.Marshal(b.schema)
		if err != nil {
			return err
		}
		block.SetAttributeRaw("schema", hclwrite.TokensForFunctionCall("jsondecode", hclwrite.TokensForValue(cty.StringVal(string(raw)))))
	}
	block.AppendNewBlock("handler", []string{"native"}).Body().SetAttributeValue("function", cty.StringVal("test.record"))
	return nil
}

func writeParam(param *hclwrite.Body, s map[string]any, required bool) {
	param.SetAttributeRaw("type", hclwrite.TokensForIdentifier(typeOf(s)))
	if text, _ := s["description"].(string); text != "" {
		param.SetAttributeValue("description", cty.StringVal(text))
	}
	if enum, ok := s["enum"].([]any); ok {
		param.SetAttributeValue("enum", toCty(enum))
	}
	if format, ok := s["format"].(string); ok {
		param.SetAttributeValue("format", cty.StringVal(format))
	}
	// A default that does not fit is never filled in, so leaving it out says the same.
	def, given := s["default"]
	switch {
	case given && fits(s, def):
		param.SetAttributeValue("default", toCty(def))
	case !required:
		param.SetAttributeValue("required", cty.False)
	}
}

func toCty(v any) cty.Value {
	switch x := v.(type) {
	case bool:
		return cty.BoolVal(x)
	case string:
		return cty.StringVal(x)
	case json.Number:
		return cty.MustParseNumberVal(string(x))
	case []any:
		if len(x) == 0 {
			return cty.EmptyTupleVal
		}
		out := make([]cty.Value, len(x))
		for i := range x {
			out[i] = toCty(x[i])
		}
		return cty.TupleVal(out)
	case map[string]any:
		out := map[string]cty.Value{}
		for k := range x {
			out[k] = toCty(x[k])
		}
		return cty.ObjectVal(out)
	}
	return cty.NullVal(cty.DynamicPseudoType)
}

// fits is an independent validator of the keywords of the data set.
func fits(s map[string]any, v any) bool {
	if enum, ok := s["enum"].([]any); ok && !slices.ContainsFunc(enum, func(o any) bool { return reflect.DeepEqual(o, v) }) {
		return false
	}
	switch x := v.(type) {
	case nil:
		return s["type"] == nil
	case bool:
		return s["type"] == nil || s["type"] == "boolean"
	case string:
		return s["type"] == nil || s["type"] == "string"
	case json.Number:
		f, _, err := big.ParseFloat(string(x), 10, 512, big.ToNearestEven)
		return err == nil && (s["type"] == nil || s["type"] == "number" || s["type"] == "integer" && f.IsInt())
	case []any:
		items, _ := s["items"].(map[string]any)
		return (s["type"] == nil || s["type"] == "array") && !slices.ContainsFunc(x, func(v any) bool { return !fits(items, v) })
	case map[string]any:
		if s["type"] != nil && s["type"] != "object" {
			return false
		}
		for _, name := range requiredOf(s) {
			if _, ok := x[name.(string)]; !ok {
				return false
			}
		}
		for name, v := range x {
			if p, ok := propertiesOf(s)[name].(map[string]any); ok && !fits(p, v) {
				return false
			}
		}
		return true
	}
	return false
}

// expected is what the handler of a valid call must get.
func expected(t *testing.T, c bfclCall) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(filled(c.Schema, c.Arguments)); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// filled gives v with its defaults, and its integers as integers.
func filled(s map[string]any, v any) any {
	switch x := v.(type) {
	case json.Number:
		if s["type"] == "integer" {
			return plainNumber(x)
		}
	case []any:
		items, _ := s["items"].(map[string]any)
		out := make([]any, len(x))
		for i := range x {
			out[i] = filled(items, x[i])
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for name, p := range propertiesOf(s) {
			p, _ := p.(map[string]any)
			if def, ok := p["default"]; ok && fits(p, def) {
				out[name] = filled(p, throughHCL(def))
			}
		}
		for name := range x {
			p, _ := propertiesOf(s)[name].(map[string]any)
			out[name] = filled(p, x[name])
		}
		return out
	}
	return v
}

// throughHCL is what a value becomes in HCL, whose numbers have no trailing zeros.
func throughHCL(v any) any {
	switch x := v.(type) {
	case json.Number:
		return plainNumber(x)
	case []any:
		out := make([]any, len(x))
		for i := range x {
			out[i] = throughHCL(x[i])
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for k := range x {
			out[k] = throughHCL(x[k])
		}
		return out
	}
	return v
}

func plainNumber(n json.Number) json.Number {
	f, _, err := big.ParseFloat(string(n), 10, 512, big.ToNearestEven)
	if err != nil {
		return n
	}
	return json.Number(f.Text('f', -1))
}

// recording is a native function that remembers what it got.
type recording struct{ seen json.RawMessage }

func (r *recording) function() hostfuncs.Func {
	return hostfuncs.Func{
		Name: "test.record", Description: "Records its arguments.", Open: true,
		New: func(hostfuncs.Binding) (tool.Handler, error) {
			return tool.HandlerFunc(func(_ context.Context, c *tool.Call) (tool.Result, error) {
				r.seen = c.Arguments
				return tool.Text("recorded"), nil
			}), nil
		},
	}
}

// bfclLoad writes the tools as HCL and loads them.
func bfclLoad(t *testing.T, tools map[string]*bfclTool, fn hostfuncs.Func) *config.Config {
	t.Helper()
	project := t.TempDir()
	for _, dir := range []string{"agents", "tools.d"} {
		if err := os.Mkdir(filepath.Join(project, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	const perFile = 100
	sorted := slices.SortedFunc(maps.Values(tools), func(a, b *bfclTool) int { return strings.Compare(a.name, b.name) })
	for i := 0; len(sorted) > 0; i++ {
		file := hclwrite.NewEmptyFile()
		n := min(perFile, len(sorted))
		for _, b := range sorted[:n] {
			if err := writeTool(file.Body(), b); err != nil {
				t.Fatal(err)
			}
		}
		sorted = sorted[n:]
		if err := os.WriteFile(filepath.Join(project, "tools.d", fmt.Sprintf("bfcl_%02d.hcl", i)), file.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	paths, err := config.Find(project)
	if err != nil {
		t.Fatal(err)
	}
	cfg, diags := config.Load(t.Context(), config.DirSource(), config.Options{
		Paths: paths, Funcs: []hostfuncs.Func{fn}, LookupEnv: func(string) (string, bool) { return "", false },
	})
	for i, d := range diags {
		// The data set's own slips: a raw schema keeps them, with a warning.
		if d.Severity == hcl.DiagWarning && strings.HasPrefix(d.Summary, "Invalid default") {
			continue
		}
		if t.Errorf("%v", d); i > 10 {
			t.Fatal("and more")
		}
	}
	if len(cfg.Tools) != len(tools) {
		t.Fatalf("%d tools were loaded of %d", len(cfg.Tools), len(tools))
	}
	return cfg
}

// bfclView makes the tools of the configuration callable.
func bfclView(t *testing.T, cfg *config.Config, r *recording) *registry.View {
	t.Helper()
	var tools []*registry.Tool
	for _, c := range cfg.Tools {
		h, err := r.function().New(hostfuncs.Binding{Tool: c.Name, Params: c.Schema.JSON(), Config: c.Native.Config})
		if err != nil {
			t.Fatal(err)
		}
		frozen, err := (&registry.Tool{
			Name: c.Name, Toolset: c.Toolset, Description: c.Description.Static, Schema: c.Schema,
			Traits: c.Traits, Limits: c.Limits, Bounds: c.Bounds, Handler: h, Pos: string(c.Pos), Digest: c.Digest,
		}).Freeze()
		if err != nil {
			t.Fatal(err)
		}
		tools = append(tools, frozen)
	}
	return viewOf(t, tools...)
}
