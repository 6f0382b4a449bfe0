package geo

import (
	"math"
	"strconv"

	"github.com/golang/geo/s2"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Point is a point as it was written, with its place on the sphere.
type Point struct {
	X, Y float64  // longitude and latitude in degrees, or any place in the plane
	CRS  CRS      // Flat for legacy coordinates, Sphere for GeoJSON
	on   s2.Point // on the sphere, where OnSphere
}

// OnSphere reports whether the coordinates are a place on the earth.
func (p *Point) OnSphere() bool { return isLngLat(p.X, p.Y) }

// NewPoint makes a legacy point.
func NewPoint(x, y float64) Point {
	p := Point{X: x, Y: y}
	if isLngLat(x, y) {
		p.on = sphericalPoint(x, y)
	}
	return p
}

func isLngLat(lng, lat float64) bool { return math.Abs(lng) <= 180 && math.Abs(lat) <= 90 }

func sphericalPoint(lng, lat float64) s2.Point {
	return s2.PointFromLatLng(s2.LatLngFromDegrees(lat, lng).Normalized())
}

// parseFlat reads two numbers, as an array or as the first two fields of a
// document. loose allows more elements behind them.
func parseFlat(v bson.Value, loose bool) (x, y float64, err error) {
	if !isObject(v) {
		return 0, 0, badValue("Point must be an array or object, instead got type %s", v.Type)
	}
	it := v.Doc().Iter()
	var xy [2]float64
	for i := range xy {
		e := bson.Value{}
		if it.Next() {
			e = it.Value
		}
		if !e.IsNumber() {
			return 0, 0, badValue("Point must only contain numeric elements, instead got type %s", e.Type)
		}
		xy[i] = bson.ToDouble(e)
	}
	if !loose && it.Next() {
		return 0, 0, badValue("Point must only contain two numeric elements")
	}
	for _, f := range xy {
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return 0, 0, badValue("Point coordinates must be finite numbers")
		}
	}
	return xy[0], xy[1], nil
}

// parseCoordinate reads a GeoJSON position; an altitude is ignored.
func parseCoordinate(v bson.Value) (Point, error) {
	x, y, err := parseFlat(v, true)
	if err != nil {
		return Point{}, err
	}
	on, err := onSphere(x, y)
	return Point{x, y, Sphere, on}, err
}

func onSphere(lng, lat float64) (s2.Point, error) {
	if !isLngLat(lng, lat) {
		return s2.Point{}, badValue("longitude/latitude is out of bounds, lng: %s lat: %s", number(lng), number(lat))
	}
	return sphericalPoint(lng, lat), nil
}

// number prints a double as the server's messages about coordinates do.
func number(f float64) string { return strconv.FormatFloat(f, 'g', 6, 64) }

// parseLegacy reads legacy coordinates: [x, y] or {a: x, b: y}.
func parseLegacy(v bson.Value, loose bool) (Point, error) {
	x, y, err := parseFlat(v, loose)
	if err != nil {
		return Point{}, err
	}
	return NewPoint(x, y), nil
}

// isLegacy reports whether v is written as legacy coordinates rather than GeoJSON.
func isLegacy(v bson.Value) bool {
	if v.Type == bson.TypeArray {
		return true
	}
	_, first := v.Doc().First()
	return first.IsNumber()
}

// ParsePoint reads the point of a search by distance: legacy coordinates of
// two numbers, or a GeoJSON point, whose type may be left out. Error 2.
func ParsePoint(v bson.Value) (Point, error) {
	if !isObject(v) {
		return Point{}, badValue("Point must be an array or object, instead got type %s", v.Type)
	}
	if isLegacy(v) {
		return parseLegacy(v, false)
	}
	if t := v.Doc().Lookup("type"); !t.IsMissing() && (t.Type != bson.TypeString || t.Str() != typePoint) {
		return Point{}, badValue("invalid GeoJSON type for a point: %s", v.Doc())
	}
	return parseGeoJSONPoint(v.Doc())
}

// ParsePointDistance reads legacy coordinates with a largest distance behind
// them: [x, y, distance].
func ParsePointDistance(v bson.Value) (p Point, distance float64, ok bool) {
	if !isObject(v) {
		return Point{}, 0, false
	}
	var n [3]float64
	i := 0
	for it := v.Doc().Iter(); it.Next(); i++ {
		if i == len(n) || !it.Value.IsNumber() {
			return Point{}, 0, false
		}
		n[i] = bson.ToDouble(it.Value)
	}
	if i < len(n) || !finite(n[0]) || !finite(n[1]) {
		return Point{}, 0, false
	}
	return NewPoint(n[0], n[1]), n[2], true
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// ToSphere is the point on the sphere; ok is false if its coordinates are
// none of the earth's.
func (p Point) ToSphere() (Point, bool) {
	ok := p.OnSphere()
	p.CRS = Sphere
	return p, ok
}
