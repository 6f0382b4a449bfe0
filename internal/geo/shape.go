package geo

import (
	"cmp"
	"slices"

	"github.com/golang/geo/s2"
)

// line and polygon are shapes on the sphere, with an index of their edges that
// is made when it is first asked for (package s2 locks it).
type line struct {
	*s2.Polyline
	index *s2.ShapeIndex
}

type polygon struct{ *s2.Polygon }

func newLine(l *s2.Polyline) *line {
	index := s2.NewShapeIndex()
	index.Add(l)
	return &line{l, index}
}

func newPolygon(loops []*s2.Loop) *polygon { return &polygon{s2.PolygonFromLoops(loops)} }

// edges finds the edges of a shape that another edge crosses or touches.
type edges struct {
	shape s2.Shape
	query *s2.CrossingEdgeQuery
}

func (l *line) edges() edges { return edges{l.Polyline, s2.NewCrossingEdgeQuery(l.index)} }

func (p *polygon) edges() edges {
	index := s2.NewShapeIndex()
	index.Add(p.Polygon)
	return edges{p.Polygon, s2.NewCrossingEdgeQuery(index)}
}

func (e edges) crossed(a, b s2.Point) []int {
	return e.query.Crossings(a, b, e.shape, s2.CrossingTypeAll)
}

// meets reports whether the line crosses or touches one of the edges.
func (l *line) meets(e edges) bool {
	for i := range l.NumEdges() {
		if edge := l.Edge(i); len(e.crossed(edge.V0, edge.V1)) > 0 {
			return true
		}
	}
	return false
}

// covers reports whether p lies in the polygon or on its border, give or take the
// size of a leaf cell (about a centimetre).
func (p *polygon) covers(point s2.Point) bool {
	return p.ContainsPoint(point) || p.IntersectsCell(s2.CellFromPoint(point))
}

// coversLine reports whether all of the line lies in the polygon: it cuts each
// edge of the line where the border crosses it and looks at the pieces.
func (p *polygon) coversLine(l *line) bool {
	for _, v := range *l.Polyline {
		if !p.covers(v) {
			return false
		}
	}
	border := p.edges()
	for i := range l.NumEdges() {
		e := l.Edge(i)
		cuts := []s2.Point{e.V0, e.V1}
		for _, j := range border.crossed(e.V0, e.V1) {
			b := p.Edge(j)
			if s2.CrossingSign(e.V0, e.V1, b.V0, b.V1) == s2.Cross {
				cuts = append(cuts, s2.Intersection(e.V0, e.V1, b.V0, b.V1))
			}
		}
		slices.SortFunc(cuts, func(a, b s2.Point) int { return cmp.Compare(e.V0.Distance(a), e.V0.Distance(b)) })
		for k := 1; k < len(cuts); k++ {
			if !p.covers(s2.Interpolate(0.5, cuts[k-1], cuts[k])) {
				return false
			}
		}
	}
	return true
}

// meetsLine reports whether the line has a point in the polygon.
func (p *polygon) meetsLine(l *line) bool {
	return slices.ContainsFunc(*l.Polyline, p.covers) || l.meets(p.edges())
}
