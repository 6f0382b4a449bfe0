package plan

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// pointPlan returns the plan of a query for one value of _id, or of a field with a
// unique index, which needs no trial; nil if q is not such a query.
func pointPlan(c *Collection, q *Query) []Node {
	if id, ok := PointID(q, c.Collation); ok && !c.NoIDIndex && q.Distinct == "" {
		if isExpress(q) {
			return onlyExpress(Express{ID: id, Projection: q.Projection, Clustered: len(c.Indexes) > 0 && c.Indexes[0].Clustered})
		}
		return []Node{finish(q, source{node: &IDHack{id}, sorted: true})}
	}
	if !isExpress(q) || !q.Sort.IsEmpty() || q.Allowed != nil {
		return nil
	}
	cmp, ok := q.Filter.Root().(*match.Compare)
	if !ok || cmp.Op != match.Eq || !isPoint(cmp.Value) {
		return nil
	}
	for _, ix := range usable(c, q, nil) {
		if ix.Plugin != "" || len(ix.Parts) != 1 || ix.Parts[0].Path != cmp.FieldPath() || ix.Partial != nil || ix.IsMultikey() {
			continue
		}
		if !ix.Unique && q.Limit != 1 || hasStrings(cmp.Value) && !ix.sameCollation(q) {
			continue
		}
		a, _ := translator{ix, 0, q}.bounds(cmp)
		scan := &IndexScan{Index: ix, Bounds: []Intervals{a.intervals}}
		return onlyExpress(Express{Scan: &Fetch{Input: scan}, Index: ix, Projection: q.Projection})
	}
	return nil
}

// onlyExpress is a list of one plan, allocated together with it.
func onlyExpress(n Express) []Node {
	m := &struct {
		node Express
		list [1]Node
	}{node: n}
	m.list[0] = &m.node
	return m.list[:]
}

// isExpress reports whether the query is simple enough for the express path.
func isExpress(q *Query) bool {
	return !q.NoExpress && !q.ReturnKey && !q.Tailable && q.Skip == 0 && q.Limit <= 1 && q.Distinct == "" && q.Hint.IsMissing() &&
		q.Min == nil && q.Max == nil && (q.Projection == nil || q.Projection.IsSimple())
}

// isPoint reports whether a value is found at one key only.
func isPoint(v bson.Value) bool {
	switch v.Type {
	case bson.TypeArray, bson.TypeRegex, bson.TypeUndefined, bson.TypeNull:
		return false
	}
	return true
}

// PointID recognises a query for one _id and nothing else, on a collection
// with that default collation.
func PointID(q *Query, collation bson.Doc) (bson.Value, bool) {
	cmp, ok := q.Filter.Root().(*match.Compare)
	if !ok || cmp.FieldPath() != "_id" || cmp.Op != match.Eq || !q.Hint.IsMissing() || q.ReturnKey || q.Tailable || q.Min != nil || q.Max != nil {
		return bson.Value{}, false
	}
	if !isPoint(cmp.Value) || hasStrings(cmp.Value) && string(collation) != string(q.Collation) {
		return bson.Value{}, false
	}
	return cmp.Value, true
}
