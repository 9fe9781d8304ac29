package funcs

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

func text(b []byte) (cty.Value, error) {
	if !utf8.Valid(b) {
		return cty.NilVal, errors.New("the file is not text in UTF-8")
	}
	return cty.StringVal(string(b)), nil
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func asString(v cty.Value) (cty.Value, error) {
	if v.IsNull() {
		return cty.NilVal, errors.New("the template gives null, not text")
	}
	return convert.Convert(v, cty.String)
}

// text1 is a function from one text to another.
func text1(param string, f func(string) (string, error)) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: param, Type: cty.String}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			s, err := f(args[0].AsString())
			return cty.StringVal(s), err
		},
	})
}

// predicate2 is a condition on two texts.
func predicate2(first, second string, f func(a, b string) (bool, error)) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: first, Type: cty.String}, {Name: second, Type: cty.String}},
		Type:   function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			ok, err := f(args[0].AsString(), args[1].AsString())
			return cty.BoolVal(ok), err
		},
	})
}

func contains(s, part string) (bool, error)    { return strings.Contains(s, part), nil }
func hasPrefix(s, prefix string) (bool, error) { return strings.HasPrefix(s, prefix), nil }
func hasSuffix(s, suffix string) (bool, error) { return strings.HasSuffix(s, suffix), nil }
func base(p string) (string, error)            { return path.Base(p), nil }
func dir(p string) (string, error)             { return path.Dir(p), nil }

// syntaxError says what is wrong with a pattern without quoting it: it may be sensitive.
func syntaxError(err error) string {
	if code, _, ok := strings.Cut(strings.TrimPrefix(err.Error(), "error parsing regexp: "), ": `"); ok {
		return code
	}
	return "it does not parse"
}

func globs(pattern, s string) (bool, error) {
	ok, err := path.Match(pattern, s)
	if err != nil {
		return false, function.NewArgErrorf(0, "the pattern is not a glob: only *, ? and [a-z] are special")
	}
	return ok, nil
}

func toBase64(s string) (string, error) { return base64.StdEncoding.EncodeToString([]byte(s)), nil }

func fromBase64(s string) (string, error) {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return "", errors.New("the text is not base64")
	}
	if !utf8.Valid(b) {
		return "", errors.New("the decoded bytes are not text in UTF-8")
	}
	return string(b), nil
}

func sha256Text(s string) (string, error) { return digest([]byte(s)), nil }

// urlencode escapes everything but RFC 3986's unreserved characters, so that the result
// is safe in a path segment as well as in a query (a plus for a space is not).
func urlencode(s string) (string, error) {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-._~", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String(), nil
}

func sumFunc() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "numbers", Type: cty.DynamicPseudoType}},
		Type:   function.StaticReturnType(cty.Number),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			total := cty.Zero
			err := each(args[0], cty.Number, func(v cty.Value) { total = total.Add(v) })
			return total, err
		},
	})
}

// alltrueFunc is alltrue for want true, and anytrue for want false.
func alltrueFunc(want bool) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "conditions", Type: cty.DynamicPseudoType}},
		Type:   function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			result := cty.BoolVal(want)
			err := each(args[0], cty.Bool, func(v cty.Value) {
				if want {
					result = result.And(v)
				} else {
					result = result.Or(v)
				}
			})
			return result, err
		},
	})
}

func each(list cty.Value, ty cty.Type, f func(cty.Value)) error {
	if !sequence(list.Type()) {
		return function.NewArgErrorf(0, "a list is needed")
	}
	for it := list.ElementIterator(); it.Next(); {
		_, v := it.Element()
		v, err := convert.Convert(v, ty)
		if err != nil || v.IsNull() {
			return function.NewArgErrorf(0, "each element must be a %s", ty.FriendlyName())
		}
		f(v)
	}
	return nil
}

func sequence(ty cty.Type) bool { return ty.IsListType() || ty.IsSetType() || ty.IsTupleType() }

func oneFunc() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "list", Type: cty.DynamicPseudoType}},
		Type: func(args []cty.Value) (cty.Type, error) {
			ty := args[0].Type()
			switch {
			case ty.IsListType() || ty.IsSetType():
				return ty.ElementType(), nil
			case ty.IsTupleType() && ty.Length() == 1:
				return ty.TupleElementType(0), nil
			case ty.IsTupleType() && ty.Length() == 0:
				return cty.DynamicPseudoType, nil
			}
			return cty.NilType, function.NewArgErrorf(0, "a list with one element or none is needed")
		},
		Impl: func(args []cty.Value, ret cty.Type) (cty.Value, error) {
			if args[0].LengthInt() == 0 {
				return cty.NullVal(ret), nil
			}
			if args[0].LengthInt() > 1 {
				return cty.NilVal, function.NewArgErrorf(0, "the list has more than one element")
			}
			it := args[0].ElementIterator()
			it.Next()
			_, v := it.Element()
			return v, nil
		},
	})
}

// lengthFunc counts elements, attributes, or the characters of a text.
func lengthFunc() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType, AllowDynamicType: true, AllowUnknown: true}},
		Type: func(args []cty.Value) (cty.Type, error) {
			ty := args[0].Type()
			if ty == cty.String || ty == cty.DynamicPseudoType || sequence(ty) || ty.IsMapType() || ty.IsObjectType() {
				return cty.Number, nil
			}
			return cty.NilType, function.NewArgErrorf(0, "a list, a map, an object or a text is needed")
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			v := args[0]
			ty := v.Type()
			switch {
			case ty.IsTupleType():
				return cty.NumberIntVal(int64(ty.Length())), nil
			case ty.IsObjectType():
				return cty.NumberIntVal(int64(len(ty.AttributeTypes()))), nil
			case !v.IsKnown():
				return cty.UnknownVal(cty.Number), nil
			case ty == cty.String:
				return stdlib.Strlen(v)
			}
			return v.Length(), nil
		},
	})
}

// indexFunc is the position of a value in a list.
func indexFunc() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{
			{Name: "list", Type: cty.DynamicPseudoType},
			{Name: "value", Type: cty.DynamicPseudoType},
		},
		Type: function.StaticReturnType(cty.Number),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if ty := args[0].Type(); !ty.IsListType() && !ty.IsTupleType() {
				return cty.NilVal, function.NewArgErrorf(0, "a list is needed")
			}
			for it := args[0].ElementIterator(); it.Next(); {
				i, v := it.Element()
				eq, err := stdlib.Equal(v, args[1])
				if err == nil && eq.IsKnown() && eq.True() {
					return i, nil
				}
			}
			return cty.NilVal, errors.New("the list does not have the value")
		},
	})
}

func (p *patterns) replaced(s, search, with string) (cty.Value, error) {
	pattern, ok := slashed(search)
	if !ok {
		if err := checkReplace(s, strings.ReplaceAll(with, "$", "_"), func(int) int { return strings.Count(s, search) }); err != nil {
			return cty.NilVal, err
		}
		return cty.StringVal(strings.ReplaceAll(s, search, with)), nil
	}
	re, err := p.compile(pattern, 1)
	if err != nil {
		return cty.NilVal, err
	}
	if err := checkReplace(s, with, func(limit int) int { return len(re.FindAllStringIndex(s, limit)) }); err != nil {
		return cty.NilVal, err
	}
	return cty.StringVal(re.ReplaceAllString(s, with)), nil
}

// maxExponent bounds pow: a number with more digits than any provider accepts only
// serves to exhaust memory.
const maxExponent = 1024

func powFunc() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "number", Type: cty.Number}, {Name: "power", Type: cty.Number}},
		Type:   function.StaticReturnType(cty.Number),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if p := args[1].AsBigFloat(); p.Cmp(big.NewFloat(maxExponent)) > 0 || p.Cmp(big.NewFloat(-maxExponent)) < 0 {
				return cty.NilVal, function.NewArgErrorf(1, "the power must be between %d and %d", -maxExponent, maxExponent)
			}
			return stdlib.Pow(args[0], args[1])
		},
	})
}

func sensitiveFunc(on bool) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{
			Name: "value", Type: cty.DynamicPseudoType,
			AllowUnknown: true, AllowNull: true, AllowMarked: true, AllowDynamicType: true,
		}},
		Type: func(args []cty.Value) (cty.Type, error) { return args[0].Type(), nil },
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			v, _ := args[0].Unmark()
			if on {
				return v.Mark(Sensitive), nil
			}
			v, _ = v.UnmarkDeep()
			return v, nil
		},
	})
}

func issensitiveFunc() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{
			Name: "value", Type: cty.DynamicPseudoType,
			AllowUnknown: true, AllowNull: true, AllowMarked: true, AllowDynamicType: true,
		}},
		Type: function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return cty.BoolVal(args[0].ContainsMarked()), nil
		},
	})
}
