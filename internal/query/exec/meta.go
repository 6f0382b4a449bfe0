package exec

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
)

// knowsMeta reports whether a node gives its rows a Meta.
func knowsMeta(n plan.Node) bool {
	switch n.(type) {
	case *plan.GeoNear, *plan.Distance, *plan.TextOr:
		return true
	}
	return false
}

// metaReader evaluates {$meta: name} for the current row.
type metaReader struct {
	row  *stage.Row
	coll *catalog.Collection // whose records the rows are; nil for none
	keys *sortkey.Generator  // of the query's sort, once {$meta: "sortKey"} is read
}

func (r *metaReader) value(name string) bson.Value {
	if r == nil || r.row == nil {
		return bson.Value{}
	}
	if name == "indexKey" {
		d, err := keyDocument(r.row)
		if err != nil || d.IsEmpty() {
			return bson.Value{}
		}
		return bson.Document(d)
	}
	if name == "sortKey" {
		return r.sortKey()
	}
	if name == "recordId" {
		return r.recordID()
	}
	return r.row.Meta.Value(name)
}

// sortKey returns the array of the values by which the row is sorted.
func (r *metaReader) sortKey() bson.Value {
	if r.keys == nil {
		return bson.Value{}
	}
	v, err := r.keys.Values(r.row.Doc)
	if err != nil { // the sort itself has rejected such documents
		return bson.Value{}
	}
	return v
}

// readsSortKey prepares a query for reads of {$meta: "sortKey"}.
func (r *running) readsSortKey() {
	q := r.query
	if q.Sort.IsEmpty() || !q.KeyRead && (q.Projection == nil || !slices.Contains(q.Projection.Meta(), "sortKey")) {
		return
	}
	r.meta.keys = sortkey.NewGenerator(q.Sort, nil, r.meta.value)
	if q.Paths == nil {
		return
	}
	q.Paths = slices.Clone(q.Paths)
	for _, p := range q.Sort.Parts {
		if p.Meta == "" {
			q.Paths = append(q.Paths, p.Path)
		}
	}
}

// recordID returns the row's record id, Missing if it has none.
func (r *metaReader) recordID() bson.Value {
	if r.coll == nil || r.row.Record == nil {
		return bson.Value{}
	}
	return bson.Int64(recordID(r.coll, r.row.Record))
}

// about makes row the current row.
func (r *metaReader) about(row *stage.Row) {
	if r != nil {
		r.row = row
	}
}
