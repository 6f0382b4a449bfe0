package nosql

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Filter is a filter of MongoDB's language that lets at least those items pass
// that the query selects from: the conjuncts of WHERE that compare a property
// with a value. It is empty where there is none. WHERE still decides.
func (q *Query) Filter() bson.Doc {
	var b bson.Builder
	conjuncts := q.s.conjuncts(q.s.where, nil)
	if q.s.from == nil || len(conjuncts) == 0 {
		return bson.Empty
	}
	b.OpenArray("$and")
	n := 0
	for _, e := range conjuncts {
		if d := q.translate(e); d != nil {
			b.Doc(bson.Index(n), d)
			n++
		}
	}
	if n == 0 {
		return bson.Empty
	}
	return b.Close().Finish()
}

// Fixed is the one value that WHERE lets a property of the container's items
// have, and whether there is one. The path is dotted.
func (q *Query) Fixed(path string) (bson.Value, bool) {
	for _, e := range q.s.conjuncts(q.s.where, nil) {
		c, ok := e.(*comparison)
		if !ok || c.op != "=" {
			continue
		}
		for _, sides := range [2][2]expression{{c.l, c.r}, {c.r, c.l}} {
			if p, ok := q.s.path(sides[0]); !ok || p != path {
				continue
			}
			if v, ok := q.value(sides[1]); ok {
				return v, true
			}
		}
	}
	return bson.Value{}, false
}

func (s *selection) conjuncts(e expression, dst []expression) []expression {
	if l, ok := e.(*logical); ok && !l.or {
		return s.conjuncts(l.r, s.conjuncts(l.l, dst))
	}
	if e == nil {
		return dst
	}
	return append(dst, e)
}

// operators are MongoDB's names of comparisons, as they are and with the sides
// exchanged.
var operators = map[string][2]string{
	"=": {"$eq", "$eq"}, "<": {"$lt", "$gt"}, "<=": {"$lte", "$gte"}, ">": {"$gt", "$lt"}, ">=": {"$gte", "$lte"},
}

// translate makes a filter of one conjunct, or nil where it cannot.
func (q *Query) translate(e expression) bson.Doc {
	switch e := e.(type) {
	case *comparison:
		op, known := operators[e.op]
		if !known {
			return nil
		}
		if path, ok := q.s.path(e.l); ok {
			return q.compareTo(path, op[0], e.r)
		}
		if path, ok := q.s.path(e.r); ok {
			return q.compareTo(path, op[1], e.l)
		}
	case *membership:
		return q.in(e)
	}
	return nil
}

func (q *Query) compareTo(path, op string, e expression) bson.Doc {
	v, ok := q.value(e)
	if !ok {
		return nil
	}
	var b bson.Builder
	return b.OpenDoc(path).Value(op, v).Close().Finish()
}

func (q *Query) in(e *membership) bson.Doc {
	path, ok := q.s.path(e.value)
	if !ok {
		return nil
	}
	var b bson.Builder
	b.OpenDoc(path).OpenArray("$in")
	for i, x := range e.list {
		v, ok := q.value(x)
		if !ok {
			return nil
		}
		b.Value(bson.Index(i), v)
	}
	return b.Close().Close().Finish()
}

// value is a constant or parameter that both languages compare alike: not
// null, which MongoDB takes for missing too, and no array or object, whose
// order of fields counts there.
func (q *Query) value(e expression) (bson.Value, bool) {
	var v bson.Value
	switch e := e.(type) {
	case *constant:
		v = e.v
	case *parameter:
		v = q.params[e.name]
	case *sign:
		inner, ok := q.value(e.e)
		if !ok {
			return v, false
		}
		v, _ = (&sign{e.op, &constant{inner}}).eval(nil)
	}
	rank := typeRank(v)
	return v, rank >= typeRank(bson.Bool(false)) && rank <= typeRank(text(""))
}

// path is the dotted path of a property of the container's alias; names that
// the other language would read differently have none.
func (s *selection) path(e expression) (string, bool) {
	p, ok := e.(*property)
	if !ok {
		return "", false
	}
	key, ok := p.key.(*constant)
	if !ok || !isText(key.v) {
		return "", false
	}
	name := key.v.Str()
	if name == "" || strings.ContainsAny(name, ".$\x00") || strings.Trim(name, "0123456789") == "" {
		return "", false
	}
	switch of := p.of.(type) {
	case *alias:
		return name, s.from != nil && s.from.root && len(s.from.path) == 0 && !s.from.iterate && of.slot == s.from.slot
	case *property:
		base, ok := s.path(of)
		return base + "." + name, ok
	}
	return "", false
}
