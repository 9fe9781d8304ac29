package funcs

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	ctyyaml "github.com/zclconf/go-cty-yaml"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// MaxNesting is how deep brackets, braces, parentheses, templates and operators may
// nest. Parsers recurse, and a Go program whose stack overflows cannot be saved.
const MaxNesting = 200

// maxChain bounds the operators of one file that parse by recursion without a bracket.
const maxChain = 5000

// CheckNesting refuses HCL text (or a template) that nests deeper than [MaxNesting].
// Its cost on text that cannot nest that deep is one pass over the bytes.
func CheckNesting(src []byte, template bool) error {
	if !suspicious(src) {
		return nil
	}
	lex := hclsyntax.LexConfig
	if template {
		lex = hclsyntax.LexTemplate
	}
	tokens, _ := lex(src, "", hcl.InitialPos)
	depth, run, chain := 0, 0, 0
	for _, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenOQuote,
			hclsyntax.TokenOHeredoc, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			depth, run = depth+1, 0
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenCQuote,
			hclsyntax.TokenCHeredoc, hclsyntax.TokenTemplateSeqEnd:
			depth, run = max(depth-1, 0), 0
		case hclsyntax.TokenBang, hclsyntax.TokenMinus:
			run, chain = run+1, chain+1
		case hclsyntax.TokenQuestion:
			chain, run = chain+1, 0
		case hclsyntax.TokenNewline:
		default:
			run = 0
		}
		if depth+run > MaxNesting || chain > maxChain {
			return nestingError(t.Range.Start.Line)
		}
	}
	return nil
}

func nestingError(line int) error {
	return &Error{
		Summary: "Invalid nesting",
		Detail:  fmt.Sprintf("Line %d nests deeper than %d levels, which is the most there may be.", line, MaxNesting),
	}
}

// suspicious says whether the bytes could nest too deep, counting characters in
// texts and comments too.
func suspicious(src []byte) bool {
	depth, ops := 0, 0
	for _, c := range src {
		switch c {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth = max(depth-1, 0)
		case '!', '-', '?', '%', '"':
			ops++
		}
		if depth > MaxNesting/2 {
			return true
		}
	}
	return ops > maxChain
}

// guarded runs check on the text before f decodes it.
func guarded(f function.Function, format string, check func(string) error) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "text", Type: cty.String}},
		Type: func(args []cty.Value) (cty.Type, error) {
			if args[0].IsKnown() && !args[0].IsNull() {
				if err := check(args[0].AsString()); err != nil {
					return cty.NilType, function.NewArgError(0, err)
				}
			}
			ty, err := f.ReturnTypeForValues(args)
			if err != nil {
				err = function.NewArgErrorf(0, "the text is not valid %s: %s", format, err)
			}
			return ty, err
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return f.Call(args) },
	})
}

func jsonNesting(s string) error {
	depth, quoted := 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		}
		if depth > MaxNesting {
			return fmt.Errorf("the JSON nests deeper than %d levels", MaxNesting)
		}
	}
	return nil
}

// yamlNesting bounds nesting in flow and block style, and refuses aliases, with which a
// short text stands for an endless one.
func yamlNesting(s string) error {
	if err := jsonNesting(s); err != nil {
		return fmt.Errorf("the YAML nests deeper than %d levels", MaxNesting)
	}
	indent, depth, start := []int{}, 0, true
	col := 0
	for i := range len(s) {
		c := s[i]
		if c == '\n' {
			start, col = true, 0
			continue
		}
		if start && c != ' ' && c != '-' {
			for len(indent) > 0 && indent[len(indent)-1] >= col {
				indent = indent[:len(indent)-1]
			}
			indent = append(indent, col)
			start = false
		} else if start && c == '-' {
			depth = max(depth, col)
		}
		if len(indent) > MaxNesting || depth > 4*MaxNesting {
			return fmt.Errorf("the YAML nests deeper than %d levels", MaxNesting)
		}
		col++
	}
	return nil
}

func yamlDecode() function.Function { return ctyyaml.YAMLDecodeFunc }
func yamlEncode() function.Function { return ctyyaml.YAMLEncodeFunc }

func jsonencodeFunc() function.Function { return stdlib.JSONEncodeFunc }
