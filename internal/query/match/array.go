package match

import "github.com/mayflydb/mayfly/internal/bson"

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
