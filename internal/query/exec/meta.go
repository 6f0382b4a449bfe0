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
}

// knowsMeta says whether a node gives its rows a Meta.
func knowsMeta(n plan.Node) bool {
	_, ok := n.(*plan.GeoNear)
	return ok
}

// metaReader answers {$meta: name} about the row that is being evaluated.
type metaReader struct{ row *Row }

func (r *metaReader) value(name string) bson.Value {
	if r == nil || r.row == nil || r.row.Meta == nil {
		return bson.Value{}
	}
	switch name {
	case "geoNearDistance":
		return bson.Double(r.row.Meta.Distance)
	case "geoNearPoint":
		return r.row.Meta.Point
	}
	return bson.Value{}
}

// about makes row the one that is evaluated.
func (r *metaReader) about(row *Row) {
	if r != nil {
		r.row = row
	}
}
