package config

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/hermes-runtime/hermes/runtime/secret"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// kind is a type of attribute: its name in the documentation, and the one conversion
// that decodes it. Values reach conv known, not null and, unless secrets is set,
// without marks.
type kind[V any] struct {
	name    string
	secrets bool
	conv    func(v cty.Value, expr hclsyntax.Expression) (V, *issue)
	show    func(V) string
}

// mismatch says what was needed and what stands there.
func mismatch(need string, v cty.Value) *issue {
	return wrong("This must be %s, not %s.", need, article(commonName(v.Type())))
}

// commonName is the name of a type as people write it: [1] is a list to them.
func commonName(ty cty.Type) string {
	if ty.IsTupleType() {
		return "list"
	}
	return ty.FriendlyName()
}

func article(noun string) string {
	if noun != "" && strings.ContainsRune("aeiou", rune(noun[0])) {
		return "an " + noun
	}
	return "a " + noun
}

func stringKind() kind[string] {
	return kind[string]{name: "string", show: strconv.Quote, conv: toText}
}

func toText(v cty.Value, _ hclsyntax.Expression) (string, *issue) {
	if v.Type() != cty.String {
		return "", mismatch("a string in double quotes", v)
	}
	return v.AsString(), nil
}

// moduleKind is the path of a module; an empty one would name the directory.
func moduleKind() kind[string] {
	k := stringKind()
	k.conv = func(v cty.Value, x hclsyntax.Expression) (string, *issue) {
		path, bad := toText(v, x)
		if bad == nil && strings.TrimSpace(path) == "" {
			return "", wrong("Name the module's file, relative to this one, for example \"text_stats.wasm\".")
		}
		return path, bad
	}
	return k
}

// enumKind is a string that is one of a few.
func enumKind(values ...string) kind[string] {
	return kind[string]{
		name: strings.Join(values, " \\| "), show: strconv.Quote,
		conv: func(v cty.Value, e hclsyntax.Expression) (string, *issue) {
			s, bad := toText(v, e)
			if bad == nil && !slices.Contains(values, s) {
				bad = wrong("%q is not one of the values there are: %s.%s", s, listed(values), suggest(s, values))
			}
			return s, bad
		},
	}
}

func boolKind() kind[bool] {
	return kind[bool]{
		name: "bool", show: strconv.FormatBool,
		conv: func(v cty.Value, _ hclsyntax.Expression) (bool, *issue) {
			if v.Type() != cty.Bool {
				return false, mismatch("true or false, without quotes", v)
			}
			return v.True(), nil
		},
	}
}

// intKind is a whole number from least to most.
func intKind(least, most int) kind[int] {
	return kind[int]{
		name: "integer", show: strconv.Itoa,
		conv: func(v cty.Value, _ hclsyntax.Expression) (int, *issue) {
			if v.Type() != cty.Number {
				return 0, mismatch("a whole number, without quotes", v)
			}
			n, acc := v.AsBigFloat().Int64()
			switch {
			case acc != big.Exact && !v.AsBigFloat().IsInt():
				return 0, wrong("This must be a whole number.")
			case acc != big.Exact && n > 0:
				return 0, wrong("This must be at most %d.", most)
			case acc != big.Exact, n < int64(least) || n > int64(most):
				return 0, wrong("This must be %s.", between(least, most))
			}
			return int(n), nil
		},
	}
}

func between(least, most int) string {
	if most == math.MaxInt32 || most == math.MaxInt {
		return fmt.Sprintf("%d or more", least)
	}
	return fmt.Sprintf("between %d and %d", least, most)
}

// floatKind is a number from least to most.
func floatKind(least, most float64) kind[float64] {
	show := func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
	return kind[float64]{
		name: "number", show: show,
		conv: func(v cty.Value, _ hclsyntax.Expression) (float64, *issue) {
			if v.Type() != cty.Number {
				return 0, mismatch("a number, without quotes", v)
			}
			f, _ := v.AsBigFloat().Float64()
			if f < least || f > most || math.IsInf(f, 0) {
				if most == math.MaxFloat64 {
					return 0, wrong("This must be %s or more.", show(least))
				}
				return 0, wrong("This must be between %s and %s.", show(least), show(most))
			}
			return f, nil
		},
	}
}

// durationKind is a time such as "30s". Only with zero may it be 0.
func durationKind(zero bool) kind[time.Duration] {
	return kind[time.Duration]{
		name: "duration", show: func(d time.Duration) string { return strconv.Quote(ShowDuration(d)) },
		conv: func(v cty.Value, _ hclsyntax.Expression) (time.Duration, *issue) {
			return toDuration(v, zero)
		},
	}
}

func toDuration(v cty.Value, zero bool) (time.Duration, *issue) {
	if v.Type() == cty.Number {
		return 0, wrong("A duration needs a unit and double quotes, for example %q.", numberText(v)+"s")
	}
	if v.Type() != cty.String {
		return 0, mismatch(`a duration such as "30s"`, v)
	}
	d, err := time.ParseDuration(v.AsString())
	switch {
	case err != nil:
		return 0, wrong(`%q is not a duration. Write numbers with the units ms, s, m or h, for example "250ms", "30s" or "5m".`, v.AsString())
	case d < 0:
		return 0, wrong("A duration cannot be negative.")
	case d == 0 && !zero:
		return 0, wrong(`A duration of zero is no use here. Write a longer one, for example "30s".`)
	}
	return d, nil
}

// ShowDuration prints whole units as an operator writes them: 5m, not 5m0s.
func ShowDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// sizeKind is a number of bytes such as "64KiB".
func sizeKind() kind[int64] {
	return kind[int64]{
		name: "size", show: func(n int64) string { return strconv.Quote(ShowSize(n)) },
		conv: func(v cty.Value, _ hclsyntax.Expression) (int64, *issue) { return toSize(v) },
	}
}

// someSizeKind is a size of at least one byte: 0 must not be taken for "no limit".
func someSizeKind() kind[int64] {
	k := sizeKind()
	conv := k.conv
	k.conv = func(v cty.Value, e hclsyntax.Expression) (int64, *issue) {
		n, bad := conv(v, e)
		if bad == nil && n == 0 {
			bad = wrong("This must be above zero. Leave it out to take the default.")
		}
		return n, bad
	}
	return k
}

// memorySizeKind is a size of up to most bytes, which are held in memory at once.
func memorySizeKind(most int) kind[int] {
	k := someSizeKind()
	return kind[int]{name: k.name, show: func(n int) string { return k.show(int64(n)) }, conv: func(v cty.Value, e hclsyntax.Expression) (int, *issue) {
		n, bad := k.conv(v, e)
		if bad == nil && n > int64(most) {
			bad = wrong("This must be at most %s.", ShowSize(int64(most)))
		}
		return int(n), bad
	}}
}

// countKind is a whole number above zero that may be very large.
func countKind() kind[int64] {
	k := intKind(1, math.MaxInt)
	return kind[int64]{name: k.name, conv: func(v cty.Value, e hclsyntax.Expression) (int64, *issue) {
		n, bad := k.conv(v, e)
		return int64(n), bad
	}}
}

func toSize(v cty.Value) (int64, *issue) {
	if v.Type() == cty.Number {
		return 0, wrong("A size needs a unit and double quotes, for example %q.", numberSize(v))
	}
	if v.Type() != cty.String {
		return 0, mismatch(`a size such as "64KiB"`, v)
	}
	n, ok := parseSize(v.AsString())
	if !ok {
		return 0, wrong(`%q is not a size. Write a whole number with the unit B, KiB, MiB or GiB, for example "64KiB" or "16MiB".`, v.AsString())
	}
	return n, nil
}

// numberSize is a number of bytes with the largest unit that leaves it whole.
func numberSize(v cty.Value) string {
	if n, acc := v.AsBigFloat().Int64(); acc == big.Exact && n >= 0 {
		return ShowSize(n)
	}
	return "64KiB"
}

func parseSize(s string) (int64, bool) {
	units := []struct {
		suffix string
		shift  uint
	}{{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"B", 0}}
	for _, u := range units {
		digits, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSuffix(digits, " "), 10, 64)
		if err != nil || n < 0 || strings.HasPrefix(digits, "+") || n > math.MaxInt64>>u.shift {
			return 0, false
		}
		return n << u.shift, true
	}
	return 0, false
}

// ShowSize prints a number of bytes as an operator writes it: in the largest unit that is whole.
func ShowSize(n int64) string {
	switch {
	case n >= 1<<30 && n%(1<<30) == 0:
		return fmt.Sprintf("%dGiB", n>>30)
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%dMiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%dKiB", n>>10)
	}
	return fmt.Sprintf("%dB", n)
}

// rateKind is calls per period such as "10/s".
func rateKind() kind[tool.Rate] {
	periods := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}
	return kind[tool.Rate]{
		name: "rate",
		conv: func(v cty.Value, _ hclsyntax.Expression) (tool.Rate, *issue) {
			if v.Type() != cty.String {
				return tool.Rate{}, mismatch(`a rate such as "10/s"`, v)
			}
			count, unit, _ := strings.Cut(v.AsString(), "/")
			n, err := strconv.Atoi(count)
			per, ok := periods[unit]
			if err != nil || n < 1 || n > math.MaxInt32 || !ok || count[0] == '+' {
				return tool.Rate{}, wrong(`%q is not a rate. Write calls per second, minute or hour: "10/s", "100/m" or "1000/h".`, v.AsString())
			}
			return tool.Rate{Calls: n, Per: per}, nil
		},
	}
}

// stringsKind is a list of strings.
func stringsKind() kind[[]string] {
	show := func(list []string) string {
		quoted := make([]string, len(list))
		for i, s := range list {
			quoted[i] = strconv.Quote(s)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	}
	return kind[[]string]{name: "list(string)", show: show, conv: toStrings}
}

func toStrings(v cty.Value, expr hclsyntax.Expression) ([]string, *issue) {
	ty := v.Type()
	if !ty.IsListType() && !ty.IsSetType() && !ty.IsTupleType() {
		bad := mismatch(`a list of strings such as ["a", "b"]`, v)
		if ty == cty.String {
			bad = wrong("This is a list: write [%q].", v.AsString())
		}
		return nil, bad
	}
	items, _ := expr.(*hclsyntax.TupleConsExpr)
	list := make([]string, 0, v.LengthInt())
	for it := v.ElementIterator(); it.Next(); {
		_, e := it.Element()
		if e.IsNull() || e.Type() != cty.String {
			bad := wrong("Each element must be a string in double quotes.")
			if items != nil && len(list) < len(items.Exprs) {
				r := items.Exprs[len(list)].Range()
				bad.at = &r
			}
			return nil, bad
		}
		list = append(list, e.AsString())
	}
	return list, nil
}

// secretKind is a string that does not print.
func secretKind() kind[secret.Value] {
	return kind[secret.Value]{
		name: "secret string", secrets: true,
		conv: func(v cty.Value, _ hclsyntax.Expression) (secret.Value, *issue) {
			v, _ = v.UnmarkDeep()
			if v.Type() != cty.String {
				return secret.Value{}, mismatch("a string", v)
			}
			return secret.New(v.AsString()), nil
		},
	}
}

// textMapKind is a map of strings; sensitive ones are secret.Values.
func textMapKind() kind[map[string]any] {
	return kind[map[string]any]{
		name: "map(string)", secrets: true,
		conv: func(v cty.Value, expr hclsyntax.Expression) (map[string]any, *issue) {
			if ty := v.Type(); !ty.IsObjectType() && !ty.IsMapType() {
				v, _ = v.UnmarkDeep()
				return nil, mismatch(`a map such as { name = "value" }`, v)
			}
			v, marks := v.Unmark()
			out := make(map[string]any, v.LengthInt())
			for it := v.ElementIterator(); it.Next(); {
				key, e := it.Element()
				leaf, err := convert.Convert(e.WithMarks(marks), cty.String)
				name, _ := key.Unmark()
				if err != nil || leaf.IsNull() {
					return nil, &issue{detail: fmt.Sprintf("The value of %q must be a string.", name.AsString()), at: itemRange(expr, name.AsString())}
				}
				out[name.AsString()] = leafText(leaf)
			}
			return out, nil
		},
	}
}

// anyMapKind is an object of any values, none of them sensitive.
func anyMapKind() kind[map[string]any] {
	return kind[map[string]any]{
		name: "object",
		conv: func(v cty.Value, _ hclsyntax.Expression) (map[string]any, *issue) {
			if ty := v.Type(); !ty.IsObjectType() && !ty.IsMapType() {
				return nil, mismatch("an object such as { name = value }", v)
			}
			p, err := plain(v)
			if err != nil {
				return nil, wrong("%s", sentence(err.Error()))
			}
			m, _ := p.(map[string]any)
			return m, nil
		},
	}
}

// pointer makes an optional attribute of a kind, nil when it is left out.
func pointer[V any](k kind[V]) kind[*V] {
	return kind[*V]{name: k.name, secrets: k.secrets, conv: func(v cty.Value, e hclsyntax.Expression) (*V, *issue) {
		x, bad := k.conv(v, e)
		return &x, bad
	}}
}
