package plan

import (
	"bytes"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// implies says whether every document that satisfies q also satisfies p. It
// may say no where it cannot tell: then a partial index is not used.
func implies(q, p match.Node) bool {
	if p == nil {
		return true
	}
	if and, ok := p.(*match.And); ok {
		for _, c := range and.Children {
			if !implies(q, c) {
				return false
			}
		}
		return true
	}
	if q == nil {
		return false
	}
	switch q := q.(type) {
	case *match.And:
		for _, c := range q.Children {
			if implies(c, p) {
				return true
			}
		}
		return false
	case *match.Or:
		for _, c := range q.Children {
			if !implies(c, p) {
				return false
			}
		}
		return len(q.Children) > 0
	}
	if or, ok := p.(*match.Or); ok {
		for _, c := range or.Children {
			if implies(q, c) {
				return true
			}
		}
		return false
	}
	return impliesLeaf(q, p) || bytes.Equal(match.Serialize(q), match.Serialize(p))
}

func impliesLeaf(q, p match.Node) bool {
	ql, ok := q.(match.Leaf)
	if !ok {
		return false
	}
	pl, ok := p.(match.Leaf)
	if !ok || pl.FieldPath() != ql.FieldPath() {
		return false
	}
	if in, ok := q.(*match.In); ok {
		return inImplies(in, p)
	}
	qc, ok := q.(*match.Compare)
	if !ok {
		_, exists := p.(*match.Exists)
		return exists && needsValue(q)
	}
	switch p := p.(type) {
	case *match.Compare:
		return compareImplies(qc.Op, qc.Value, p.Op, p.Value) && sameColl(qc.Coll, p.Coll, qc.Value)
	case *match.Exists:
		return !qc.Value.IsNullish()
	case *match.Type:
		return qc.Op == match.Eq && qc.Value.Type != bson.TypeArray && !qc.Value.IsNumber() && p.Types.Has(qc.Value.Type)
	case *match.In:
		return qc.Op == match.Eq && contains(p.Values, qc.Value) && sameColl(qc.Coll, p.Coll, qc.Value)
	}
	return false
}

// needsValue says whether a predicate is never true of an absent field.
func needsValue(q match.Node) bool {
	switch q.(type) {
	case *match.Regex, *match.Mod, *match.Size, *match.Type, *match.ElemMatchObject, *match.ElemMatchValue, *match.BitTest:
		return true
	}
	return false
}

func inImplies(in *match.In, p match.Node) bool {
	if len(in.Regexes) > 0 || len(in.Values) == 0 {
		return false
	}
	for _, v := range in.Values {
		var ok bool
		switch p := p.(type) {
		case *match.Compare:
			ok = compareImplies(match.Eq, v, p.Op, p.Value) && sameColl(in.Coll, p.Coll, v)
		case *match.Exists:
			ok = !v.IsNullish()
		case *match.In:
			ok = contains(p.Values, v) && sameColl(in.Coll, p.Coll, v)
		}
		if !ok {
			return false
		}
	}
	return true
}

func contains(vs []bson.Value, v bson.Value) bool {
	for _, w := range vs {
		if bson.Equal(v, w) {
			return true
		}
	}
	return false
}

func sameColl(a, b bson.Collator, v bson.Value) bool { return a == b || !hasStrings(v) }

// compareImplies says whether {qop: qv} implies {pop: pv} on the same path.
func compareImplies(qop match.Op, qv bson.Value, pop match.Op, pv bson.Value) bool {
	if qv.Type.Class() != pv.Type.Class() || qv.Type == bson.TypeArray {
		return false
	}
	if qv.IsNumber() && ((qv.Type == bson.TypeDouble || qv.Type == bson.TypeDecimal) && isNaN(qv) || (pv.Type == bson.TypeDouble || pv.Type == bson.TypeDecimal) && isNaN(pv)) {
		return false
	}
	c := bson.Compare(qv, pv)
	switch pop {
	case match.Eq:
		return qop == match.Eq && c == 0
	case match.Lt:
		return c < 0 && (qop == match.Eq || qop == match.Lte || qop == match.Lt) || c == 0 && qop == match.Lt
	case match.Lte:
		return c <= 0 && (qop == match.Eq || qop == match.Lt || qop == match.Lte)
	case match.Gt:
		return c > 0 && (qop == match.Eq || qop == match.Gte || qop == match.Gt) || c == 0 && qop == match.Gt
	case match.Gte:
		return c >= 0 && (qop == match.Eq || qop == match.Gt || qop == match.Gte)
	}
	return false
}
