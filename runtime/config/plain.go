package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/hermes-runtime/hermes/runtime/config/funcs"
	"github.com/hermes-runtime/hermes/runtime/secret"
)

// maxExponent bounds the power of ten of a number: writing out a larger one would only
// serve to exhaust memory.
const maxExponent = 400

// plain makes a plain Go value: nil, bool, string, json.Number, []any, map[string]any,
// and a secret.Value for a sensitive text.
func plain(v cty.Value) (any, error) {
	if v.IsMarked() {
		return plainMarked(v)
	}
	if !v.IsKnown() {
		return nil, errors.New("the value is not known yet")
	}
	if v.IsNull() {
		return nil, nil //nolint:nilnil // null is a value
	}
	switch ty := v.Type(); {
	case ty == cty.String:
		return v.AsString(), nil
	case ty == cty.Bool:
		return v.True(), nil
	case ty == cty.Number:
		return plainNumber(v)
	case ty.IsListType(), ty.IsSetType(), ty.IsTupleType():
		return plainList(v)
	case ty.IsMapType(), ty.IsObjectType():
		return plainMap(v)
	}
	return nil, fmt.Errorf("%s is not a value that can be used here", article(v.Type().FriendlyName()))
}

// plainMarked makes every text below a sensitive value a secret; a number or bool that
// is sensitive becomes a secret text too.
func plainMarked(v cty.Value) (any, error) {
	v, marks := v.Unmark()
	if !v.IsKnown() || v.IsNull() {
		return plain(v)
	}
	ty := v.Type()
	if !ty.IsPrimitiveType() {
		return plainParts(v, marks)
	}
	p, err := plain(v)
	if err != nil {
		return nil, err
	}
	return secret.New(fmt.Sprint(p)), nil
}

func plainParts(v cty.Value, marks cty.ValueMarks) (any, error) {
	if ty := v.Type(); ty.IsMapType() || ty.IsObjectType() {
		out := make(map[string]any, v.LengthInt())
		for it := v.ElementIterator(); it.Next(); {
			k, e := it.Element()
			p, err := plain(e.WithMarks(marks))
			if err != nil {
				return nil, err
			}
			out[k.AsString()] = p
		}
		return out, nil
	}
	out := []any{}
	for it := v.ElementIterator(); it.Next(); {
		_, e := it.Element()
		p, err := plain(e.WithMarks(marks))
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

func plainNumber(v cty.Value) (any, error) {
	if f := v.AsBigFloat(); f.IsInf() || abs(f.MantExp(nil)) > maxExponent*4 {
		return nil, errors.New("the number is out of range")
	}
	return json.Number(numberText(v)), nil
}

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}

// numberText is the shortest exact text of a number.
func numberText(v cty.Value) string {
	f := v.AsBigFloat()
	if n, acc := f.Int64(); acc == big.Exact {
		return strconv.FormatInt(n, 10)
	}
	if e := f.MantExp(nil); f.IsInf() || e > 256 || e < -256 {
		return f.Text('g', -1)
	}
	return f.Text('f', -1)
}

func plainList(v cty.Value) (any, error) { return plainParts(v, nil) }
func plainMap(v cty.Value) (any, error)  { return plainParts(v, nil) }

// leafText is a known text as string or, if it is sensitive, as secret.Value.
func leafText(v cty.Value) any {
	v, marks := v.Unmark()
	if len(marks) > 0 {
		return secret.New(v.AsString())
	}
	return v.AsString()
}

// fromPlain is the inverse of plain; it takes json.RawMessage, int and float64 too.
func fromPlain(v any) (cty.Value, error) {
	switch v := v.(type) {
	case nil:
		return cty.NullVal(cty.DynamicPseudoType), nil
	case bool:
		return cty.BoolVal(v), nil
	case string:
		return cty.StringVal(v), nil
	case secret.Value:
		return cty.StringVal(v.Open()).Mark(funcs.Sensitive), nil
	case json.Number:
		return parseNumber(v)
	case int:
		return cty.NumberIntVal(int64(v)), nil
	case int64:
		return cty.NumberIntVal(v), nil
	case float64:
		return parseNumber(json.Number(strconv.FormatFloat(v, 'g', -1, 64)))
	case json.RawMessage:
		p, err := decodeJSON(v)
		if err != nil {
			return cty.NilVal, err
		}
		return fromPlain(p)
	}
	return fromPlainParts(v)
}

func fromPlainParts(v any) (cty.Value, error) {
	switch v := v.(type) {
	case []any:
		list := make([]cty.Value, len(v))
		for i, e := range v {
			x, err := fromPlain(e)
			if err != nil {
				return cty.NilVal, err
			}
			list[i] = x
		}
		return cty.TupleVal(list), nil
	case map[string]any:
		m := make(map[string]cty.Value, len(v))
		for k, e := range v {
			x, err := fromPlain(e)
			if err != nil {
				return cty.NilVal, err
			}
			m[k] = x
		}
		return cty.ObjectVal(m), nil
	case map[string]string:
		m := make(map[string]cty.Value, len(v))
		for k, e := range v {
			m[k] = cty.StringVal(e)
		}
		return cty.ObjectVal(m), nil
	}
	return cty.NilVal, errors.New("a variable of the expression has no plain value")
}

func parseNumber(n json.Number) (cty.Value, error) {
	if _, exp, ok := strings.Cut(strings.ToLower(n.String()), "e"); ok {
		if e, err := strconv.Atoi(exp); err != nil || abs(e) > maxExponent {
			return cty.NilVal, errors.New("a number is out of range")
		}
	}
	// cty's own precision of 512 bits rounds integers of more than 154 digits; twice the
	// bits a decimal digit needs keeps all of them.
	prec := uint(max(512, 4*len(n)))
	f, _, err := big.ParseFloat(n.String(), 10, prec, big.ToNearestEven)
	if err != nil {
		return cty.NilVal, errors.New("a number does not parse")
	}
	return cty.NumberVal(f), nil
}

// decodeJSON decodes one JSON value with exact numbers; empty text is null.
func decodeJSON(raw []byte) (any, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil //nolint:nilnil // null is a value
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, errors.New("a JSON value does not parse")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("a JSON value has text after its end")
	}
	return v, nil
}

// encodeJSON encodes plain values with sorted keys and without HTML escapes.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// itemRange is where an object literal gives the key's value; nil if it is not one.
func itemRange(expr hclsyntax.Expression, key string) *hcl.Range {
	obj, ok := expr.(*hclsyntax.ObjectConsExpr)
	if !ok {
		return nil
	}
	for _, item := range obj.Items {
		if keyText(item.KeyExpr) == key {
			r := item.ValueExpr.Range()
			return &r
		}
	}
	return nil
}

// keyText is the text of a key of an object literal, "" if it is not fixed.
func keyText(expr hclsyntax.Expression) string {
	if k, ok := expr.(*hclsyntax.ObjectConsKeyExpr); ok && !k.ForceNonLiteral {
		if word := hcl.ExprAsKeyword(k.Wrapped); word != "" {
			return word
		}
		expr = k.Wrapped
	}
	if t, ok := expr.(*hclsyntax.TemplateExpr); ok && t.IsStringLiteral() {
		v, _ := t.Value(nil)
		return v.AsString()
	}
	return ""
}

func sentence(s string) string {
	if s == "" {
		return s
	}
	s = strings.ToUpper(s[:1]) + s[1:]
	if !strings.HasSuffix(s, ".") && !strings.HasSuffix(s, "?") {
		s += "."
	}
	return s
}
