package nosql

import "strings"

// parser turns tokens into a tree, and resolves names on the way: aliases are
// declared in FROM, which is parsed before its uses.
type parser struct {
	tokens []token
	at     int
	depth  int
	slots  int // of aliases, in all

	// container says that the SELECT which is parsed next selects from the
	// container: it is the outermost, or what that selects from.
	container bool
	computed  Computed
	logical   map[string]int // how often an operator came
	items     map[int]bool   // the slots whose aliases stand for items of the container

	scope *scope
	sel   *selection // whose aggregates are collected; nil if none may be
	// inAggregate says that an aggregate's argument is being parsed.
	inAggregate bool
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	if t.kind != tokEnd {
		p.at++
	}
	return t
}

func (p *parser) accept(s string) bool {
	if p.peek().is(s) {
		p.at++
		return true
	}
	return false
}

func (p *parser) expect(s string) error {
	if p.accept(s) {
		return nil
	}
	return p.unexpected()
}

func (p *parser) unexpected() error {
	t := p.peek()
	return errorAt(codeSyntax, t, "Syntax error, incorrect syntax near '%s'.", t)
}

// enter counts one level of nesting.
func (p *parser) enter() error {
	if p.depth++; p.depth > maxDepth {
		return errorAt(codeTooDeep, p.peek(), "The query's nesting exceeds the limit of %d.", maxDepth)
	}
	return nil
}

func (p *parser) leave() { p.depth-- }

// selection parses SELECT to the end of its clauses. FROM comes after the list
// but declares what the list names, so it is parsed first.
func (p *parser) selection() (*selection, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	outerSel, outerScope, outerIn := p.sel, p.scope, p.inAggregate
	defer func() { p.sel, p.scope, p.inAggregate = outerSel, outerScope, outerIn }()
	s := &selection{}
	container := p.container
	p.sel, p.inAggregate, p.container = nil, false, false
	if err := p.expect("SELECT"); err != nil {
		return nil, err
	}
	list := p.at
	if p.skipTo("FROM") {
		p.at++
		if err := p.from(s, container); err != nil {
			return nil, err
		}
	} else {
		p.scope = &scope{outer: p.scope}
	}
	s.inner = p.scope
	after := p.at
	p.at, p.sel = list, s
	if err := p.list(s); err != nil {
		return nil, err
	}
	if s.from != nil {
		if !p.peek().is("FROM") {
			return nil, p.unexpected()
		}
		p.at = after
	}
	return s, p.clauses(s)
}

// skipTo moves to a keyword of the same level, or says that there is none.
func (p *parser) skipTo(keyword string) bool {
	level := 0
	for i := p.at; i < len(p.tokens); i++ {
		switch t := p.tokens[i]; {
		case t.kind == tokSymbol && (t.text == "(" || t.text == "[" || t.text == "{"):
			level++
		case t.kind == tokSymbol && (t.text == ")" || t.text == "]" || t.text == "}"):
			if level--; level < 0 {
				return false
			}
		case level == 0 && t.kind == tokName && t.upper == keyword && !p.isProperty(i):
			p.at = i
			return true
		}
	}
	return false
}

// isProperty reports whether the i-th token is a name after a dot.
func (p *parser) isProperty(i int) bool {
	return i > 0 && p.tokens[i-1].kind == tokSymbol && p.tokens[i-1].text == "."
}

func (p *parser) list(s *selection) error {
	s.distinct = p.accept("DISTINCT")
	if p.accept("TOP") {
		e, err := p.primary()
		if err != nil {
			return err
		}
		s.top = e
	}
	switch t := p.peek(); {
	case t.is("*"):
		p.at++
		s.isStar, s.star = true, t
		if s.from == nil || len(s.joins) > 0 {
			return errorAt(codeStar, t, "'SELECT *' is only valid with a single input set.")
		}
		return nil
	case t.is("VALUE"):
		p.at++
		e, err := p.expression()
		s.value = e
		return err
	}
	return p.fields(s)
}

// checkName refuses a name for a property that ends in a document before it
// ends in the query.
func checkName(name string, at token) error {
	if strings.IndexByte(name, 0) >= 0 {
		return errorAt(codeSyntax, at, "A property name contains a zero character.")
	}
	return nil
}

func (p *parser) fields(s *selection) error {
	used := map[string]bool{}
	unnamed := 0
	for {
		at := p.peek()
		e, err := p.expression()
		if err != nil {
			return err
		}
		name := ""
		if p.accept("AS") {
			if t := p.peek(); t.kind != tokName && t.kind != tokString {
				return p.unexpected()
			}
			name = p.next().text
		} else if t := p.peek(); t.kind == tokName && !reserved[t.upper] || t.kind == tokString {
			name = p.next().text
		} else if name = nameOf(e); name == "" {
			unnamed++
			name = "$" + itoa(unnamed)
		}
		if err := checkName(name, at); err != nil {
			return err
		}
		if used[name] {
			return errorAt(codeDuplicate, at, "Duplicate property name '%s'.", name)
		}
		used[name] = true
		s.fields = append(s.fields, outputField{name, e, at})
		if !p.accept(",") {
			return nil
		}
	}
}

// nameOf is the name that an expression without AS gets: that of the property
// or alias it is.
func nameOf(e expression) string {
	switch e := e.(type) {
	case *alias:
		return e.name
	case *property:
		if c, ok := e.key.(*constant); ok && isText(c.v) {
			return c.v.Str()
		}
	case *computed:
		return nameOf(e.of)
	}
	return ""
}

func (p *parser) clauses(s *selection) error {
	var err error
	if p.accept("WHERE") {
		p.sel = nil
		if s.where, err = p.expression(); err != nil {
			return err
		}
		p.sel = s
	}
	if p.accept("GROUP") {
		if err := p.expect("BY"); err != nil {
			return err
		}
		p.sel = nil
		if s.groupBy, err = p.expressions(); err != nil {
			return err
		}
		p.sel = s
	}
	s.groups = len(s.groupBy) > 0 || len(s.aggregates) > 0
	if p.accept("ORDER") {
		if err := p.orderBy(s); err != nil {
			return err
		}
	}
	if p.accept("OFFSET") {
		if s.offset, err = p.primary(); err != nil {
			return err
		}
		if err := p.expect("LIMIT"); err != nil {
			return err
		}
		if s.limit, err = p.primary(); err != nil {
			return err
		}
	}
	return s.check()
}

func (p *parser) orderBy(s *selection) error {
	if err := p.expect("BY"); err != nil {
		return err
	}
	for {
		at := p.peek()
		e, err := p.expression()
		if err != nil {
			return err
		}
		k := sortKey{expr: e, at: at}
		if !p.accept("ASC") {
			k.descending = p.accept("DESC")
		}
		s.orderBy = append(s.orderBy, k)
		if !p.accept(",") {
			return nil
		}
	}
}

// check checks what clauses require of each other.
func (s *selection) check() error {
	if !s.groups {
		return nil
	}
	if s.isStar {
		return errorAt(codeAggregate, s.star, "'SELECT *' is not allowed in a query with GROUP BY or aggregates.")
	}
	if len(s.groupBy) > 0 && len(s.orderBy) > 0 {
		return errorAt(codeOrderByShape, token{}, "'ORDER BY' is not allowed in a query with 'GROUP BY'.")
	}
	return nil
}

// expressions parses a list with commas.
func (p *parser) expressions() ([]expression, error) {
	var es []expression
	for {
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		es = append(es, e)
		if !p.accept(",") {
			return es, nil
		}
	}
}
