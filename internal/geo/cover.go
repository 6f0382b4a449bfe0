package geo

import (
	"math"

	"github.com/golang/geo/s1"
	"github.com/golang/geo/s2"

	"github.com/mayflydb/mayfly/internal/invariant"
)

// Bounds of the cells that stand for a shape in a 2dsphere index.
const (
	// maxIndexCells is how many cells a document's shape may take, about.
	maxIndexCells = 20
	// maxQueryCells is how many cells a query's region may take, about
	// (internalQueryS2GeoMaxCells).
	maxQueryCells = 20
	// finestCell is the level of the smallest cell for all but points.
	finestCell = 23
	// slack widens the circles that cells are found for, in radians: rounding
	// must not lose a point on the border. It is most for circles that are nearly
	// the whole sphere, as package s2 keeps them.
	slack = 1e-7
)

// CellRange is a range of cells, both ends included.
type CellRange struct{ Lo, Hi int64 }

// Cells are the keys of a geometry in a 2dsphere index: cells that cover it,
// the leaf cell for a point. REQUIRES: Supports(Sphere).
func (g *Geometry) Cells() []int64 {
	if !invariant.Check(g.Supports(Sphere), "geo: Cells are of a geometry that Supports the sphere") {
		return nil
	}
	if g.isPoint() {
		return []int64{int64(s2.CellFromPoint(g.points[0].on).ID())}
	}
	rc := &s2.RegionCoverer{MaxLevel: finestCell, LevelMod: 1, MaxCells: maxIndexCells}
	cover := rc.Covering(g.region())
	out := make([]int64, len(cover))
	for i, c := range cover {
		out[i] = int64(c)
	}
	return out
}

// region is the geometry for the coverer.
func (g *Geometry) region() s2.Region {
	if g.cap != nil {
		return capAround(g.cap.Center(), g.cap.radius+slack)
	}
	var u union
	for i := range g.points {
		u = append(u, s2.CellFromPoint(g.points[i].on))
	}
	for _, l := range g.lines {
		u = append(u, l.Polyline)
	}
	for _, p := range g.polygons {
		u = append(u, p.Polygon)
	}
	if len(u) == 1 {
		return u[0]
	}
	return u
}

// CellRanges are the keys in a 2dsphere index that geometries within g, or
// intersecting g, have. ok is false for a shape in the plane.
func (g *Geometry) CellRanges() (ranges []CellRange, ok bool) {
	if g.flat != nil || g.crs == Flat && !g.Supports(Sphere) {
		return nil, false
	}
	return rangesOf(g.region()), true
}

// rangesOf lists the cells that meet a region, those that they lie in, and
// those in them. The ranges are not sorted, and overlap.
func rangesOf(r s2.Region) []CellRange {
	rc := &s2.RegionCoverer{MaxLevel: finestCell, LevelMod: 1, MaxCells: maxQueryCells}
	var out []CellRange
	parents := map[s2.CellID]bool{}
	for _, c := range rc.Covering(r) {
		out = append(out, CellRange{int64(c.RangeMin()), int64(c.RangeMax())})
		for level := c.Level() - 1; level >= 0; level-- {
			if p := c.Parent(level); !parents[p] {
				parents[p] = true
				out = append(out, CellRange{int64(p), int64(p)})
			}
		}
	}
	return out
}

// AnnulusRanges are the keys in a 2dsphere index of geometries with a point at
// a distance of inner to outer metres from p, both included.
func (p *Point) AnnulusRanges(inner, outer float64) []CellRange {
	return rangesOf(annulus{capAround(p.on, outer/EarthRadius+slack), capAround(p.on, inner/EarthRadius-slack)})
}

// capAround is the circle of an angle of radians, which may be out of bounds.
func capAround(p s2.Point, radians float64) s2.Cap {
	switch {
	case radians <= 0:
		return s2.EmptyCap()
	case radians >= math.Pi:
		return s2.FullCap()
	}
	return s2.CapFromCenterAngle(p, s1.Angle(radians))
}

// Neighbours are the cells of a level around p, with all in them: ranges of
// keys to look for the nearest geometries in. Metres is how wide such a cell
// is.
func (p *Point) Neighbours(level int) (ranges []CellRange, metres float64) {
	for _, c := range s2.CellFromPoint(p.on).ID().VertexNeighbors(level) {
		ranges = append(ranges, CellRange{int64(c.RangeMin()), int64(c.RangeMax())})
	}
	return ranges, s2.AvgEdgeMetric.Value(level) * EarthRadius
}

// FinestNeighbours is the largest level for Neighbours.
const FinestNeighbours = 29

// union is the region of several parts.
type union []s2.Region

func (u union) RectBound() s2.Rect {
	b := s2.EmptyRect()
	for _, r := range u {
		b = b.Union(r.RectBound())
	}
	return b
}

func (u union) CapBound() s2.Cap            { return u.RectBound().CapBound() }
func (u union) CellUnionBound() []s2.CellID { return u.CapBound().CellUnionBound() }

func (u union) ContainsCell(c s2.Cell) bool {
	for _, r := range u {
		if r.ContainsCell(c) {
			return true
		}
	}
	return false
}

func (u union) IntersectsCell(c s2.Cell) bool {
	for _, r := range u {
		if r.IntersectsCell(c) {
			return true
		}
	}
	return false
}

func (u union) ContainsPoint(p s2.Point) bool {
	for _, r := range u {
		if r.ContainsPoint(p) {
			return true
		}
	}
	return false
}

// annulus is a circle without the inside of a smaller one.
type annulus struct {
	s2.Cap
	inner s2.Cap
}

func (a annulus) ContainsCell(c s2.Cell) bool {
	return a.Cap.ContainsCell(c) && !a.inner.IntersectsCell(c)
}

func (a annulus) IntersectsCell(c s2.Cell) bool {
	return a.Cap.IntersectsCell(c) && !a.inner.ContainsCell(c)
}

func (a annulus) ContainsPoint(p s2.Point) bool {
	return a.Cap.ContainsPoint(p) && !a.inner.ContainsPoint(p)
}
