package nosql

import "strings"

// scope is the aliases that an expression may name: those of its FROM, and of
// the queries around it.
type scope struct {
	names map[string]int // alias → slot
	outer *scope
}

func (s *scope) lookup(name string) (slot int, ok bool) {
	for ; s != nil; s = s.outer {
		if slot, ok := s.names[name]; ok {
			return slot, true
		}
	}
	return 0, false
}

// from parses the sources and leaves p.scope at their aliases.
func (p *parser) from(s *selection, container bool) error {
	p.scope = &scope{outer: p.scope, names: map[string]int{}}
	c, err := p.source(container)
	if err != nil {
		return err
	}
	s.from = c
	for p.accept("JOIN") {
		if len(s.joins) == maxJoins {
			return errorAt(codeLimits, p.peek(), "The query has more than %d joins.", maxJoins)
		}
		c, err := p.source(false)
		if err != nil {
			return err
		}
		s.joins = append(s.joins, c)
	}
	return nil
}

// source parses `x IN path`, `path AS x`, `path x`, or `(subquery) AS x`. The
// container is named by ROOT, or by any name if container is set.
func (p *parser) source(container bool) (*collection, error) {
	c := &collection{at: p.peek()}
	if t := p.peek(); t.kind == tokName && p.tokens[p.at+1].is("IN") {
		c.alias, c.iterate = t.text, true
		p.at += 2
	}
	if err := p.sourcePath(c, container); err != nil {
		return nil, err
	}
	if !c.iterate {
		as := p.accept("AS")
		if t := p.peek(); t.kind == tokName && (as || !reserved[t.upper]) {
			c.alias = p.next().text
		} else if as {
			return nil, p.unexpected()
		}
	}
	if c.alias == "" && c.subquery == nil {
		return nil, p.unexpected()
	}
	if _, taken := p.scope.names[c.alias]; taken {
		return nil, errorAt(codeDuplicate, c.at, "The input alias '%s' is specified more than once in the FROM clause.", c.alias)
	}
	c.slot = p.slots
	p.slots++
	p.scope.names[c.alias] = c.slot
	if c.root && len(c.path) == 0 && !c.iterate {
		p.items[c.slot] = true
	}
	return c, nil
}

func (p *parser) sourcePath(c *collection, container bool) error {
	if p.accept("(") {
		p.container = container
		sub, err := p.selection()
		if err != nil {
			return err
		}
		c.subquery = sub
		return p.expect(")")
	}
	t := p.peek()
	if t.kind != tokName || reserved[t.upper] && t.upper != "ROOT" {
		return p.unexpected()
	}
	p.at++
	name := t.text
	if slot, known := p.scope.lookup(name); known {
		c.base = &alias{name: name, slot: slot}
	} else if container || strings.EqualFold(name, "root") {
		c.root = true
	} else {
		return errorAt(codeUnresolved, t, "Identifier '%s' could not be resolved.", name)
	}
	last := name
	for {
		key, ok, err := p.step()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		c.path = append(c.path, key)
		last = ""
		if k, ok := key.(*constant); ok && isText(k.v) {
			last = k.v.Str()
		}
	}
	if c.alias == "" {
		c.alias = last
	}
	return nil
}

// step parses .name or [expression] after a path.
func (p *parser) step() (key expression, ok bool, err error) {
	switch {
	case p.accept("."):
		if p.peek().kind != tokName {
			return nil, false, p.unexpected()
		}
		return &constant{text(p.next().text)}, true, nil
	case p.accept("["):
		e, err := p.expression()
		if err != nil {
			return nil, false, err
		}
		return e, true, p.expect("]")
	}
	return nil, false, nil
}
