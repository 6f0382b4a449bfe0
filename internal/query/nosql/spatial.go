package nosql

import (
	"errors"
	"fmt"
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/geo"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() {
	registerPure("ST_ISVALID", 1, 1, func(args []bson.Value) bson.Value {
		if args[0].IsMissing() {
			return bson.Value{}
		}
		_, err := shape(args[0])
		return bson.Bool(err == nil)
	})
	registerPure("ST_ISVALIDDETAILED", 1, 1, func(args []bson.Value) bson.Value {
		if args[0].IsMissing() {
			return bson.Value{}
		}
		_, err := shape(args[0])
		var b bson.Builder
		if b.Bool("valid", err == nil); err != nil {
			b.String("reason", invalidity(args[0], err))
		}
		return bson.Document(b.Finish())
	})
	registerPure("ST_AREA", 1, 1, func(args []bson.Value) bson.Value {
		if _, err := shape(args[0]); err != nil {
			return bson.Value{}
		}
		return finite(area(args[0].Doc()))
	})
	registerShapes("ST_DISTANCE", func(a, b bson.Value, x, y *geo.Geometry) bson.Value { return finite(distance(a, b, x, y)) })
	registerShapes("ST_INTERSECTS", func(_, _ bson.Value, x, y *geo.Geometry) bson.Value { return bson.Bool(x.Intersects(y)) })
	registerShapes("ST_WITHIN", func(_, _ bson.Value, x, y *geo.Geometry) bson.Value { return bson.Bool(y.Contains(x)) })
}

// invalidity says why a value is no valid shape, in the service's words if
// its pages have them.
func invalidity(v bson.Value, err error) string {
	if v.Type != bson.TypeDocument {
		return mongoerr.From(err).Message
	}
	coordinates := v.Doc().Lookup("coordinates")
	switch kind := v.Doc().Lookup("type"); {
	case !isText(kind) || !shapes[kind.Str()]:
	case latitudesBeyond(coordinates):
		return "Latitude values must be between -90 and 90 degrees."
	case kind.Str() == "Polygon":
		if n := openRing(coordinates); n > 0 {
			return fmt.Sprintf("The Polygon input is not valid because the start and end points of the ring number %d are not the same. "+
				"Each ring of a polygon must have the same start and end points.", n)
		}
	}
	return mongoerr.From(err).Message
}

// latitudesBeyond reports whether there is a position in nested arrays of
// coordinates whose latitude there is none.
func latitudesBeyond(v bson.Value) bool {
	if v.Type != bson.TypeArray {
		return false
	}
	if v.Doc().Lookup("0").IsNumber() {
		latitude := v.Doc().Lookup("1")
		return latitude.IsNumber() && math.Abs(bson.ToDouble(latitude)) > 90
	}
	for e := range v.Doc().Values() {
		if latitudesBeyond(e) {
			return true
		}
	}
	return false
}

// openRing is the number of the first ring of a polygon that does not end where
// it begins, 0 for none.
func openRing(rings bson.Value) int {
	if rings.Type != bson.TypeArray {
		return 0
	}
	n := 0
	for ring := range rings.Doc().Values() {
		if n++; ring.Type != bson.TypeArray {
			continue
		}
		if positions := ring.Doc().Slice(); len(positions) > 0 && !bson.Equal(positions[0], positions[len(positions)-1]) {
			return n
		}
	}
	return 0
}

// registerShapes registers a function of two GeoJSON objects, which is
// undefined if one of them is none.
func registerShapes(name string, f func(a, b bson.Value, x, y *geo.Geometry) bson.Value) {
	registerPure(name, 2, 2, func(args []bson.Value) bson.Value {
		x, err1 := shape(args[0])
		y, err2 := shape(args[1])
		if err1 != nil || err2 != nil {
			return bson.Value{}
		}
		return f(args[0], args[1], x, y)
	})
}

// shapes are the types of GeoJSON that the query language has.
var shapes = map[string]bool{"Point": true, "LineString": true, "Polygon": true, "MultiPolygon": true}

// shape reads a GeoJSON object. Errors: what is wrong with it.
func shape(v bson.Value) (*geo.Geometry, error) {
	if v.Type != bson.TypeDocument {
		return nil, errors.New("The value is not a GeoJSON object.")
	}
	kind := v.Doc().Lookup("type")
	if !isText(kind) || !shapes[kind.Str()] {
		return nil, errors.New("The type of the GeoJSON object is not Point, LineString, Polygon or MultiPolygon.")
	}
	return geo.ParseStored(v)
}

// distance is the shortest way between two shapes on the ellipsoid of WGS 84, in
// metres: if they do not meet, it leads from a corner of one of them.
func distance(a, b bson.Value, x, y *geo.Geometry) float64 {
	if x.Intersects(y) {
		return 0
	}
	best := math.Inf(1)
	nearest := func(corners bson.Value, other *geo.Geometry) {
		eachCorner(corners.Doc().Lookup("coordinates"), func(p geo.Point) {
			if d, ok := other.Geodesic(p); ok {
				best = min(best, d)
			}
		})
	}
	nearest(a, y)
	nearest(b, x)
	return best
}

// eachCorner calls f for the positions in nested arrays of coordinates.
func eachCorner(v bson.Value, f func(geo.Point)) {
	if v.Type != bson.TypeArray {
		return
	}
	if first := v.Doc().Lookup("0"); !first.IsNumber() {
		for e := range v.Doc().Values() {
			eachCorner(e, f)
		}
		return
	}
	var b bson.Builder
	point, err := geo.ParsePoint(bson.Document(b.String("type", "Point").Value("coordinates", v).Finish()))
	if err == nil {
		f(point)
	}
}

// area is the area of a valid shape, in square metres; 0 for points and lines.
func area(d bson.Doc) float64 {
	coordinates := d.Lookup("coordinates")
	switch d.Lookup("type").Str() {
	case "Polygon":
		return polygonArea(coordinates.Doc())
	case "MultiPolygon":
		sum := 0.0
		for p := range coordinates.Doc().Values() {
			sum += polygonArea(p.Doc())
		}
		return sum
	}
	return 0
}

// polygonArea is the area within the first ring without that of the others,
// which are holes whichever way they run.
func polygonArea(rings bson.Doc) float64 {
	sum, outer := 0.0, true
	for ring := range rings.Values() {
		var positions [][2]float64
		for p := range ring.Doc().Values() {
			xy := p.Doc().Slice()
			positions = append(positions, [2]float64{bson.ToDouble(xy[0]), bson.ToDouble(xy[1])})
		}
		a := geo.RingArea(positions)
		if outer {
			sum, outer = a, false
			continue
		}
		sum -= min(a, geo.EarthArea-a)
	}
	return sum
}
