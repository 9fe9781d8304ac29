package funcs

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// maxWidth bounds the width and the precision that format may be asked for.
const maxWidth = 10_000

// bounded are the functions of the standard library whose results can be far larger
// than their arguments, each with a check that is made before the result is.
func bounded() map[string]function.Function {
	return map[string]function.Function{
		"format":     before(stdlib.FormatFunc, checkFormat),
		"formatlist": before(stdlib.FormatListFunc, checkFormat),
		"indent":     before(stdlib.IndentFunc, checkIndent),
		"join":       before(stdlib.JoinFunc, checkJoin),
		"jsonencode": before(stdlib.JSONEncodeFunc, checkSizes),
		"setproduct": before(stdlib.SetProductFunc, checkProduct),
		"split":      before(stdlib.SplitFunc, checkSplit),
		"yamlencode": before(yamlEncode(), checkSizes),
	}
}

// before is f, with a check of arguments that are known.
func before(f function.Function, check func([]cty.Value) error) function.Function {
	spec := &function.Spec{Description: f.Description(), Params: f.Params(), VarParam: f.VarParam()}
	spec.Type = func(args []cty.Value) (cty.Type, error) { return f.ReturnTypeForValues(args) }
	spec.Impl = func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		bare := make([]cty.Value, len(args))
		for i, a := range args {
			bare[i], _ = a.Unmark()
		}
		if err := check(bare); err != nil {
			return cty.NilVal, err
		}
		return f.Call(args)
	}
	return function.New(spec)
}

func checkSizes(args []cty.Value) error {
	for _, a := range args {
		if err := CheckSize(a); err != nil {
			return err
		}
	}
	return nil
}

func known(v cty.Value) bool { return v.IsKnown() && !v.IsNull() }

// checkFormat refuses verbs with a width or precision of more than four digits.
func checkFormat(args []cty.Value) error {
	wide := regexp.MustCompile(`%[-+ #0]*(?:\[[0-9]+\])?(?:[1-9][0-9]{4,}|[0-9]*\.[0-9]{5,})`)
	if known(args[0]) && wide.MatchString(args[0].AsString()) {
		return function.NewArgErrorf(0, "the width of a value must be less than %d characters", maxWidth)
	}
	return checkSizes(args)
}

func checkIndent(args []cty.Value) error {
	if !known(args[0]) || !known(args[1]) {
		return nil
	}
	spaces, _ := args[0].AsBigFloat().Float64()
	if text := args[1].AsString(); spaces*float64(strings.Count(text, "\n")) > MaxText {
		return tooMuchText()
	}
	return nil
}

func checkJoin(args []cty.Value) error {
	if !known(args[0]) {
		return nil
	}
	left := MaxText
	for _, list := range args[1:] {
		if !known(list) {
			continue
		}
		left -= list.LengthInt() * len(args[0].AsString())
		if left < 0 || !fits(list, &left) {
			return tooMuchText()
		}
	}
	return nil
}

func checkProduct(args []cty.Value) error {
	n := 1
	for _, set := range args {
		if !known(set) || !set.CanIterateElements() || !set.Length().IsKnown() {
			return nil
		}
		if n *= set.LengthInt(); n > MaxSteps {
			return fmt.Errorf("the product has more than %d elements", MaxSteps)
		}
	}
	return nil
}

func checkSplit(args []cty.Value) error {
	if !known(args[0]) || !known(args[1]) {
		return nil
	}
	if strings.Count(args[1].AsString(), args[0].AsString()) > MaxSteps {
		return function.NewArgErrorf(1, "the text has more than %d parts", MaxSteps)
	}
	return nil
}

// checkReplace refuses a replacement whose result would be too large, counting no more
// matches than it takes to know. count gives at most limit matches.
func checkReplace(s, with string, count func(limit int) int) error {
	groups := len(s) * strings.Count(with, "$") // what $1 and its like put in, at most
	left := MaxText - len(s) - groups
	if left < 0 {
		return tooMuchText()
	}
	if with == "" {
		return nil
	}
	if limit := left / len(with); count(limit+1) > limit {
		return tooMuchText()
	}
	return nil
}
