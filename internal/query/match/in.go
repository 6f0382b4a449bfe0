package match

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// linearIn is the number of values up to which $in compares one by one.
const linearIn = 8

// NewIn makes {path: {$in: values}}; it sorts values in place and drops
// duplicates.
func NewIn(path string, values []bson.Value, regexes []*Regex, coll bson.Collator) *In {
	return newIn(path, values, regexes, coll, nil)
}

func newIn(path string, values []bson.Value, regexes []*Regex, coll bson.Collator, interrupt *expr.Interrupt) *In {
	n := &In{leaf: newLeaf(path), Regexes: regexes, Coll: coll}
	order := func(a, b bson.Value) int {
		interrupt.Turn()
		return bson.CompareWith(a, b, coll)
	}
	if !slices.IsSortedFunc(values, order) {
		slices.SortStableFunc(values, order)
	}
	n.Values = slices.CompactFunc(values, func(a, b bson.Value) bool { return order(a, b) == 0 })
	for _, v := range n.Values {
		n.hasNull = n.hasNull || v.Type == bson.TypeNull
	}
	return n
}

func equal(a, b bson.Value, coll bson.Collator) bool { return bson.CompareWith(a, b, coll) == 0 }

func (n *In) match(s subject, env *Env) (bool, error) { return n.test(s, each, n, env) }
func (n *In) kind() kind                              { return kindIn }

func (n *In) elem(v bson.Value, env *Env) (bool, error) {
	if v.IsMissing() {
		return n.hasNull, nil
	}
	if n.contains(v) {
		return true, nil
	}
	for _, r := range n.Regexes {
		if ok, err := r.elem(v, env); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

func (n *In) contains(v bson.Value) bool {
	if len(n.Values) <= linearIn {
		for _, w := range n.Values {
			if v.Type.Class() == w.Type.Class() && equal(v, w, n.Coll) {
				return true
			}
		}
		return false
	}
	lo, hi := 0, len(n.Values)
	for lo < hi {
		mid := (lo + hi) / 2
		c := bson.CompareWith(n.Values[mid], v, n.Coll)
		if c == 0 {
			return true
		}
		if c < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return false
}

func (n *In) text(b *bson.Builder) {
	b.OpenDoc(n.Path).OpenArray("$in")
	i := 0
	for _, v := range n.Values {
		b.Value(bson.Index(i), v)
		i++
	}
	for _, r := range n.Regexes {
		b.Value(bson.Index(i), bson.Regex(r.Pattern, r.Options))
		i++
	}
	b.Close().Close()
}

func parseIn(p *parser, a argument) (Node, error) {
	if a.v.Type != bson.TypeArray {
		return nil, badValue("%s needs an array", a.op)
	}
	var values []bson.Value
	var regexes []*Regex
	for it := a.v.Doc().Iter(); it.Next(); {
		p.interrupt.Turn()
		switch {
		case isConditions(it.Value, false):
			return nil, badValue("cannot nest $ under %s", a.op)
		case it.Value.Type == bson.TypeUndefined:
			return nil, badValue("InMatchExpression equality cannot be undefined")
		case it.Value.Type == bson.TypeRegex:
			r, err := p.regexValue(a.path, it.Value)
			if err != nil {
				return nil, err
			}
			regexes = append(regexes, r.(*Regex))
		default:
			values = append(values, it.Value)
		}
	}
	in := newIn(a.path, values, regexes, p.opts.Collator, &p.interrupt)
	if a.op == "$nin" {
		return &Not{in}, nil
	}
	return in, nil
}
