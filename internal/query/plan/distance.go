package plan

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Distance sorts the measurements of its input by their distance from a point,
// with their distances, and drops those that have none. Their buckets' index
// cannot say how far each is.
type Distance struct {
	Input Node
	Near  *match.GeoNear
	Part  schema.Part // the field that is measured
}

// Stage is the one that the server puts above the distances.
func (*Distance) Stage() string { return "SORT" }

// Inputs is what finds the measurements.
func (n *Distance) Inputs() []Node { return []Node{n.Input} }

func describeDistance(b *bson.Builder, n *Distance) {
	b.OpenDoc("sortPattern").OpenDoc("$computed0").String("$meta", "geoNearDistance").Close().Close()
	b.String("key", n.Near.FieldPath())
}

// nearest plans a search by distance over measurements, which at is among the
// conjuncts of the filter.
func nearest(c *Collection, q *Query, o *schema.Timeseries, cs []match.Node, at int) (Node, error) {
	near := cs[at].(*match.GeoNear)
	found := *q
	found.Filter = match.FilterOf(match.AndOf(slices.Delete(slices.Clone(cs), at, at+1)...))
	found.Skip, found.Limit, found.Projection, found.ReturnKey = 0, 0, nil, false
	if q.Paths != nil {
		found.Paths = append(slices.Clone(q.Paths), near.FieldPath())
	}
	in, err := Measurements(c, &found, o)
	if err != nil {
		return nil, err
	}
	return finish(q, source{node: &Distance{in, near, schema.NewPart(near.FieldPath())}, sorted: true}), nil
}
