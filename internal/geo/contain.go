package geo

import "github.com/golang/geo/s2"

// Contains reports whether o lies within g: every part of o in one part of g.
// Shapes in the plane contain points only. A geometry that cannot be seen in
// the coordinate system of g lies nowhere, and so does a strict polygon.
func (g *Geometry) Contains(o *Geometry) bool {
	if o.crs == Strict || !o.Supports(g.crs) {
		return false
	}
	if g.flat != nil {
		return o.isPoint() && g.flat.contains(o.points[0].X, o.points[0].Y)
	}
	for i := range o.points {
		if !g.containsPoint(o.points[i].on) {
			return false
		}
	}
	for _, l := range o.lines {
		if !g.containsLine(l) {
			return false
		}
	}
	for _, p := range o.polygons {
		if !g.containsPolygon(p) {
			return false
		}
	}
	return true
}

func (g *Geometry) containsPoint(p s2.Point) bool {
	if g.cap != nil {
		return g.cap.IntersectsCell(s2.CellFromPoint(p)) || g.cap.ContainsPoint(p)
	}
	for _, own := range g.polygons {
		if own.covers(p) {
			return true
		}
	}
	return false
}

func (g *Geometry) containsLine(l *line) bool {
	if g.cap != nil {
		outside := g.cap.Complement()
		return outside.IsEmpty() || l.distance(outside.Center()) >= outside.Radius().Radians()
	}
	for _, own := range g.polygons {
		if own.coversLine(l) {
			return true
		}
	}
	return false
}

func (g *Geometry) containsPolygon(p *polygon) bool {
	if g.cap != nil {
		outside := g.cap.Complement()
		return outside.IsEmpty() || p.distance(outside.Center()) >= outside.Radius().Radians()
	}
	for _, own := range g.polygons {
		if own.Contains(p.Polygon) {
			return true
		}
	}
	return false
}

// Intersects reports whether g and o, both on the sphere, share a point. A circle
// ($centerSphere) intersects nothing, as in the server.
func (g *Geometry) Intersects(o *Geometry) bool {
	if o.crs == Strict || !o.Supports(Sphere) {
		return false
	}
	for i := range o.points {
		if g.meetsPoint(o.points[i].on) {
			return true
		}
	}
	for _, l := range o.lines {
		if g.meetsLine(l) {
			return true
		}
	}
	for _, p := range o.polygons {
		if g.meetsPolygon(p) {
			return true
		}
	}
	return false
}

func (g *Geometry) meetsPoint(p s2.Point) bool {
	cell := s2.CellFromPoint(p)
	for i := range g.points {
		if s2.CellFromPoint(g.points[i].on).ID() == cell.ID() {
			return true
		}
	}
	for _, l := range g.lines {
		if l.IntersectsCell(cell) {
			return true
		}
	}
	for _, own := range g.polygons {
		if own.covers(p) {
			return true
		}
	}
	return false
}

func (g *Geometry) meetsLine(l *line) bool {
	for i := range g.points {
		if l.IntersectsCell(s2.CellFromPoint(g.points[i].on)) {
			return true
		}
	}
	for _, own := range g.lines {
		if own.RectBound().Intersects(l.RectBound()) && l.meets(own.edges()) {
			return true
		}
	}
	for _, own := range g.polygons {
		if own.meetsLine(l) {
			return true
		}
	}
	return false
}

func (g *Geometry) meetsPolygon(p *polygon) bool {
	for i := range g.points {
		if p.covers(g.points[i].on) {
			return true
		}
	}
	for _, own := range g.lines {
		if p.meetsLine(own) {
			return true
		}
	}
	for _, own := range g.polygons {
		if own.Intersects(p.Polygon) {
			return true
		}
	}
	return false
}
