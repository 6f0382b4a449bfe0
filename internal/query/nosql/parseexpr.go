package nosql

import (
	"math"
	"strconv"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

// reserved words are no aliases.
var reserved = map[string]bool{
	"SELECT": true, "DISTINCT": true, "TOP": true, "VALUE": true, "FROM": true, "JOIN": true, "IN": true, "AS": true, "WHERE": true, "GROUP": true, "BY": true,
	"ORDER": true, "ASC": true, "DESC": true, "OFFSET": true, "LIMIT": true, "AND": true, "OR": true, "NOT": true, "BETWEEN": true,
	"LIKE": true, "ESCAPE": true, "EXISTS": true, "ARRAY": true, "TRUE": true, "FALSE": true, "NULL": true, "UNDEFINED": true, "UDF": true,
}

// expression parses from the weakest operator down: ?: then ?? then OR.
func (p *parser) expression() (expression, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	e, err := p.binary(0)
	if err != nil || !p.accept("?") {
		return e, err
	}
	then, err := p.expression()
	if err != nil {
		return nil, err
	}
	if err := p.expect(":"); err != nil {
		return nil, err
	}
	other, err := p.expression()
	return &conditional{e, then, other}, err
}

// levels are the binary operators, from the weakest.
var levels = [][]string{
	{"??"}, {"OR"}, {"AND"}, nil, {"|"}, {"^"}, {"&"}, {"<<", ">>", ">>>"}, {"||"}, {"+", "-"}, {"*", "/", "%"},
}

// comparison is the level of NOT, IN, BETWEEN, LIKE and =.
const comparisonLevel = 3

func (p *parser) binary(level int) (expression, error) {
	if level == len(levels) {
		return p.unary()
	}
	if level == comparisonLevel {
		return p.comparison()
	}
	left, err := p.binary(level + 1)
	if err != nil {
		return nil, err
	}
	for {
		op, ok := p.operator(levels[level])
		if !ok {
			return left, nil
		}
		if p.logical[op]++; p.logical[op] > maxLogical && (op == "AND" || op == "OR") {
			return nil, errorAt(codeLimits, p.peek(), "The query has more than %d operators %s.", maxLogical, op)
		}
		right, err := p.binary(level + 1)
		if err != nil {
			return nil, err
		}
		left = makeBinary(op, left, right)
	}
}

func (p *parser) operator(ops []string) (string, bool) {
	for _, op := range ops {
		if p.peek().is(op) {
			p.at++
			return op, true
		}
	}
	return "", false
}

func makeBinary(op string, l, r expression) expression {
	switch op {
	case "AND":
		return &logical{l, r, false}
	case "OR":
		return &logical{l, r, true}
	case "??":
		return &coalesce{l, r}
	}
	return &arithmetic{op, l, r}
}

func (p *parser) comparison() (expression, error) {
	if p.accept("NOT") {
		if err := p.enter(); err != nil {
			return nil, err
		}
		defer p.leave()
		e, err := p.comparison()
		return &not{e}, err
	}
	left, err := p.binary(comparisonLevel + 1)
	if err != nil {
		return nil, err
	}
	for {
		if op, ok := p.operator([]string{"=", "!=", "<>", "<=", ">=", "<", ">"}); ok {
			right, err := p.binary(comparisonLevel + 1)
			if err != nil {
				return nil, err
			}
			left = &comparison{op, left, right}
			continue
		}
		negated := p.peek().is("NOT") && (p.tokens[p.at+1].is("IN") || p.tokens[p.at+1].is("BETWEEN") || p.tokens[p.at+1].is("LIKE"))
		if negated {
			p.at++
		}
		e, ok, err := p.predicate(left)
		if err != nil || !ok {
			return left, err
		}
		if left = e; negated {
			left = &not{e}
		}
	}
}

// predicate parses IN, BETWEEN and LIKE after their left side.
func (p *parser) predicate(left expression) (expression, bool, error) {
	switch {
	case p.accept("IN"):
		if err := p.expect("("); err != nil {
			return nil, false, err
		}
		es, err := p.expressions()
		if err != nil {
			return nil, false, err
		}
		if len(es) > maxList {
			return nil, false, errorAt(codeLimits, p.peek(), "The query has an IN with more than %d values.", maxList)
		}
		return &membership{left, es}, true, p.expect(")")
	case p.accept("BETWEEN"):
		low, err := p.binary(comparisonLevel + 1)
		if err != nil {
			return nil, false, err
		}
		if err := p.expect("AND"); err != nil {
			return nil, false, err
		}
		high, err := p.binary(comparisonLevel + 1)
		return &logical{&comparison{">=", left, low}, &comparison{"<=", left, high}, false}, true, err
	case p.accept("LIKE"):
		pattern, err := p.binary(comparisonLevel + 1)
		if err != nil {
			return nil, false, err
		}
		like := &like{value: left, pattern: pattern}
		if p.accept("ESCAPE") {
			t := p.peek()
			if t.kind != tokString || len([]rune(t.text)) != 1 {
				return nil, false, p.unexpected()
			}
			like.escape = []rune(p.next().text)[0]
		}
		return like, true, nil
	}
	return nil, false, nil
}

func (p *parser) unary() (expression, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	if op, ok := p.operator([]string{"-", "+", "~", "NOT"}); ok {
		e, err := p.unary()
		if err != nil {
			return nil, err
		}
		if op == "NOT" {
			return &not{e}, nil
		}
		return &sign{op, e}, nil
	}
	e, err := p.primary()
	for err == nil {
		key, ok, stepErr := p.step()
		if stepErr != nil || !ok {
			return e, stepErr
		}
		e = p.member(e, key)
	}
	return e, err
}

func (p *parser) primary() (expression, error) {
	switch t := p.peek(); t.kind {
	case tokNumber:
		p.at++
		return numberConstant(t)
	case tokString:
		p.at++
		return &constant{text(t.text)}, nil
	case tokParameter:
		p.at++
		return &parameter{t.text}, nil
	case tokName:
		return p.named()
	}
	switch {
	case p.accept("("):
		return p.parenthesis()
	case p.accept("["):
		return p.arrayLiteral()
	case p.accept("{"):
		return p.objectLiteral()
	}
	return nil, p.unexpected()
}

func numberConstant(t token) (expression, error) {
	if u, err := strconv.ParseInt(t.text, 0, 64); err == nil && (t.text == "0" || t.text[0] != '0' || strings.HasPrefix(strings.ToLower(t.text), "0x")) {
		return &constant{bson.Int(u)}, nil
	}
	f, err := strconv.ParseFloat(t.text, 64)
	if err != nil {
		return nil, errorAt(codeToken, t, "Syntax error, invalid numeric value token '%s'.", t.text)
	}
	return &constant{number(f)}, nil
}

func (p *parser) parenthesis() (expression, error) {
	if p.peek().is("SELECT") {
		s, err := p.selection()
		if err != nil {
			return nil, err
		}
		return &scalarSubquery{s}, p.expect(")")
	}
	e, err := p.expression()
	if err != nil {
		return nil, err
	}
	return e, p.expect(")")
}

func (p *parser) arrayLiteral() (expression, error) {
	if p.accept("]") {
		return &arrayMaker{}, nil
	}
	es, err := p.expressions()
	if err != nil {
		return nil, err
	}
	return &arrayMaker{es}, p.expect("]")
}

func (p *parser) objectLiteral() (expression, error) {
	o := &objectMaker{}
	if p.accept("}") {
		return o, nil
	}
	for {
		t := p.peek()
		if t.kind != tokName && t.kind != tokString {
			return nil, p.unexpected()
		}
		p.at++
		if err := checkName(t.text, t); err != nil {
			return nil, err
		}
		if err := p.expect(":"); err != nil {
			return nil, err
		}
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		o.names, o.values = append(o.names, t.text), append(o.values, e)
		if !p.accept(",") {
			return o, p.expect("}")
		}
	}
}

// named parses an expression that begins with a name: a literal, a subquery, a call, an
// alias.
func (p *parser) named() (expression, error) {
	t := p.next()
	called := p.peek().is("(")
	switch {
	case t.upper == "TRUE" || t.upper == "FALSE":
		return &constant{bson.Bool(t.upper == "TRUE")}, nil
	case t.upper == "NULL":
		return &constant{bson.Value{Type: bson.TypeNull}}, nil
	case t.upper == "UNDEFINED":
		return &constant{}, nil
	case called && (t.upper == "EXISTS" || t.upper == "ARRAY"):
		p.at++
		s, err := p.selection()
		if err != nil {
			return nil, err
		}
		if t.upper == "EXISTS" {
			return &exists{s}, p.expect(")")
		}
		return &arraySubquery{s}, p.expect(")")
	case called:
		return p.call(t)
	case t.upper == "UDF" && p.peek().is("."):
		p.at++
		name := p.peek()
		return nil, errorAt(codeFunction, name, "'%s' is not a recognized user-defined function name.", name)
	case reserved[t.upper]:
		p.at--
		return nil, p.unexpected()
	}
	slot, known := p.scope.lookup(t.text)
	if f, ok := notFinite[t.text]; ok && !known {
		return &constant{bson.Double(f)}, nil
	}
	if !known {
		return nil, errorAt(codeUnresolved, t, "Identifier '%s' could not be resolved.", t.text)
	}
	return &alias{t.text, slot}, nil
}

// notFinite are the numbers that are spelled as JavaScript does, where nothing of
// the query has the name.
var notFinite = map[string]float64{"NaN": math.NaN(), "Infinity": math.Inf(1)}

func (p *parser) call(name token) (expression, error) {
	p.at++ // the parenthesis
	if _, ok := aggregates[name.upper]; ok {
		return p.aggregate(name)
	}
	f, known := functions[name.upper]
	if !known {
		return nil, errorAt(codeFunction, name, "'%s' is not a recognized built-in function name.", name.text)
	}
	var args []expression
	if !p.peek().is(")") {
		var err error
		if args, err = p.expressions(); err != nil {
			return nil, err
		}
	}
	if len(args) < f.min || f.max >= 0 && len(args) > f.max {
		return nil, errorAt(codeArguments, name, "The %s function requires %s argument(s).", name.upper, f.arity())
	}
	return &call{f, args}, p.expect(")")
}

func (p *parser) aggregate(name token) (expression, error) {
	if p.sel == nil || p.inAggregate {
		return nil, errorAt(codeAggregate, name, "Aggregate function %s is not allowed here.", name.upper)
	}
	p.inAggregate = true
	arg, err := p.expression()
	p.inAggregate = false
	if err != nil {
		return nil, err
	}
	a := &aggregate{name: name.upper, arg: arg, index: len(p.sel.aggregates)}
	p.sel.aggregates = append(p.sel.aggregates, a)
	return a, p.expect(")")
}
