package plan

import (
	"bytes"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// hasAllOf reports whether a partial index has all documents that satisfy a query's
// filter.
func (ix *Index) hasAllOf(q *Query, filter match.Node) bool {
	return ix.Partial == nil || implication{ix.sameCollation(q), ix.Collator}.holds(filter, ix.Partial)
}

// implication compares a filter of a query with that of a partial index.
type implication struct {
	collated bool // both have the same collation
	collator bson.Collator
}

// holds reports whether every document that satisfies q also satisfies p. It returns
// false if it cannot decide: then a partial index is not used.
func (m implication) holds(q, p match.Node) bool {
	if p == nil {
		return true
	}
	if and, ok := p.(*match.And); ok {
		for _, c := range and.Children {
			if !m.holds(q, c) {
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
			if m.holds(c, p) {
				return true
			}
		}
		return false
	case *match.Or:
		for _, c := range q.Children {
			if !m.holds(c, p) {
				return false
			}
		}
		return len(q.Children) > 0
	}
	if or, ok := p.(*match.Or); ok {
		for _, c := range or.Children {
			if m.holds(q, c) {
				return true
			}
		}
		return false
	}
	return m.leaf(q, p) || bytes.Equal(match.Serialize(q), match.Serialize(p)) && m.sameValues(p)
}

// sameValues reports whether a condition means the same in the collation of the query.
func (m implication) sameValues(n match.Node) bool {
	switch n := n.(type) {
	case *match.Compare:
		return m.collated || !hasStrings(n.Value)
	case *match.In:
		return m.collated || !slices.ContainsFunc(n.Values, hasStrings)
	}
	return true
}

func (m implication) leaf(q, p match.Node) bool {
	if not, ok := q.(*match.Not); ok {
		return impliesExistence(not, p)
	}
	ql, ok := q.(match.Leaf)
	if !ok {
		return false
	}
	pl, ok := p.(match.Leaf)
	if !ok || pl.FieldPath() != ql.FieldPath() {
		return false
	}
	if in, ok := q.(*match.In); ok {
		return m.in(in, p)
	}
	qc, ok := q.(*match.Compare)
	if !ok {
		_, exists := p.(*match.Exists)
		return exists && needsValue(q)
	}
	switch p := p.(type) {
	case *match.Compare:
		return m.compare(qc.Op, qc.Value, p)
	case *match.Exists:
		switch qc.Value.Type {
		case bson.TypeMinKey, bson.TypeMaxKey: // they compare with what is missing, too
			return qc.Op == match.Eq
		}
		return !qc.Value.IsNullish()
	case *match.Type:
		return qc.Op == match.Eq && qc.Value.Type != bson.TypeArray && hasClass(p.Types, qc.Value.Type)
	case *match.In:
		return qc.Op == match.Eq && m.among(p.Values, qc.Value)
	}
	return false
}

// hasClass reports whether a set has all types whose values may equal one of type t: a
// symbol equals a string.
func hasClass(set match.TypeSet, t bson.Type) bool {
	for c := 0; c < 256; c++ {
		if other := bson.Type(c); other.Valid() && other.Class() == t.Class() && !set.Has(other) {
			return false
		}
	}
	return true
}

// impliesExistence reports whether a negation is that of null, which a missing field
// equals, and p requires the field to exist. For a dotted path through arrays it
// implies nothing.
func impliesExistence(not *match.Not, p match.Node) bool {
	exists, ok := p.(*match.Exists)
	child, leaf := not.Child.(match.Leaf)
	return ok && leaf && matchesMissing(child) && child.FieldPath() == exists.FieldPath() && !strings.Contains(exists.FieldPath(), ".")
}

// needsValue reports whether a predicate is never true for a missing field.
func needsValue(q match.Node) bool {
	switch q.(type) {
	case *match.Regex, *match.Mod, *match.Size, *match.Type, *match.ElemMatchObject, *match.ElemMatchValue, *match.BitTest:
		return true
	}
	return false
}

func (m implication) in(in *match.In, p match.Node) bool {
	if len(in.Regexes) > 0 || len(in.Values) == 0 {
		return false
	}
	for _, v := range in.Values {
		var ok bool
		switch p := p.(type) {
		case *match.Compare:
			ok = m.compare(match.Eq, v, p)
		case *match.Exists:
			ok = !v.IsNullish()
		case *match.In:
			ok = m.among(p.Values, v)
		}
		if !ok {
			return false
		}
	}
	return true
}

// among reports whether v is one of the values of a list.
func (m implication) among(vs []bson.Value, v bson.Value) bool {
	return (m.collated || !hasStrings(v)) && slices.ContainsFunc(vs, func(w bson.Value) bool { return bson.Equal(v, w) })
}

// compare reports whether {qop: qv} implies p, which is on the same path.
func (m implication) compare(qop match.Op, qv bson.Value, p *match.Compare) bool {
	pop, pv := p.Op, p.Value
	if !m.collated && hasStrings(qv) {
		return false
	}
	if qv.Type.Class() != pv.Type.Class() || qv.Type == bson.TypeArray {
		return false
	}
	if qv.IsNumber() && ((qv.Type == bson.TypeDouble || qv.Type == bson.TypeDecimal) && isNaN(qv) || (pv.Type == bson.TypeDouble || pv.Type == bson.TypeDecimal) && isNaN(pv)) {
		return false
	}
	c := bson.CompareWith(qv, pv, m.collator)
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
