package geo

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/geo/geotest"
)

// again has rapid draw again where a shape is not valid on the sphere, which few
// that are drawn on the plane are not: their edges cross. Any other error is a
// failure.
func again(t *rapid.T, err error) {
	if !strings.Contains(err.Error(), "cross") {
		t.Fatal(err)
	}
	t.Skip(err)
}

// stored is a geometry that was drawn.
func stored(t *rapid.T, v bson.Value) *Geometry {
	g, err := ParseStored(v)
	if err != nil {
		again(t, err)
	}
	return g
}

func hits(ranges []CellRange, cells []int64) bool {
	for _, c := range cells {
		for _, r := range ranges {
			if uint64(c) >= uint64(r.Lo) && uint64(c) <= uint64(r.Hi) {
				return true
			}
		}
	}
	return false
}

// What lies within a shape, or meets it, has a cell in the shape's ranges.
func TestCellsFindAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name, v := geotest.Shape(true).Draw(t, "query").First()
		query, err := ParseQuery(name, v)
		if err != nil {
			again(t, err)
		}
		g := stored(t, geotest.Geometry().Draw(t, "stored"))
		ranges, ok := query.CellRanges()
		if !ok {
			t.Fatal("no ranges")
		}
		if found := query.Contains(g) || query.Intersects(g); found && !hits(ranges, g.Cells()) {
			t.Fatalf("not found: %v %v", ranges, g.Cells())
		}
	})
}

// What is at a distance has a cell in a ring that holds the distance.
func TestRingsFindAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, err := ParsePoint(bson.Document(new(bson.Builder).Value("coordinates", geotest.Coordinate().Draw(t, "from")).Finish()))
		if err != nil {
			t.Fatal(err)
		}
		g := stored(t, geotest.Geometry().Draw(t, "stored"))
		d, ok := g.Distance(p)
		if !ok {
			t.Fatal("no distance")
		}
		wide := rapid.SampledFrom([]float64{0, 1, 1000, 1e6}).Draw(t, "wide")
		if !hits(p.AnnulusRanges(max(d-wide, 0), d), g.Cells()) || !hits(p.AnnulusRanges(d, d+wide), g.Cells()) {
			t.Fatalf("not found at %v", d)
		}
	})
}

// What lies within a shape, or near a point, has its key in the ranges of the
// shape's rectangle, whatever the raster.
func TestGridFindsAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		grid := Grid{rapid.IntRange(1, 32).Draw(t, "bits"), -180, 180}
		name, v := geotest.Shape(false).Draw(t, "query").First()
		query, err := ParseQuery(name, v)
		if err != nil {
			t.Fatal(err)
		}
		at := geotest.Coordinate().Draw(t, "stored")
		key, err := grid.Key(at, nil)
		if err != nil {
			t.Fatal(err)
		}
		in := func(rect Rect) bool {
			for _, r := range grid.Ranges(rect) {
				if bson.Compare(key, r.Lo) >= 0 && bson.Compare(key, r.Hi) <= 0 {
					return true
				}
			}
			return false
		}
		g := stored(t, at)
		if rect, ok := query.FlatBounds(); ok && query.Contains(g) && !in(rect) {
			t.Fatalf("not within %v", rect)
		}
		p, _ := ParsePoint(geotest.Coordinate().Draw(t, "from"))
		onSphere, _ := p.ToSphere()
		for _, from := range []Point{p, onSphere} {
			if d, _ := g.Distance(from); !in(from.FlatAround(d)) {
				t.Fatalf("not %v around %v", d, from)
			}
		}
	})
}

// No bytes make the parser panic, and a geometry can be used.
func FuzzGeoJSON(f *testing.F) {
	for _, s := range []string{
		`{type: "Point", coordinates: [1, 2]}`,
		`{type: "LineString", coordinates: [[0, 0], [1, 1]]}`,
		`{type: "Polygon", coordinates: [[[0, 0], [9, 0], [9, 9], [0, 9], [0, 0]], [[2, 2], [3, 2], [3, 3], [2, 2]]]}`,
		`{type: "Polygon", coordinates: [[[0, 0], [0, 1], [1, 1], [0, 0]]], crs: {type: "name", properties: {name: "urn:x-mongodb:crs:strictwinding:EPSG:4326"}}}`,
		`{type: "MultiPolygon", coordinates: [[[[0, 0], [1, 0], [1, 1], [0, 0]]]]}`,
		`{type: "GeometryCollection", geometries: [{type: "MultiPoint", coordinates: [[0, 0]]}]}`,
		`{x: 1, y: 2}`,
	} {
		f.Add([]byte(bson.MustParse(s)))
	}
	home := NewPoint(1, 1)
	box := &Geometry{crs: Flat, flat: Rect{0, 0, 1, 1}}
	f.Fuzz(func(t *testing.T, data []byte) {
		if bson.Validate(data, 100) != nil {
			return
		}
		for _, name := range []string{"$geometry", "$box", "$polygon", "$center", "$centerSphere"} {
			if q, err := ParseQuery(name, bson.Document(data)); err == nil {
				q.CellRanges()
				q.FlatBounds()
			}
		}
		g, err := ParseStored(bson.Document(data))
		if err != nil {
			return
		}
		g.Distance(home)
		box.Contains(g)
		if g.Supports(Sphere) {
			g = g.InSphere()
			g.Cells()
			g.Contains(g)
			g.Intersects(g)
		}
	})
}

func BenchmarkWithinPolygon(b *testing.B) {
	query, err := ParseQuery("$geometry", bson.MustParseValue(`{type: "Polygon", coordinates: [[[0, 0], [9, 0], [9, 9], [0, 9], [0, 0]]]}`))
	if err != nil {
		b.Fatal(err)
	}
	v := bson.MustParseValue(`{type: "Point", coordinates: [5.5, 6.5]}`)
	b.ReportAllocs()
	for b.Loop() {
		g, err := ParseStored(v)
		if err != nil || !query.Contains(g) {
			b.Fatal(err)
		}
	}
}

func BenchmarkPointCells(b *testing.B) {
	v := bson.MustParseValue(`{type: "Point", coordinates: [5.5, 6.5]}`)
	b.ReportAllocs()
	for b.Loop() {
		g, _ := ParseStored(v)
		g.Cells()
	}
}

// All of a meridian is a right angle away from the pole of its great circle,
// where a projection has no direction.
func TestDistanceFromThePoleOfAnEdge(t *testing.T) {
	p, err := ParsePoint(bson.Document(bson.MustParse(`{"coordinates": [-90, 0]}`)))
	if err != nil {
		t.Fatal(err)
	}
	g, err := ParseStored(bson.Document(bson.MustParse(`{"type": "LineString", "coordinates": [[0.125, 90], [-180, -0.25244140625]]}`)))
	if err != nil {
		t.Fatal(err)
	}
	if d, ok := g.Distance(p); !ok || math.Abs(d-math.Pi/2*EarthRadius) > 1 {
		t.Errorf("%v, %v", d, ok)
	}
}
