package nosql

import (
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/geo"
)

// meets translates ST_WITHIN and ST_INTERSECTS of a property and a shape: what
// is within another shape intersects it.
func (t *translator) meets(e *call) bson.Doc {
	if e.f != functions["ST_WITHIN"] && e.f != functions["ST_INTERSECTS"] {
		return nil
	}
	path, v, ok := t.shapeAndPath(e)
	if !ok {
		return nil
	}
	return t.intersecting(path, v)
}

// shapeAndPath are the two arguments of a spatial function, one a property and
// the other a shape that is known.
func (t *translator) shapeAndPath(e *call) (string, bson.Value, bool) {
	for i, arg := range e.args {
		if path, ok := t.path(arg); ok {
			v, known := t.q.known(e.args[1-i], 0)
			if !known || v.Type != bson.TypeDocument || v.Doc().Has("crs") {
				return "", bson.Value{}, false
			}
			_, err := shape(v)
			return path, v, err == nil
		}
	}
	return "", bson.Value{}, false
}

func (t *translator) intersecting(path string, shape bson.Value) bson.Doc {
	t.paths = append(t.paths, FilterPath{Path: path, Spatial: true})
	var b bson.Builder
	return b.OpenDoc(path).OpenDoc("$geoIntersects").Value("$geometry", shape).Close().Close().Finish()
}

// distance translates ST_DISTANCE of a property and a point that is below a
// number.
func (t *translator) distance(e *comparison) bson.Doc {
	near, far := e.l, e.r
	switch e.op {
	case "<", "<=":
	case ">", ">=":
		near, far = far, near
	default:
		return nil
	}
	c, ok := near.(*call)
	if !ok || c.f != functions["ST_DISTANCE"] {
		return nil
	}
	metres, ok := t.q.value(far)
	if !ok || !metres.IsNumber() {
		return nil
	}
	path, center, ok := t.shapeAndPath(c)
	if !ok || center.Doc().Lookup("type").Str() != "Point" {
		return nil
	}
	around, ok := surround(center.Doc().Lookup("coordinates").Doc(), bson.ToDouble(metres))
	if !ok {
		return nil
	}
	return t.intersecting(path, around)
}

const (
	// aroundCorners is how many corners a polygon around a circle has.
	aroundCorners = 12
	// maxAround is the greatest radius of such a circle, and aroundSlack what it
	// is enlarged by, both in radians.
	maxAround   = 0.8
	aroundSlack = 1e-6
)

// surround is a polygon around all places that are no farther than so many
// metres on the ellipsoid.
func surround(center bson.Doc, metres float64) (bson.Value, bool) {
	angle := metres/geo.LeastRadius*1.001 + aroundSlack
	if !(metres >= 0) || angle > maxAround {
		return bson.Value{}, false
	}
	xy := center.Slice()
	lng, lat := bson.ToDouble(xy[0])*math.Pi/180, bson.ToDouble(xy[1])*math.Pi/180
	out := math.Atan(math.Tan(angle) / math.Cos(math.Pi/aroundCorners))
	ring := make([]bson.Value, aroundCorners+1)
	for i := range aroundCorners {
		sin, cos := math.Sincos(2 * math.Pi * float64(i) / aroundCorners)
		y := math.Sin(lat)*math.Cos(out) + math.Cos(lat)*math.Sin(out)*cos
		x := lng + math.Atan2(sin*math.Sin(out)*math.Cos(lat), math.Cos(out)-math.Sin(lat)*y)
		ring[i] = bson.Array(bson.Double(math.Remainder(x, 2*math.Pi)*180/math.Pi), bson.Double(math.Asin(max(-1, min(1, y)))*180/math.Pi))
	}
	ring[aroundCorners] = ring[0]
	var b bson.Builder
	return bson.Document(b.String("type", "Polygon").Value("coordinates", bson.Array(bson.Array(ring...))).Finish()), true
}

// known is a value that is the same for all items: a constant, a parameter, or
// an array or object made of such.
func (q *Query) known(e expression, depth int) (bson.Value, bool) {
	if depth > maxFilterDepth {
		return bson.Value{}, false
	}
	switch e := e.(type) {
	case *constant:
		return e.v, true
	case *parameter:
		return q.params[e.name], true
	case *sign:
		return q.value(e)
	case *arrayMaker:
		vs := make([]bson.Value, len(e.es))
		for i, x := range e.es {
			v, ok := q.known(x, depth+1)
			if !ok {
				return bson.Value{}, false
			}
			vs[i] = v
		}
		return bson.Array(vs...), true
	case *objectMaker:
		var b bson.Builder
		for i, x := range e.values {
			v, ok := q.known(x, depth+1)
			if !ok {
				return bson.Value{}, false
			}
			b.Value(e.names[i], v)
		}
		return bson.Document(b.Finish()), true
	}
	return bson.Value{}, false
}
