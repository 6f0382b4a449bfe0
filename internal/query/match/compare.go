package match

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

// NewCompare makes {path: {op: value}}.
func NewCompare(path string, op Op, value bson.Value, coll bson.Collator) *Compare {
	c := new(Compare)
	c.init(path, op, value, coll)
	return c
}

func (n *Compare) init(path string, op Op, value bson.Value, coll bson.Collator) {
	n.Op, n.Value, n.Coll = op, value, coll
	if strings.IndexByte(path, '.') >= 0 {
		n.leaf = newLeaf(path)
		return
	}
	n.name[0] = path
	n.leaf = leaf{path, n.name[:]}
}

// String is the operator's name: "$eq" …
func (o Op) String() string { return [...]string{"$eq", "$lt", "$lte", "$gt", "$gte"}[o] }

func (n *Compare) match(s subject, env *Env) (bool, error) { return n.test(s, each, n, env) }

func (n *Compare) kind() kind {
	return [...]kind{Eq: kindEq, Lt: kindLt, Lte: kindLte, Gt: kindGt, Gte: kindGte}[n.Op]
}

func (n *Compare) text(b *bson.Builder) {
	b.OpenDoc(n.Path).Value(n.Op.String(), n.Value).Close()
}

func (n *Compare) elem(v bson.Value, _ *Env) (bool, error) {
	if v.Type.Class() != n.Value.Type.Class() {
		switch {
		case v.IsMissing() && n.Value.Type == bson.TypeNull:
			return n.Op == Eq || n.Op == Lte || n.Op == Gte, nil
		case n.Value.Type == bson.TypeMaxKey:
			return n.Op == Lt || n.Op == Lte, nil
		case n.Value.Type == bson.TypeMinKey:
			return n.Op == Gt || n.Op == Gte, nil
		}
		return false, nil
	}
	if n.Value.IsNumber() && (v.IsNaN() || n.Value.IsNaN()) {
		return n.Op != Lt && n.Op != Gt && v.IsNaN() && n.Value.IsNaN(), nil
	}
	c := bson.CompareWith(v, n.Value, n.Coll)
	switch n.Op {
	case Eq:
		return c == 0, nil
	case Lt:
		return c < 0, nil
	case Lte:
		return c <= 0, nil
	case Gt:
		return c > 0, nil
	}
	return c >= 0, nil
}

func parseCompare(p *parser, a argument) (Node, error) {
	switch a.op {
	case "$eq":
		return p.compare(a.path, Eq, a.v)
	case "$lt":
		return p.compare(a.path, Lt, a.v)
	case "$lte":
		return p.compare(a.path, Lte, a.v)
	case "$gt":
		return p.compare(a.path, Gt, a.v)
	case "$gte":
		return p.compare(a.path, Gte, a.v)
	}
	if a.v.Type == bson.TypeRegex {
		return nil, badValue("Can't have regex as arg to $ne.")
	}
	return negate(p.compare(a.path, Eq, a.v))
}

func (p *parser) compare(path string, op Op, v bson.Value) (Node, error) {
	if v.Type == bson.TypeUndefined {
		return nil, badValue("cannot compare to undefined")
	}
	if op != Eq && v.Type == bson.TypeRegex {
		return nil, badValue("Can't have RegEx as arg to predicate over field '%s'.", path)
	}
	return NewCompare(path, op, v, p.opts.Collator), nil
}

func negate(n Node, err error) (Node, error) {
	if err != nil {
		return nil, err
	}
	return &Not{n}, nil
}
