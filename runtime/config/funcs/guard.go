package funcs

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	ctyyaml "github.com/zclconf/go-cty-yaml"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// MaxNesting is how deep brackets, braces, parentheses, templates and operators may
// nest. Parsers recurse, and a Go program whose stack overflows cannot be saved.
const MaxNesting = 200

// maxChain bounds operators in a row: each makes a tree of expressions one deeper.
const maxChain = 2000

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
	chains, run := []int{0}, 0 // operators in a row at each level, and signs in a row
	for _, t := range tokens {
		top := len(chains) - 1
		switch t.Type {
		case hclsyntax.TokenOBrack, hclsyntax.TokenTemplateControl:
			chains[top]++
			chains = append(chains, 0)
		case hclsyntax.TokenOBrace, hclsyntax.TokenOParen, hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc, hclsyntax.TokenTemplateInterp:
			chains = append(chains, 0)
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenCQuote,
			hclsyntax.TokenCHeredoc, hclsyntax.TokenTemplateSeqEnd:
			chains = chains[:max(top, 1)]
		case hclsyntax.TokenComma, hclsyntax.TokenEqual:
			chains[top] = 0
		case hclsyntax.TokenBang, hclsyntax.TokenMinus:
			run++
			chains[top]++
		case hclsyntax.TokenQuestion, hclsyntax.TokenPlus, hclsyntax.TokenStar, hclsyntax.TokenSlash, hclsyntax.TokenPercent,
			hclsyntax.TokenAnd, hclsyntax.TokenOr, hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual, hclsyntax.TokenLessThan,
			hclsyntax.TokenLessThanEq, hclsyntax.TokenGreaterThan, hclsyntax.TokenGreaterThanEq:
			chains[top]++
		default:
		}
		if t.Type != hclsyntax.TokenBang && t.Type != hclsyntax.TokenMinus && t.Type != hclsyntax.TokenNewline {
			run = 0
		}
		if len(chains)-1+run > MaxNesting || chains[len(chains)-1] > maxChain {
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
		case '[':
			ops++
			depth++
		case '(', '{':
			depth++
		case ')', ']', '}':
			depth = max(depth-1, 0)
		case '!', '-', '?', '%', '"', '+', '*', '/', '&', '|', '<', '>':
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

// maxAliases bounds the aliases of a YAML text: with a hundred, a short text stands for
// more values than a machine holds.
const maxAliases = 20

// yamlNesting bounds nesting in flow and block style, and the number of aliases.
func yamlNesting(s string) error {
	deep := fmt.Errorf("the YAML nests deeper than %d levels", MaxNesting)
	if jsonNesting(s) != nil {
		return deep
	}
	for line := range strings.Lines(s) {
		// Every level of block style takes a column, at least one of "- " or of space.
		if lead := len(line) - len(strings.TrimLeft(line, " -?:")); lead > 4*MaxNesting {
			return deep
		}
	}
	anchors := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)(?:^|[:\-\[{,?])[ \t]*&([^\s\[\]{},]+)`).FindAllStringSubmatch(s, -1) {
		anchors[m[1]] = true
	}
	aliases := 0
	for _, m := range regexp.MustCompile(`\*([^\s\[\]{},]+)`).FindAllStringSubmatch(s, -1) {
		if anchors[m[1]] {
			aliases++
		}
	}
	if aliases > maxAliases {
		return fmt.Errorf("the YAML has more than %d aliases", maxAliases)
	}
	return nil
}

func yamlDecode() function.Function { return ctyyaml.YAMLDecodeFunc }
func yamlEncode() function.Function { return ctyyaml.YAMLEncodeFunc }
