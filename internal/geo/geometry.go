package geo

import (
	"github.com/golang/geo/s2"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/invariant"
)

// Geometry is one parsed shape. Immutable and safe for use by many goroutines.
//
// A spherical geometry is the union of its points, lines and polygons, whatever
// its GeoJSON type; a cap ($centerSphere) and the flat shapes stand alone.
type Geometry struct {
	crs      CRS
	kind     string // GeoJSON's type, or "" for a legacy shape
	points   []Point
	lines    []*line
	polygons []*polygon
	cap      *circleOnSphere
	flat     flatShape
	alone    [1]Point // backs points of a single point
}

// CRS is the coordinate system that the geometry is written in.
func (g *Geometry) CRS() CRS { return g.crs }

func pointGeometry(p Point) *Geometry {
	g := &Geometry{crs: p.CRS, kind: typePoint}
	g.alone[0] = p
	g.points = g.alone[:]
	return g
}

// ParseStored reads the value of a field: legacy coordinates or GeoJSON. Error
// 2 says why v is no geometry.
func ParseStored(v bson.Value) (*Geometry, error) {
	if !isObject(v) {
		return nil, badValue("geo element must be an array or object: %s", v)
	}
	if isLegacy(v) {
		p, err := parseLegacy(v, true)
		if err != nil {
			return nil, err
		}
		return pointGeometry(p), nil
	}
	return parseGeoJSON(v.Doc())
}

// ParseQuery reads a shape that a filter names: name is "$geometry", "$box",
// "$polygon", "$center" or "$centerSphere". Error 2.
func ParseQuery(name string, v bson.Value) (*Geometry, error) {
	parse := specifiers[name]
	if parse == nil || !isObject(v) {
		return nil, badValue("unknown geo specifier: %s: %s", name, v)
	}
	return parse(v)
}

var specifiers = map[string]func(bson.Value) (*Geometry, error){
	"$box": parseBox, "$polygon": parseRing, "$center": parseCenter, "$centerSphere": parseCenterSphere,
	"$geometry": func(v bson.Value) (*Geometry, error) {
		if !isLegacy(v) {
			return parseGeoJSON(v.Doc())
		}
		p, err := parseLegacy(v, false)
		if err != nil {
			return nil, err
		}
		return pointGeometry(p), nil
	},
}

// isPoint reports whether g is one point, of either notation.
func (g *Geometry) isPoint() bool { return g.kind == typePoint }

// Supports reports whether the geometry can be seen in a coordinate system. A
// legacy point is on the sphere where its numbers are degrees, a GeoJSON point
// is in the plane too; a strict polygon is also a spherical one.
func (g *Geometry) Supports(crs CRS) bool {
	switch {
	case g.crs == crs:
		return true
	case g.isPoint():
		return g.crs == Sphere || g.points[0].OnSphere()
	}
	return g.crs == Strict && crs == Sphere
}

// InSphere is the geometry seen on the sphere. REQUIRES: Supports(Sphere).
func (g *Geometry) InSphere() *Geometry {
	if !invariant.Check(g.Supports(Sphere), "geo: InSphere is of a geometry that Supports the sphere") {
		return g
	}
	if g.crs == Sphere {
		return g
	}
	c := *g
	c.crs = Sphere
	return &c
}

// CanContain reports whether the geometry has an inside that other geometries can
// be within.
func (g *Geometry) CanContain() bool {
	return g.flat != nil || g.cap != nil || len(g.polygons) > 0
}

// IsSimple reports whether the geometry is a point, a line or a polygon, which
// every version of the 2dsphere index takes.
func (g *Geometry) IsSimple() bool {
	return g.kind == typePoint || g.kind == typeLine || g.kind == typePolygon
}

// circleOnSphere is $centerSphere.
type circleOnSphere struct {
	s2.Cap
	center Point
	radius float64 // radians
}
