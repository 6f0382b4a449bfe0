package geo

import (
	"github.com/golang/geo/s2"

	"github.com/mayflydb/mayfly/internal/bson"
)

// The types of GeoJSON that are geometries.
const (
	typePoint        = "Point"
	typeLine         = "LineString"
	typePolygon      = "Polygon"
	typeMultiPoint   = "MultiPoint"
	typeMultiLine    = "MultiLineString"
	typeMultiPolygon = "MultiPolygon"
	typeCollection   = "GeometryCollection"
)

// builders add a GeoJSON object to a geometry, by type.
var builders map[string]func(g *Geometry, obj bson.Doc) error

func init() {
	builders = map[string]func(*Geometry, bson.Doc) error{
		typePoint: (*Geometry).addPoint, typeLine: (*Geometry).addLine, typePolygon: (*Geometry).addPolygon,
		typeMultiPoint: (*Geometry).addMultiPoint, typeMultiLine: (*Geometry).addMultiLine,
		typeMultiPolygon: (*Geometry).addMultiPolygon, typeCollection: (*Geometry).addCollection,
	}
}

func geoJSONType(obj bson.Doc) string {
	if t := obj.Lookup("type"); t.Type == bson.TypeString {
		return t.Str()
	}
	return ""
}

func parseGeoJSON(obj bson.Doc) (*Geometry, error) {
	kind := geoJSONType(obj)
	if kind == typePoint {
		p, err := parseGeoJSONPoint(obj)
		if err != nil {
			return nil, err
		}
		return pointGeometry(p), nil
	}
	build := builders[kind]
	if build == nil {
		return nil, badValue("unknown GeoJSON type: %s", obj)
	}
	g := &Geometry{crs: Sphere, kind: kind}
	return g, build(g, obj)
}

func parseGeoJSONPoint(obj bson.Doc) (Point, error) {
	if _, err := parseCRS(obj, false); err != nil {
		return Point{}, err
	}
	return parseCoordinate(obj.Lookup("coordinates"))
}

func (g *Geometry) addPoint(obj bson.Doc) error {
	p, err := parseGeoJSONPoint(obj)
	g.points = append(g.points, p)
	return err
}

// coordinates is the array of a type whose crs may not be strict.
func coordinates(obj bson.Doc, notArray string) (bson.Doc, error) {
	if _, err := parseCRS(obj, false); err != nil {
		return nil, err
	}
	v := obj.Lookup("coordinates")
	if v.Type != bson.TypeArray {
		return nil, badValue("%s", notArray)
	}
	return v.Doc(), nil
}

func parsePositions(v bson.Value) ([]s2.Point, error) {
	if v.Type != bson.TypeArray {
		return nil, badValue("GeoJSON coordinates must be an array of coordinates")
	}
	var out []s2.Point
	for it := v.Doc().Iter(); it.Next(); {
		p, err := parseCoordinate(it.Value)
		if err != nil {
			return nil, err
		}
		out = append(out, p.on)
	}
	return out, nil
}

// withoutRepeats drops points that repeat the one before.
func withoutRepeats(points []s2.Point) []s2.Point {
	out := points[:0]
	for i, p := range points {
		if i == 0 || p != points[i-1] {
			out = append(out, p)
		}
	}
	return out
}

func (g *Geometry) addLine(obj bson.Doc) error {
	if _, err := parseCRS(obj, false); err != nil {
		return err
	}
	return g.addLineOf(obj.Lookup("coordinates"))
}

func (g *Geometry) addLineOf(v bson.Value) error {
	points, err := parsePositions(v)
	if err != nil {
		return err
	}
	points = withoutRepeats(points)
	if len(points) < 2 {
		return badValue("GeoJSON LineString must have at least 2 vertices: %s", v)
	}
	l := s2.Polyline(points)
	if err := l.Validate(); err != nil {
		return badValue("GeoJSON LineString is not valid: %s %s", err, v)
	}
	g.lines = append(g.lines, newLine(&l))
	return nil
}

func (g *Geometry) addPolygon(obj bson.Doc) error {
	crs, err := parseCRS(obj, true)
	if err != nil {
		return err
	}
	v := obj.Lookup("coordinates")
	if crs == Strict {
		g.crs = Strict
		return g.addStrictPolygon(v)
	}
	return g.addPolygonOf(v)
}

func (g *Geometry) addMultiPoint(obj bson.Doc) error {
	list, err := coordinates(obj, "MultiPoint coordinates must be an array")
	if err != nil {
		return err
	}
	n := len(g.points)
	for it := list.Iter(); it.Next(); {
		p, err := parseCoordinate(it.Value)
		if err != nil {
			return err
		}
		g.points = append(g.points, p)
	}
	if len(g.points) == n {
		return badValue("MultiPoint coordinates must have at least 1 element")
	}
	return nil
}

func (g *Geometry) addMultiLine(obj bson.Doc) error {
	list, err := coordinates(obj, "MultiLineString coordinates must be an array")
	if err != nil {
		return err
	}
	if list.IsEmpty() {
		return badValue("MultiLineString coordinates must have at least 1 element")
	}
	for it := list.Iter(); it.Next(); {
		if err := g.addLineOf(it.Value); err != nil {
			return err
		}
	}
	return nil
}

func (g *Geometry) addMultiPolygon(obj bson.Doc) error {
	list, err := coordinates(obj, "MultiPolygon coordinates must be an array")
	if err != nil {
		return err
	}
	if list.IsEmpty() {
		return badValue("MultiPolygon coordinates must have at least 1 element")
	}
	for it := list.Iter(); it.Next(); {
		if err := g.addPolygonOf(it.Value); err != nil {
			return err
		}
	}
	return nil
}

func (g *Geometry) addCollection(obj bson.Doc) error {
	if _, err := parseCRS(obj, false); err != nil {
		return err
	}
	v := obj.Lookup("geometries")
	if v.Type != bson.TypeArray {
		return badValue("GeometryCollection geometries must be an array")
	}
	if v.Doc().IsEmpty() {
		return badValue("GeometryCollection geometries must have at least 1 element")
	}
	for it := v.Doc().Iter(); it.Next(); {
		if it.Value.Type != bson.TypeDocument {
			return badValue("Element %s of \"geometries\" is not an object", it.Key)
		}
		kind := geoJSONType(it.Value.Doc())
		build := builders[kind]
		switch {
		case build == nil:
			return badValue("Unknown GeoJSON type: %s", it.Value)
		case kind == typeCollection:
			return badValue("GeometryCollections cannot be nested: %s", it.Value)
		}
		if err := build(g, it.Value.Doc()); err != nil {
			return err
		}
	}
	return nil
}
