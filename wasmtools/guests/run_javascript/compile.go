package main

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/dop251/goja"
	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/file"
	"github.com/dop251/goja/parser"
)

// scriptName is the name of the script in stacks.
const scriptName = "script"

// program is a script in one of its forms:
//
//   - a plain script, whose value is that of its last statement, as eval has it
//   - the body of a function, in which return is allowed, and whose last statement is
//     returned if it is an expression; variables of a function are also the faster ones
//   - the same of an async function, in which await is allowed
type program struct {
	code *goja.Program
	body bool // to be called
	// whole says that the end of a body says what its value is.
	whole bool
}

// line is the line of the script for a line of the program: a body has a line of ours
// before it.
func (p program) line(n int) int {
	if p.body {
		n--
	}
	return n
}

var awaitRE = regexp.MustCompile(`\bawait\b`)

// compile takes the form that the code fits. Outside of async functions await is a name
// like any other, so code that has the word is first taken for the body of one.
func compile(code string) (program, error) {
	open := "(() => {\n"
	if awaitRE.MatchString(code) {
		open = "(async () => {\n"
	}
	p, first := body(open, code)
	if first == nil && p.whole {
		return p, nil
	}
	q, second := plain(code)
	if second == nil {
		return q, nil
	}
	if first == nil {
		return p, nil
	}
	// The form that was understood farther is the one that was meant.
	return p, fmt.Errorf("%w%s", later(second, first), moduleHint(code))
}

func plain(code string) (program, error) {
	tree, err := parser.ParseFile(nil, scriptName, code, 0, parser.WithDisableSourceMaps)
	if err != nil {
		return program{}, syntaxError(err, program{})
	}
	return build(tree, program{})
}

func body(open, code string) (program, error) {
	p := program{body: true}
	tree, err := parser.ParseFile(nil, scriptName, open+code+"\n})", 0, parser.WithDisableSourceMaps)
	if err != nil {
		return p, syntaxError(err, p)
	}
	block := bodyOf(tree)
	if block == nil {
		return p, &syntax{message: "Unexpected token }", line: 1, column: 1}
	}
	p.whole = valued(block.List) || strings.Contains(open, "async")
	return build(tree, p)
}

// valued makes a last expression what is returned, and says whether the statements end
// with a value.
func valued(list []ast.Statement) bool {
	if len(list) == 0 {
		return false
	}
	switch last := list[len(list)-1].(type) {
	case *ast.ExpressionStatement:
		list[len(list)-1] = &ast.ReturnStatement{Return: last.Idx0(), Argument: last.Expression}
		return true
	case *ast.ReturnStatement, *ast.ThrowStatement:
		return true
	}
	return false
}

// bodyOf is the body of the one function that the tree is; nil if the code closed it and
// went on.
func bodyOf(tree *ast.Program) *ast.BlockStatement {
	if len(tree.Body) != 1 {
		return nil
	}
	s, ok := tree.Body[0].(*ast.ExpressionStatement)
	if !ok {
		return nil
	}
	f, ok := s.Expression.(*ast.ArrowFunctionLiteral)
	if !ok {
		return nil
	}
	block, _ := f.Body.(*ast.BlockStatement)
	return block
}

func build(tree *ast.Program, p program) (program, error) {
	code, err := goja.CompileAST(tree, false)
	if err != nil {
		return p, syntaxError(err, p)
	}
	p.code = code
	return p, nil
}

// syntax is an error of the compiler, at a place of the script.
type syntax struct {
	message      string
	line, column int
}

func (s *syntax) Error() string {
	return fmt.Sprintf("SyntaxError: %s (line %d, column %d)", s.message, s.line, s.column)
}

// later is the error that stands farther behind; the first of two at one place.
func later(a, b error) error {
	var x, y *syntax
	if errors.As(a, &x) && errors.As(b, &y) && cmp.Or(cmp.Compare(x.line, y.line), cmp.Compare(x.column, y.column)) < 0 {
		return b
	}
	return a
}

func syntaxError(err error, p program) error {
	var list parser.ErrorList
	var se *goja.CompilerSyntaxError
	var re *goja.CompilerReferenceError
	switch {
	case errors.As(err, &list) && len(list) > 0:
		return &syntax{list[0].Message, p.line(list[0].Position.Line), list[0].Position.Column}
	case errors.As(err, &se):
		return compilerError(&se.CompilerError, p)
	case errors.As(err, &re):
		return compilerError(&re.CompilerError, p)
	}
	return &syntax{err.Error(), 1, 1}
}

func compilerError(e *goja.CompilerError, p program) error {
	var at file.Position
	if e.File != nil {
		at = e.File.Position(e.Offset)
	}
	return &syntax{e.Message, p.line(at.Line), at.Column}
}

var moduleRE = regexp.MustCompile(`(?m)^\s*(import|export)\b`)

func moduleHint(code string) string {
	if m := moduleRE.FindStringSubmatch(code); m != nil {
		return "; there is no " + m[1] + ": a script is one file, and its value is its last expression or what it returns"
	}
	return ""
}
