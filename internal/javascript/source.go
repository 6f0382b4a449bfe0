package javascript

import (
	"errors"
	"math/big"
	"reflect"
	"strings"

	"github.com/dop251/goja"
	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/file"
	"github.com/dop251/goja/parser"

	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// The bounds of a text. Parser and compiler recurse for each level of nesting
// and for each operator of a chain, take time that grows with the square of a
// chain's length, and cannot be interrupted.
const (
	maxText      = 64 << 10 // bytes
	maxNesting   = 500      // brackets open at once
	maxOperators = 8 << 10  // characters of operators
	maxColons    = 1000     // each may end a label, and the parser reports a label that is there twice once for each pair
)

// checkText rejects a text that would be expensive to compile. It only counts
// characters, including those in strings and comments, so that quoting hides nothing.
func checkText(text string) error {
	if len(text) > maxText {
		return syntaxError("the text is longer than %d bytes", maxText)
	}
	open, operators, colons := 0, 0, 0
	for i := range len(text) {
		switch text[i] {
		case '(', '[', '{':
			if open++; open > maxNesting {
				return syntaxError("brackets nest more than %d deep", maxNesting)
			}
		case ')', ']', '}':
			open = max(open-1, 0)
		case '+', '-', '*', '/', '%', '!', '~', '?', '&', '|', '^', '<', '>', '=':
			operators++
		case ':':
			colons++
		}
	}
	if colons > maxColons {
		return syntaxError("more than %d colons", maxColons)
	}
	if operators > maxOperators {
		return syntaxError("more than %d characters of operators", maxOperators)
	}
	return nil
}

func syntaxError(format string, args ...any) error {
	return mongoerr.New(mongoerr.JSInterpreterFailure, "SyntaxError: "+format, args...)
}

// compile makes a program whose value is the function that text means.
func compile(text string) (*goja.Program, error) {
	if err := checkText(text); err != nil {
		return nil, err
	}
	return compileProgram("(" + functionOf(text) + "\n)") // the line break ends a comment
}

// compileProgram parses and compiles a program. Source maps are not loaded:
// they would be read from files.
func compileProgram(text string) (program *goja.Program, err error) {
	if err := checkText(text); err != nil {
		return nil, err
	}
	tree, err := parse(text)
	if err != nil {
		return nil, parseFailure(err)
	}
	if err := checkTree(reflect.ValueOf(tree)); err != nil {
		return nil, err
	}
	countSums(reflect.ValueOf(tree))
	defer func() {
		if x := recover(); x != nil {
			program, err = nil, syntaxError("%v", x)
		}
	}()
	if program, err = goja.CompileAST(tree, false); err != nil {
		return nil, parseFailure(err)
	}
	return program, nil
}

// checkFunction checks the arguments of a constructor of functions: parameters,
// and the body last. The constructor reports other errors in them.
func checkFunction(texts []string) error {
	if len(texts) == 0 {
		return nil
	}
	body := len(texts) - 1
	text := "(async function*(" + strings.Join(texts[:body], ",") + "\n) {" + texts[body] + "\n})"
	if err := checkText(text); err != nil {
		return err
	}
	tree, err := parse(text)
	if err != nil {
		return nil
	}
	return checkTree(reflect.ValueOf(tree))
}

// fileType is the type of the file in a syntax tree, which is skipped.
var fileType = reflect.TypeFor[*file.File]()

// checkTree rejects what the engine cannot bound at run time: BigInts, one operation on
// which may take all time and memory, and yield*, which it follows by recursion.
func checkTree(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Interface:
		return checkTree(v.Elem())
	case reflect.Pointer:
		if v.Type() == fileType {
			return nil
		}
		switch n := v.Interface().(type) {
		case *big.Int:
			return syntaxError("integers of any size are not supported")
		case *ast.YieldExpression:
			if n.Delegate {
				return syntaxError("yield* is not supported")
			}
		}
		if v.IsNil() {
			return nil
		}
		return checkTree(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if err := checkTree(v.Field(i)); err != nil {
				return err
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if err := checkTree(v.Index(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func parse(text string) (*ast.Program, error) {
	return parser.ParseFile(nil, "", text, 0, parser.WithDisableSourceMaps)
}

// functionOf is the text of a function expression for what a client wrote: a
// function as it is; of statements that end with an expression, a function that
// returns it; of other statements, a function of them. Arrow functions are
// expressions, as for the server: the value is the function.
func functionOf(text string) string {
	text = strings.TrimRight(text, "; \t\r\n\v\f")
	if isFunction(text) {
		return text
	}
	if tree, err := parse(text); err == nil && len(tree.Body) > 0 {
		if _, ok := tree.Body[len(tree.Body)-1].(*ast.ExpressionStatement); ok {
			if f, ok := returning(text, tree.Body); ok {
				return f
			}
		}
	}
	// The line break ends a comment at the end of the text.
	return "function() { " + text + "\n}"
}

// isFunction reports whether text is one function, named or not.
func isFunction(text string) bool {
	head := strings.TrimLeft(text, " \t\r\n\v\f")
	if !strings.HasPrefix(head, "function") && !strings.HasPrefix(head, "async") && !strings.HasPrefix(head, "/") {
		return false
	}
	tree, err := parse("(" + text + "\n)")
	if err != nil || len(tree.Body) != 1 {
		return false
	}
	s, ok := tree.Body[0].(*ast.ExpressionStatement)
	if !ok {
		return false
	}
	_, ok = s.Expression.(*ast.FunctionLiteral)
	return ok
}

// returning puts return before the last statement, an expression. Where that
// begins is searched for from where the statement before it ends, for the
// expression's own place leaves out brackets around it.
func returning(text string, body []ast.Statement) (string, bool) {
	at := 0
	if n := len(body); n > 1 {
		at = min(max(int(body[n-2].Idx1())-1, 0), len(text))
	}
	for at < len(text) && strings.IndexByte("; \t\r\n\v\f", text[at]) >= 0 {
		at++
	}
	f := "function() { " + text[:at] + "return " + text[at:] + "\n}"
	_, err := parse("(" + f + ")")
	return f, err == nil
}

// parseFailure is the error of a text that is no JavaScript.
func parseFailure(err error) error {
	var list parser.ErrorList
	if errors.As(err, &list) && len(list) > 0 {
		e := list[0]
		return syntaxError("%s :\n@:%d:%d\n", e.Message, e.Position.Line, e.Position.Column)
	}
	var compiled *goja.CompilerSyntaxError
	if errors.As(err, &compiled) && compiled.File != nil {
		p := compiled.File.Position(compiled.Offset)
		return syntaxError("%s :\n@:%d:%d\n", compiled.Message, p.Line, p.Column)
	}
	return mongoerr.New(mongoerr.JSInterpreterFailure, "%s", err)
}
