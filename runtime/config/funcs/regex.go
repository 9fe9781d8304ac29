package funcs

import (
	"regexp"
	"sync"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// maxPatterns is how many compiled patterns are kept. A configuration has fewer; an
// expression that makes its patterns from arguments could have any number.
const maxPatterns = 1024

// patterns compiles each pattern once. It is safe for concurrent use.
type patterns struct {
	mu       sync.Mutex // guards below
	compiled map[string]*regexp.Regexp
	compiles int
}

// compile gives the pattern of the argument at index.
func (p *patterns) compile(pattern string, index int) (*regexp.Regexp, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if re, ok := p.compiled[pattern]; ok {
		return re, nil
	}
	p.compiles++
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, function.NewArgErrorf(index, "the pattern is not RE2: %s", syntaxError(err))
	}
	if len(p.compiled) >= maxPatterns || p.compiled == nil {
		p.compiled = map[string]*regexp.Regexp{}
	}
	p.compiled[pattern] = re
	return re, nil
}

// functions are those that take patterns. One whose pattern is known at load is checked
// then, whatever is known of the rest.
func (p *patterns) functions() map[string]function.Function {
	return map[string]function.Function{
		"matches":  p.matches(),
		"regex":    p.capturing(stdlib.RegexFunc, false),
		"regexall": p.capturing(stdlib.RegexAllFunc, true),
		"replace":  p.replace(),
	}
}

func (p *patterns) matches() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "pattern", Type: cty.String}, {Name: "text", Type: cty.String}},
		Type: func(args []cty.Value) (cty.Type, error) {
			if known(args[0]) {
				if _, err := p.compile(args[0].AsString(), 0); err != nil {
					return cty.NilType, err
				}
			}
			return cty.Bool, nil
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			re, err := p.compile(args[0].AsString(), 0)
			if err != nil {
				return cty.NilVal, err
			}
			return cty.BoolVal(re.MatchString(args[1].AsString())), nil
		},
	})
}

// capturing is f with patterns that are compiled once: what regex and regexall give
// depends on the groups of the pattern. all is for every place where it is found.
func (p *patterns) capturing(f function.Function, all bool) function.Function {
	return function.New(&function.Spec{
		Description: f.Description(),
		Params:      f.Params(),
		Type: func(args []cty.Value) (cty.Type, error) {
			if !known(args[0]) {
				return cty.DynamicPseudoType, nil
			}
			re, err := p.compile(args[0].AsString(), 0)
			if err != nil {
				return cty.NilType, err
			}
			one, err := captureType(re)
			if err == nil && all {
				one = cty.List(one)
			}
			return one, err
		},
		Impl: func(args []cty.Value, want cty.Type) (cty.Value, error) {
			re, err := p.compile(args[0].AsString(), 0)
			if err != nil {
				return cty.NilVal, err
			}
			if all {
				return captureAll(re, args[1].AsString(), want)
			}
			at := re.FindStringSubmatchIndex(args[1].AsString())
			if at == nil {
				return cty.NilVal, function.NewArgErrorf(1, "the pattern is not found in the text")
			}
			return capture(re, args[1].AsString(), at, want), nil
		},
	})
}

// captureType is a string for a pattern without groups, a tuple for groups without names
// and an object for groups with names.
func captureType(re *regexp.Regexp) (cty.Type, error) {
	names := re.SubexpNames()[1:]
	if len(names) == 0 {
		return cty.String, nil
	}
	named, types := map[string]cty.Type{}, make([]cty.Type, len(names))
	for i, n := range names {
		types[i] = cty.String
		if n != "" {
			named[n] = cty.String
		}
	}
	switch {
	case len(named) == 0:
		return cty.Tuple(types), nil
	case len(named) == len(names):
		return cty.Object(named), nil
	}
	return cty.NilType, function.NewArgErrorf(0, "groups with and without names cannot stand in one pattern, and names cannot repeat")
}

func capture(re *regexp.Regexp, s string, at []int, want cty.Type) cty.Value {
	group := func(i int) cty.Value {
		if at[2*i] < 0 {
			return cty.NullVal(cty.String)
		}
		return cty.StringVal(s[at[2*i]:at[2*i+1]])
	}
	switch {
	case want.IsTupleType():
		out := make([]cty.Value, re.NumSubexp())
		for i := range out {
			out[i] = group(i + 1)
		}
		return cty.TupleVal(out)
	case want.IsObjectType():
		out := map[string]cty.Value{}
		for i, n := range re.SubexpNames()[1:] {
			out[n] = group(i + 1)
		}
		return cty.ObjectVal(out)
	}
	return group(0)
}

func captureAll(re *regexp.Regexp, s string, want cty.Type) (cty.Value, error) {
	found := re.FindAllStringSubmatchIndex(s, MaxSteps+1)
	if len(found) > MaxSteps {
		return cty.NilVal, function.NewArgErrorf(1, "the pattern is found more than %d times", MaxSteps)
	}
	one := want.ElementType()
	if len(found) == 0 {
		return cty.ListValEmpty(one), nil
	}
	out := make([]cty.Value, len(found))
	for i, at := range found {
		out[i] = capture(re, s, at, one)
	}
	return cty.ListVal(out), nil
}

// replace replaces a text, or a pattern written between slashes.
func (p *patterns) replace() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{
			{Name: "text", Type: cty.String}, {Name: "search", Type: cty.String}, {Name: "replacement", Type: cty.String},
		},
		Type: func(args []cty.Value) (cty.Type, error) {
			if known(args[1]) {
				if pattern, ok := slashed(args[1].AsString()); ok {
					if _, err := p.compile(pattern, 1); err != nil {
						return cty.NilType, err
					}
				}
			}
			return cty.String, nil
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return p.replaced(args[0].AsString(), args[1].AsString(), args[2].AsString())
		},
	})
}

// slashed is the pattern that stands between slashes.
func slashed(search string) (string, bool) {
	if len(search) < 2 || search[0] != '/' || search[len(search)-1] != '/' {
		return "", false
	}
	return search[1 : len(search)-1], true
}
