package match

import (
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/geo"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Near is what $near and $nearSphere ask for: geometries in the order of their
// distance from a point.
type Near struct {
	// Point is in the plane for $near with legacy coordinates, else on the sphere.
	Point geo.Point
	// Min and Max bound the distance, both included: in metres on the sphere, in
	// units of the coordinates in the plane. Max is math.MaxFloat64 for none.
	Min, Max float64
	// Radians says that distances are reported in radians: legacy coordinates on
	// the sphere.
	Radians bool
	// GeoJSON says that the point was a GeoJSON point, which only a 2dsphere
	// index takes.
	GeoJSON bool
}

// Report turns a distance into the form that clients see.
func (n *Near) Report(distance float64) float64 {
	if n.Radians {
		return distance / geo.EarthRadius
	}
	return distance
}

func (n *GeoNear) kind() kind           { return kindGeoNear }
func (n *GeoNear) text(b *bson.Builder) { b.Doc(n.Path, n.Spec) }

// match is called only for documents that an index has found.
func (n *GeoNear) match(subject, *Env) (bool, error) { return true, nil }

// isNear reports whether op starts a search by distance, which takes all of the
// conditions about its path.
func isNear(op string) bool { return op == "$near" || op == "$nearSphere" || op == "$geoNear" }

// parseNearBehind refuses a search by distance after another operator, or with
// an argument that is no object.
func parseNearBehind(_ *parser, a argument) (Node, error) {
	return nil, badValue("near must be first in: %s", a.siblings)
}

func (p *parser) near(path string, d bson.Doc) (Node, error) {
	if p.opts.Forbid&FeatureNear != 0 {
		// The missing blank is the server's.
		return nil, mongoerr.New(mongoerr.Code(5626500),
			"$geoNear, $near, and $nearSphere are not allowed in this context, as these operators require sorting geospatial data. "+
				"If you do not need sort, consider using $geoWithin instead. Check out https://dochub.mongodb.org/core/near-sort-operation "+
				"and https://dochub.mongodb.org/core/nearSphere-sort-operationfor more details.")
	}
	n, err := NewGeoNear(path, d)
	if err != nil {
		return nil, err
	}
	return n, nil
}

// NewGeoNear makes {path: spec}, a search by distance. The errors are those of
// ParseNear.
func NewGeoNear(path string, spec bson.Doc) (*GeoNear, error) {
	near, err := ParseNear(spec)
	if err != nil {
		return nil, err
	}
	return &GeoNear{newLeaf(path), spec, near}, nil
}

// ParseNear parses the conditions of a search by distance: {$near: point,
// $minDistance, $maxDistance}, with legacy coordinates or a GeoJSON point, or
// {$near: {$geometry: point, $minDistance, $maxDistance}}. Errors: 2, 34413
// for another operator, 16893 to 16896 for the distances of legacy coordinates.
func ParseNear(d bson.Doc) (*Near, error) {
	n := &Near{Max: math.MaxFloat64}
	sphere, found, err := n.parseSiblings(d)
	if err == nil && !found {
		*n = Near{Max: math.MaxFloat64}
		sphere, err = n.parseGeometry(d)
	}
	if err != nil {
		return nil, err
	}
	n.GeoJSON = n.Point.CRS == geo.Sphere
	if sphere && !n.GeoJSON {
		ok := false
		if n.Point, ok = n.Point.ToSphere(); !ok {
			return nil, badValue("Legacy point is out of bounds for spherical query")
		}
		n.Radians = true
		n.Min, n.Max = n.Min*geo.EarthRadius, min(n.Max*geo.EarthRadius, math.MaxFloat64)
	}
	return n, nil
}

// parseSiblings parses the form with the distances next to the operator. found is false
// if the operator has no point there.
func (n *Near) parseSiblings(d bson.Doc) (sphere, found bool, err error) {
	for it := d.Iter(); it.Next(); {
		v := it.Value
		switch it.Key {
		case "$near", "$nearSphere", "$geoNear":
			point, err := geo.ParsePoint(v)
			if err != nil {
				far, distance, ok := geo.ParsePointDistance(v)
				if !ok {
					continue
				}
				if !(distance >= 0) {
					return false, false, mongoerr.New(18522, "max distance must be non-negative")
				}
				point, n.Max = far, distance
			}
			n.Point, found, sphere = point, true, it.Key == "$nearSphere"
		case "$minDistance":
			if n.Min, err = legacyDistance(it.Key, v, 16893, 16894); err != nil {
				return false, false, err
			}
		case "$maxDistance":
			if n.Max, err = legacyDistance(it.Key, v, 16895, 16896); err != nil {
				return false, false, err
			}
		case "$uniqueDocs":
		default:
			return false, false, mongoerr.New(34413, "invalid argument in geo near query: %s", it.Key)
		}
	}
	return sphere, found, nil
}

func legacyDistance(name string, v bson.Value, notNumber, negative mongoerr.Code) (float64, error) {
	if !v.IsNumber() {
		return 0, mongoerr.New(notNumber, "%s must be a number", name)
	}
	f := bson.ToDouble(v)
	if !(f >= 0) {
		return 0, mongoerr.New(negative, "%s must be non-negative", name)
	}
	return min(f, math.MaxFloat64), nil
}

// parseGeometry parses the form with the distances inside the operator.
func (n *Near) parseGeometry(d bson.Doc) (sphere bool, err error) {
	it := d.Iter()
	it.Next()
	op, arg := it.Key, it.Value
	if it.Next() {
		return false, badValue("geo near accepts just one argument when querying for a GeoJSON point. Extra field found: %s: %s", it.Key, it.Value)
	}
	found := false
	for in := arg.Doc().Iter(); in.Next(); {
		v := in.Value
		switch in.Key {
		case "$geometry":
			if v.Type != bson.TypeDocument && v.Type != bson.TypeArray {
				continue
			}
			if n.Point, err = geo.ParsePoint(v); err != nil {
				return false, badValue("invalid point in geo near query $geometry argument: %s  %s", v, mongoerr.From(err).Message)
			}
			if n.Point.CRS != geo.Sphere {
				return false, badValue("$near requires geojson point, given %s", v)
			}
			found = true
		case "$minDistance":
			if n.Min, err = distance(in.Key, v); err != nil {
				return false, err
			}
		case "$maxDistance":
			if n.Max, err = distance(in.Key, v); err != nil {
				return false, err
			}
		default:
			return false, badValue("invalid argument in geo near query: %s", in.Key)
		}
	}
	if !found {
		return false, badValue("$geometry is required for geo near query")
	}
	return op == "$nearSphere", nil
}

func distance(name string, v bson.Value) (float64, error) {
	if !v.IsNumber() {
		return 0, badValue("%s must be a number", name)
	}
	f := bson.ToDouble(v)
	if !(f >= 0) || math.IsInf(f, 1) {
		return 0, badValue("%s must be non-negative", name)
	}
	return f, nil
}
