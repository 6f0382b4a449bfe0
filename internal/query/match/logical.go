package match

import "github.com/mayflydb/mayfly/internal/bson"

func (n *And) match(s subject, env *Env) (bool, error) {
	before := env.mark()
	for _, c := range n.Children {
		if ok, err := c.match(s, env); !ok || err != nil {
			env.reset(before)
			return false, err
		}
	}
	return true, nil
}

func (n *Or) match(s subject, env *Env) (bool, error) {
	for _, c := range n.Children {
		if ok, err := c.match(s, env); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

func (n *Nor) match(s subject, env *Env) (bool, error) {
	before := env.mark()
	defer env.reset(before)
	for _, c := range n.Children {
		if ok, err := c.match(s, env); ok || err != nil {
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

// text moves the negation below the path, where the server prints it; what has
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
