package match

import (
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// NewElemMatchObject makes {path: {$elemMatch: child}}.
func NewElemMatchObject(path string, child Node) *ElemMatchObject {
	return &ElemMatchObject{newLeaf(path), child}
}

func (n *Size) match(s subject, env *Env) (bool, error)            { return n.test(s, whole, n, env) }
func (n *ElemMatchObject) match(s subject, env *Env) (bool, error) { return n.test(s, whole, n, env) }
func (n *ElemMatchValue) match(s subject, env *Env) (bool, error)  { return n.test(s, whole, n, env) }

func (n *Size) kind() kind            { return kindSize }
func (n *ElemMatchObject) kind() kind { return kindElemMatchObject }
func (n *ElemMatchValue) kind() kind  { return kindElemMatchValue }

func (n *Size) elem(v bson.Value, _ *Env) (bool, error) {
	return v.Type == bson.TypeArray && int64(v.Doc().Len()) == n.N, nil
}

func (n *ElemMatchObject) elem(v bson.Value, env *Env) (bool, error) {
	if v.Type != bson.TypeArray {
		return false, nil
	}
	for it := v.Doc().Iter(); it.Next(); {
		if err := env.tick(); err != nil {
			return false, err
		}
		if it.Value.Type != bson.TypeDocument && it.Value.Type != bson.TypeArray {
			continue
		}
		if ok, err := n.Child.match(subject{it.Value, document}, env); ok || err != nil {
			env.record(it.Key)
			return ok, err
		}
	}
	return false, nil
}

func (n *ElemMatchValue) elem(v bson.Value, env *Env) (bool, error) {
	if v.Type != bson.TypeArray {
		return false, nil
	}
	for it := v.Doc().Iter(); it.Next(); {
		if err := env.tick(); err != nil {
			return false, err
		}
		if ok, err := n.all(it.Value, env); ok || err != nil {
			env.record(it.Key)
			return ok, err
		}
	}
	return false, nil
}

func (n *ElemMatchValue) all(v bson.Value, env *Env) (bool, error) {
	for _, c := range n.Children {
		if ok, err := c.match(subject{v, element}, env); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (n *Size) text(b *bson.Builder) { b.OpenDoc(n.Path).Int("$size", n.N).Close() }

func (n *ElemMatchObject) text(b *bson.Builder) {
	b.OpenDoc(n.Path).OpenDoc("$elemMatch")
	n.Child.text(b)
	b.Close().Close()
}

// text strips the children of their (empty) path.
func (n *ElemMatchValue) text(b *bson.Builder) {
	b.OpenDoc(n.Path).OpenDoc("$elemMatch")
	for _, c := range n.Children {
		if name, v := Serialize(c).First(); name == "" {
			b.Fields(v.Doc())
		} else {
			c.text(b)
		}
	}
	b.Close().Close()
}

func parseSize(_ *parser, a argument) (Node, error) {
	n, err := nonNegative(a.op, a.v)
	if err == nil && n > math.MaxInt32 {
		err = badValue("Cannot represent as a 32-bit integer: %s", a.text())
	}
	if err != nil {
		return nil, badValue("Failed to parse $size. %s", mongoerr.From(err).Message)
	}
	return &Size{newLeaf(a.path), n}, nil
}

func parseElemMatch(p *parser, a argument) (Node, error) {
	if a.v.Type != bson.TypeDocument {
		return nil, badValue("$elemMatch needs an Object")
	}
	d := a.v.Doc()
	if isElemMatchValue(a.v) {
		children, err := p.conditions("", d, subDocument)
		if err != nil {
			return nil, err
		}
		return &ElemMatchValue{newLeaf(a.path), children}, nil
	}
	child, err := p.document(d, subDocument)
	if err != nil {
		return nil, err
	}
	return NewElemMatchObject(a.path, child), nil
}

// isElemMatchValue reports whether the argument of $elemMatch is conditions on
// the elements themselves rather than a filter on elements that are documents.
func isElemMatchValue(v bson.Value) bool {
	if !isConditions(v, true) {
		return false
	}
	name, _ := v.Doc().First()
	_, filter := topLevel[name]
	return !filter
}

// parseAll makes a conjunction: each value must be matched.
func parseAll(p *parser, a argument) (Node, error) {
	if a.v.Type != bson.TypeArray {
		return nil, badValue("$all needs an array")
	}
	all := &And{}
	elems := false
	for i, v := range a.v.Doc().Slice() {
		name := ""
		if v.Type == bson.TypeDocument {
			name, _ = v.Doc().First()
		}
		if i == 0 {
			elems = name == "$elemMatch"
		}
		n, err := p.allValue(a, v, name, elems)
		if err != nil {
			return nil, err
		}
		all.Children = append(all.Children, n)
	}
	if len(all.Children) == 0 {
		return &Always{false}, nil
	}
	return all, nil
}

func (p *parser) allValue(a argument, v bson.Value, name string, elems bool) (Node, error) {
	if elems {
		if name != "$elemMatch" {
			return nil, badValue("$all/$elemMatch has to be consistent")
		}
		_, arg := v.Doc().First()
		return parseElemMatch(p, argument{a.path, name, arg, v.Doc(), a.at})
	}
	if _, isOperator := operators[name]; isOperator {
		return nil, badValue("no $ expressions in $all")
	}
	if v.Type == bson.TypeRegex {
		return p.regexValue(a.path, v)
	}
	return p.compare(a.path, Eq, v)
}
