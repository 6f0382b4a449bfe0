package geo

import (
	"math"

	"github.com/golang/geo/s2"
)

// EarthRadius is the radius of the sphere in metres.
const EarthRadius = 6378.1 * 1000

// angle is the angle between two points of the sphere, in radians.
func angle(a, b s2.Point) float64 { return atan2(a.Cross(b.Vector).Norm(), a.Dot(b.Vector)) }

// atan2 is math.Atan2 for y that is not negative, exact to the last bit also
// where a right angle is added.
func atan2(y, x float64) float64 {
	const (
		half    = math.Pi / 2
		halfLow = 6.123233995736766e-17 // what the double half lacks of π/2
	)
	switch {
	case y == 0 && x >= 0:
		return 0
	case math.Abs(x) <= y:
		return half + (halfLow - math.Atan(x/y))
	case x < 0:
		return 2*half + (2*halfLow - math.Atan(y/-x))
	}
	return math.Atan(y / x)
}

// distance is the angle from a point to the nearest point of the line.
func (l *line) distance(p s2.Point) float64 { return toEdges(p, l) }

// distance is the angle from a point to the nearest point of the polygon, 0
// inside it.
func (pg *polygon) distance(p s2.Point) float64 {
	if pg.ContainsPoint(p) {
		return 0
	}
	return toEdges(p, pg)
}

// edged is a line or a polygon.
type edged interface {
	NumEdges() int
	Edge(i int) s2.Edge
}

// maxProjected is by how much the angle to the projected point may differ from
// that by chords, in radians, rounding apart.
const maxProjected = 1e-6

// toEdges is the angle from a point to the nearest point of the edges. By chords
// it is less exact than to the point projected on the edge; but where the whole
// edge is a right angle away the projection has no direction, and ends anywhere.
func toEdges(p s2.Point, all edged) float64 {
	best, at := math.Inf(1), 0
	for i := range all.NumEdges() {
		e := all.Edge(i)
		if d := s2.DistanceFromSegment(p, e.V0, e.V1).Radians(); d < best {
			best, at = d, i
		}
	}
	e := all.Edge(at)
	if d := angle(p, s2.Project(p, e.V0, e.V1)); math.Abs(d-best) <= maxProjected {
		return d
	}
	return best
}

// Distance is how far p is from the nearest point of g, in metres on the sphere
// and in units of the coordinates in the plane. ok is false if g cannot be
// seen in the coordinate system of p.
func (g *Geometry) Distance(p Point) (d float64, ok bool) {
	if g.crs == Strict || !g.Supports(p.CRS) {
		return 0, false
	}
	if p.CRS == Flat {
		if !g.isPoint() {
			return 0, false
		}
		return flatDistance(g.points[0].X, g.points[0].Y, p.X, p.Y), true
	}
	d = math.Inf(1)
	for i := range g.points {
		d = min(d, angle(p.on, g.points[i].on))
	}
	for _, l := range g.lines {
		d = min(d, l.distance(p.on))
	}
	for _, own := range g.polygons {
		d = min(d, own.distance(p.on))
	}
	return d * EarthRadius, true
}
