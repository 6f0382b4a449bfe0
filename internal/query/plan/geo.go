package plan

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/geo"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// The kinds of geospatial indexes.
const (
	spherePlugin = "2dsphere"
	flatPlugin   = "2d"
)

func isGeo(plugin string) bool { return plugin == spherePlugin || plugin == flatPlugin }

// GeoNear delivers the documents of a geospatial index in the order of their
// distance from a point, with their distances.
type GeoNear struct {
	Index  *Index
	Part   int // of the index, whose geometries are measured
	Near   *match.GeoNear
	Bounds []Intervals // of the other parts; that of Part is open
}

// Stage tells the kind of the index.
func (n *GeoNear) Stage() string {
	if n.Index.Plugin == flatPlugin {
		return "GEO_NEAR_2D"
	}
	return "GEO_NEAR_2DSPHERE"
}

// Inputs is empty: the stage scans its index itself, ring after ring.
func (*GeoNear) Inputs() []Node { return nil }

func describeGeoNear(b *bson.Builder, n *GeoNear) {
	b.Doc("keyPattern", n.Index.Key).String("indexName", n.Index.Name).Int32("indexVersion", n.Index.Version)
}

// geo bounds a part of a geospatial index by a $geoWithin or a $geoIntersects. The keys
// are cells, so a document is always checked.
func (t translator) geo(n match.Node) (access, bool) {
	within, ok := n.(*match.GeoWithin)
	if !ok {
		return access{}, false
	}
	if t.ix.Plugin == spherePlugin {
		ranges, ok := within.Shape.CellRanges()
		return access{cellIntervals(ranges), false}, ok
	}
	grid, _ := t.ix.Grid()
	rect, ok := within.Shape.FlatBounds()
	if !ok || within.Intersects {
		return access{}, false
	}
	return access{hashIntervals(grid.Ranges(rect)), false}, true
}

func cellIntervals(ranges []geo.CellRange) Intervals {
	l := make(Intervals, len(ranges))
	for i, r := range ranges {
		l[i] = Interval{bson.Int64(r.Lo), bson.Int64(r.Hi), true, true}
	}
	return normalize(l)
}

func hashIntervals(ranges []geo.HashRange) Intervals {
	l := make(Intervals, len(ranges))
	for i, r := range ranges {
		l[i] = Interval{r.Lo, r.Hi, true, true}
	}
	return normalize(l)
}

// CellBounds are the bounds of a scan for the cells of one part.
func (n *GeoNear) CellBounds(ranges []geo.CellRange) []Intervals {
	bounds := slices.Clone(n.Bounds)
	bounds[n.Part] = cellIntervals(ranges)
	return bounds
}

// HashBounds are the bounds of a scan for the squares of a raster.
func (n *GeoNear) HashBounds(ranges []geo.HashRange) []Intervals {
	bounds := slices.Clone(n.Bounds)
	bounds[n.Part] = hashIntervals(ranges)
	return bounds
}

// geoSource bounds a scan of a geospatial index. The index only has documents with a
// geometry, so the query must require one.
func geoSource(q *Query, ix *Index, cs []match.Node, preds []predicate) (source, bool) {
	s := source{ix: ix}
	b := bounder{q: q, ix: ix, preds: preds, prefer: -1, done: make([]tightness, len(cs))}
	located := false
	for part, p := range ix.Parts {
		l, n := b.geoPart(part)
		if part == 0 && n == 0 {
			return source{}, false
		}
		if n > 0 {
			s.bound++
			located = located || isGeo(p.Plugin)
		}
		s.bounds = append(s.bounds, l)
	}
	s.residual = b.residual(cs)
	if !located {
		return source{}, false
	}
	s.sorted = q.Sort.IsEmpty()
	s.node = &IndexScan{Index: ix, Bounds: s.bounds, Dedup: true}
	return s, true
}

// geoPart is part for a geospatial index. Parts after the location in a 2d index are
// not plain values of the field, and are not bounded.
func (b *bounder) geoPart(part int) (Intervals, int) {
	if b.ix.Plugin == flatPlugin && part > 0 {
		return All, 0
	}
	return b.part(part)
}

// residual lists the conjuncts that the bounds leave to be checked.
func (b *bounder) residual(cs []match.Node) []match.Node {
	var out []match.Node
	for i, c := range cs {
		if b.done[i] != checkNothing {
			out = append(out, c)
		}
	}
	return out
}

// nearOf finds the search by distance among the conjuncts, or -1.
func nearOf(cs []match.Node) int {
	return slices.IndexFunc(cs, func(n match.Node) bool {
		_, ok := n.(*match.GeoNear)
		return ok
	})
}

// errNearNatural rejects a scan in natural order together with a search by distance.
func errNearNatural(q *Query) error {
	what := "hint"
	if q.Sort.Natural() != 0 {
		what = "sort order"
	}
	return mongoerr.New(mongoerr.BadValue, "geoNear expression not allowed with $natural %s", what)
}

// nearSources returns the sources for a search by distance, which needs a geospatial
// index: error 291 without one, 16433 for a point beyond a 2d index.
func nearSources(c *Collection, q *Query, cs []match.Node, at int, hinted *Index) ([]source, error) {
	near := cs[at].(*match.GeoNear)
	rest := slices.Delete(slices.Clone(cs), at, at+1)
	root := q.Filter.Root()
	var out []source
	for _, ix := range usable(c, q, hinted) {
		if !ix.hasAllOf(q, root) {
			continue
		}
		part := nearPart(ix, near)
		if part < 0 {
			continue
		}
		if grid, ok := ix.Grid(); ok {
			if err := grid.CheckPoint(near.Near.Point); err != nil {
				return nil, err
			}
		}
		if s, ok := nearSource(q, ix, rest, near, part); ok {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return nil, errPlanning(c, q, mongoerr.NoQueryExecutionPlans, "unable to find index for $geoNear query")
	}
	slices.SortStableFunc(out, func(a, b source) int { return b.bound - a.bound })
	return out, nil
}

// nearPart is the part of ix that can answer near, or -1: GeoJSON needs a
// 2dsphere index, distances in the plane a 2d index.
func nearPart(ix *Index, near *match.GeoNear) int {
	for i, p := range ix.Parts {
		if p.Path != near.FieldPath() {
			continue
		}
		if p.Plugin == spherePlugin && near.Near.Point.CRS == geo.Sphere || p.Plugin == flatPlugin && !near.Near.GeoJSON {
			return i
		}
	}
	return -1
}

func nearSource(q *Query, ix *Index, cs []match.Node, near *match.GeoNear, part int) (source, bool) {
	s := source{ix: ix, sorted: q.Sort.IsEmpty()}
	b := bounder{q: q, ix: ix, preds: predicates(q, cs), prefer: -1, done: make([]tightness, len(cs))}
	for i := range ix.Parts {
		l, n := All, 1
		if i != part {
			l, n = b.geoPart(i)
		}
		if i == 0 && n == 0 {
			return source{}, false
		}
		if i != part && n > 0 {
			s.bound++
		}
		s.bounds = append(s.bounds, l)
	}
	s.node = &GeoNear{ix, part, near, s.bounds}
	if rest := b.residual(cs); len(rest) > 0 {
		s.node = &Fetch{s.node, join(rest)}
	}
	return s, true
}
