package match

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func (n *And) match(s subject, env *Env) (bool, error) {
	before := env.mark()
	for i, c := range n.Children {
		ok, err := c.match(s, env)
		if err == nil {
			err = env.turn(i)
		}
		if !ok || err != nil {
			env.reset(before)
			return false, err
		}
	}
	return true, nil
}

// match leaves no note of an array element: which branch matched is chance, so
// the positional operator finds nothing behind an $or.
func (n *Or) match(s subject, env *Env) (bool, error) {
	before := env.mark()
	defer env.reset(before)
	for i, c := range n.Children {
		if ok, err := c.match(s, env); ok || err != nil {
			return ok, err
		}
		if err := env.turn(i); err != nil {
			return false, err
		}
	}
	return false, nil
}

func (n *Nor) match(s subject, env *Env) (bool, error) {
	before := env.mark()
	defer env.reset(before)
	for i, c := range n.Children {
		if ok, err := c.match(s, env); ok || err != nil {
			return false, err
		}
		if err := env.turn(i); err != nil {
			return false, err
		}
	}
	return true, nil
}

func (n *Not) match(s subject, env *Env) (bool, error) {
	before := env.mark()
	ok, err := n.Child.match(s, env)
	env.reset(before)
	return !ok && err == nil, err
}

func (n *Always) match(subject, *Env) (bool, error) { return n.True, nil }

func (n *And) kind() kind { return kindAnd }
func (n *Or) kind() kind  { return kindOr }
func (n *Nor) kind() kind { return kindNor }
func (n *Not) kind() kind { return kindNot }
func (n *Always) kind() kind {
	if n.True {
		return kindAlwaysTrue
	}
	return kindAlwaysFalse
}

func (n *And) text(b *bson.Builder) {
	if len(n.Children) > 0 {
		textList(b, "$and", n.Children)
	}
}

func (n *Or) text(b *bson.Builder)  { textList(b, "$or", n.Children) }
func (n *Nor) text(b *bson.Builder) { textList(b, "$nor", n.Children) }

func (n *Always) text(b *bson.Builder) {
	if n.True {
		b.Int32("$alwaysTrue", 1)
	} else {
		b.Int32("$alwaysFalse", 1)
	}
}

func textList(b *bson.Builder, name string, children []Node) {
	b.OpenArray(name)
	for i, c := range children {
		b.OpenDoc(bson.Index(i))
		c.text(b)
		b.Close()
	}
	b.Close()
}

// text moves the negation below the path, where the server prints it; a node that has
// no path of its own becomes $nor.
func (n *Not) text(b *bson.Builder) {
	d := Serialize(n.Child)
	name, v := d.First()
	if name == "" && d.IsEmpty() || d.Len() != 1 || name[:min(1, len(name))] == "$" || v.Type != bson.TypeDocument {
		textList(b, "$nor", []Node{n.Child})
		return
	}
	b.OpenDoc(name).Value("$not", v).Close()
}

func parseLogical(p *parser, name string, v bson.Value, _ level) (Node, error) {
	if v.Type != bson.TypeArray {
		return nil, badValue("%s must be an array", name)
	}
	if v.Doc().IsEmpty() {
		return nil, badValue("$and/$or/$nor must be a nonempty array")
	}
	var children []Node
	for it := v.Doc().Iter(); it.Next(); {
		if it.Value.Type != bson.TypeDocument {
			return nil, badValue("$or/$and/$nor entries need to be full objects")
		}
		child, err := p.document(it.Value.Doc(), sameDocument)
		if err != nil {
			return nil, err
		}
		children = append(children, child)
	}
	switch name {
	case "$and":
		return &And{children}, nil
	case "$or":
		return &Or{children}, nil
	}
	return &Nor{children}, nil
}

func parseNot(p *parser, a argument) (Node, error) {
	if a.v.Type == bson.TypeRegex {
		return negate(p.regexValue(a.path, a.v))
	}
	if a.v.Type != bson.TypeDocument {
		return nil, badValue("$not needs a regex or a document")
	}
	if a.v.Doc().IsEmpty() {
		return nil, badValue("$not cannot be empty")
	}
	children, err := p.conditions(a.path, a.v.Doc(), a.at)
	return negate(&And{children}, err)
}

func parseAlways(_ *parser, name string, v bson.Value, _ level) (Node, error) {
	i, err := integer(name, v)
	if err != nil {
		return nil, err
	}
	if i != 1 {
		return nil, mongoerr.New(mongoerr.FailedToParse, "%s must be an integer value of 1", name)
	}
	return &Always{name == "$alwaysTrue"}, nil
}
