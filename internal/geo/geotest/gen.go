// Package geotest generates geometries for the tests of the packages that index
// and match them.
package geotest

import (
	"math"

	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Coordinate generates a longitude and a latitude, often on the borders of
// index cells, at the poles or at the date line.
func Coordinate() *rapid.Generator[bson.Value] {
	return rapid.Custom(func(t *rapid.T) bson.Value {
		lng := rapid.OneOf(rapid.Float64Range(-180, 180), rapid.SampledFrom([]float64{-180, -179.999, -90, -45, 0, 1e-9, 45, 90, 180})).Draw(t, "lng")
		lat := rapid.OneOf(rapid.Float64Range(-90, 90), rapid.SampledFrom([]float64{-90, -89.9999, -45, 0, 45, 90})).Draw(t, "lat")
		return pair(lng, lat)
	})
}

func pair(x, y float64) bson.Value { return bson.Array(bson.Double(x), bson.Double(y)) }

func geoJSON(kind string, coordinates bson.Value) bson.Value {
	return bson.Document(new(bson.Builder).String("type", kind).Value("coordinates", coordinates).Finish())
}

// Polygon generates a GeoJSON polygon without holes, of up to eight vertices
// around a centre.
func Polygon() *rapid.Generator[bson.Value] {
	return rapid.Custom(func(t *rapid.T) bson.Value {
		lng := rapid.Float64Range(-150, 150).Draw(t, "lng")
		lat := rapid.Float64Range(-60, 60).Draw(t, "lat")
		size := rapid.SampledFrom([]float64{0.001, 0.5, 5, 25}).Draw(t, "size")
		n := rapid.IntRange(3, 8).Draw(t, "vertices")
		var ring []bson.Value
		for i := range n {
			r := size * rapid.Float64Range(0.3, 1).Draw(t, "radius")
			a := 2 * math.Pi * float64(i) / float64(n)
			ring = append(ring, pair(lng+r*math.Cos(a), lat+r*math.Sin(a)))
		}
		return geoJSON("Polygon", bson.Array(bson.Array(append(ring, ring[0])...)))
	})
}

// Geometry generates GeoJSON or legacy coordinates.
func Geometry() *rapid.Generator[bson.Value] {
	points := func(least int) *rapid.Generator[[]bson.Value] {
		return rapid.SliceOfNDistinct(Coordinate(), least, 5, bson.Value.String)
	}
	return rapid.Custom(func(t *rapid.T) bson.Value {
		switch rapid.SampledFrom([]string{"legacy", "Point", "Point", "MultiPoint", "LineString", "Polygon"}).Draw(t, "kind") {
		case "legacy":
			return Coordinate().Draw(t, "pair")
		case "Point":
			return geoJSON("Point", Coordinate().Draw(t, "point"))
		case "MultiPoint":
			return geoJSON("MultiPoint", bson.Array(points(1).Draw(t, "points")...))
		case "LineString":
			return geoJSON("LineString", bson.Array(points(2).Filter(definite).Draw(t, "line")...))
		}
		return Polygon().Draw(t, "polygon")
	})
}

// nearlyOpposite is the cosine of the angle from which on rounding decides
// which way an edge goes round the sphere.
const nearlyOpposite = -1 + 1e-9

// definite reports whether it is clear where the edges between points go.
func definite(points []bson.Value) bool {
	for i := range points[1:] {
		ax, ay, az := onSphere(points[i])
		bx, by, bz := onSphere(points[i+1])
		if ax*bx+ay*by+az*bz < nearlyOpposite {
			return false
		}
	}
	return true
}

// onSphere is a pair of longitude and latitude as a point at distance 1 from
// the middle.
func onSphere(pair bson.Value) (x, y, z float64) {
	v := pair.Doc().Slice()
	lng, lat := v[0].Double()*math.Pi/180, v[1].Double()*math.Pi/180
	return math.Cos(lat) * math.Cos(lng), math.Cos(lat) * math.Sin(lng), math.Sin(lat)
}

// Shape generates the argument of a $geoWithin or, for one on the sphere, also
// of a $geoIntersects: {$geometry: …}, {$box: …} and the like.
func Shape(sphere bool) *rapid.Generator[bson.Doc] {
	return rapid.Custom(func(t *rapid.T) bson.Doc {
		kinds := []string{"$geometry", "$centerSphere"}
		if !sphere {
			kinds = []string{"$box", "$center", "$polygon", "$centerSphere"}
		}
		kind := rapid.SampledFrom(kinds).Draw(t, "shape")
		b := new(bson.Builder)
		switch kind {
		case "$geometry":
			return b.Value(kind, Polygon().Draw(t, "polygon")).Finish()
		case "$box":
			return b.Value(kind, bson.Array(Coordinate().Draw(t, "a"), Coordinate().Draw(t, "b"))).Finish()
		case "$polygon":
			return b.Value(kind, bson.Array(rapid.SliceOfN(Coordinate(), 3, 6).Draw(t, "ring")...)).Finish()
		}
		radius := rapid.SampledFrom([]float64{0, 1e-6, 0.01, 0.3, 2, 10}).Draw(t, "radius")
		return b.Value(kind, bson.Array(Coordinate().Draw(t, "center"), bson.Double(radius))).Finish()
	})
}
