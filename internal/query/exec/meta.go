package exec

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/plan"
)

// Meta is what the plan knows about a document besides its fields: what
// {$meta: name} reads. Immutable, and free of the store's bytes.
type Meta struct {
	// Distance and Point are those of a search by distance: how far the nearest
	// geometry of the document is, as clients see it, and that geometry.
	Distance float64
	Point    bson.Value
	// Score is that of a text search, where Scored.
	Score  float64
	Scored bool
}

// knowsMeta says whether a node gives its rows a Meta.
func knowsMeta(n plan.Node) bool {
	switch n.(type) {
	case *plan.GeoNear, *plan.TextOr:
		return true
	}
	return false
}

// metaReader answers {$meta: name} about the row that is being evaluated.
type metaReader struct{ row *Row }

func (r *metaReader) value(name string) bson.Value {
	if r == nil || r.row == nil {
		return bson.Value{}
	}
	if name == "indexKey" {
		d, err := r.row.keyDocument()
		if err != nil || d.IsEmpty() {
			return bson.Value{}
		}
		return bson.Document(d)
	}
	m := r.row.Meta
	switch {
	case m == nil:
	case m.Scored:
		if name == "textScore" {
			return bson.Double(m.Score)
		}
	case name == "geoNearDistance":
		return bson.Double(m.Distance)
	case name == "geoNearPoint":
		return m.Point
	}
	return bson.Value{}
}

// about makes row the one that is evaluated.
func (r *metaReader) about(row *Row) {
	if r != nil {
		r.row = row
	}
}
