package match

import (
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
)

// NewCompare makes {path: {op: value}}.
func NewCompare(path string, op Op, value bson.Value, coll bson.Collator) *Compare {
	return &Compare{newLeaf(path), op, value, coll}
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
	if n.Value.IsNumber() && (isNaN(v) || isNaN(n.Value)) {
		return n.Op != Lt && n.Op != Gt && isNaN(v) && isNaN(n.Value), nil
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

func isNaN(v bson.Value) bool {
	switch v.Type {
	case bson.TypeDouble:
		return math.IsNaN(v.Double())
	case bson.TypeDecimal:
		return v.Decimal().IsNaN()
	}
	return false
}
