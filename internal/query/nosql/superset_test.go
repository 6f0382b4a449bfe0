package nosql

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/geo"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// values are what properties of random items have, and what conditions compare
// them with, as JSON.
var values = []string{`1`, `2`, `-1.5`, `"a"`, `"ab"`, `"b%"`, `""`, `true`, `false`, `null`, `[1,"a"]`, `[]`, `[[1],{"a":1}]`, `{"a":1}`, `{"a":[1,2]}`, `{}`}

var properties = []string{"a", "b", "a.a", "_id", "a[0]", `["x.y"]`}

func randomItem(t *rapid.T) string {
	var fields []string
	for _, name := range []string{"a", "b", "_id", "x.y"} {
		if rapid.Bool().Draw(t, "has") {
			fields = append(fields, fmt.Sprintf("%q:%s", name, rapid.SampledFrom(values).Draw(t, "value")))
		}
	}
	return "{" + strings.Join(fields, ",") + "}"
}

func randomCondition(t *rapid.T, depth int) string {
	property := "c." + rapid.SampledFrom(properties).Draw(t, "property")
	property = strings.Replace(property, ".[", "[", 1)
	value := func() string { return rapid.SampledFrom(values).Draw(t, "value") }
	kinds := 8
	if depth > 3 {
		kinds = 6
	}
	switch rapid.IntRange(0, kinds).Draw(t, "kind") {
	case 0:
		return fmt.Sprintf("%s %s %s", property, rapid.SampledFrom([]string{"=", "<", "<=", ">", ">=", "!="}).Draw(t, "op"), value())
	case 1:
		return fmt.Sprintf("%s %s %s", value(), rapid.SampledFrom([]string{"=", "<", "<=", ">", ">="}).Draw(t, "op"), property)
	case 2:
		return fmt.Sprintf("%s IN (%s, %s)", property, value(), value())
	case 3:
		return fmt.Sprintf("%s BETWEEN %s AND %s", property, value(), value())
	case 4:
		return fmt.Sprintf("%s LIKE '%s'", property, rapid.SampledFrom([]string{"a%", "a_", "%b", "b[%]", ""}).Draw(t, "pattern"))
	case 5:
		return fmt.Sprintf("STARTSWITH(%s, %s)", property, value())
	case 6:
		return fmt.Sprintf("ARRAY_CONTAINS(%s, %s)", property, value())
	case 7:
		op := rapid.SampledFrom([]string{"AND", "OR"}).Draw(t, "op")
		return "(" + randomCondition(t, depth+1) + " " + op + " " + randomCondition(t, depth+1) + ")"
	}
	return "NOT (" + randomCondition(t, depth+1) + ")"
}

// TestFilterIsSuperset: what a query selects passes its Filter as well
// (invariant superset). The store has what the user calls _id elsewhere.
func TestFilterIsSuperset(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, err := ParseJSON([]byte(randomItem(t)))
		if err != nil {
			t.Fatal(err)
		}
		where := randomCondition(t, 0)
		q, err := Parse("SELECT VALUE 1 FROM c WHERE "+where, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		selected := false
		run := q.Start(time.Time{}, func(bson.Value) bool { selected = true; return true })
		if _, err := run.Add(v.Doc()); err != nil {
			t.Fatal(err)
		}
		if err := run.Finish(); err != nil {
			t.Fatal(err)
		}
		filter, _ := q.Filter()
		f, err := match.Parse(filter, nil)
		if err != nil {
			t.Fatalf("%s: %s: %v", where, filter, err)
		}
		stored := new(bson.Builder).Int32("_id", 7)
		for name, e := range v.Doc().All() {
			if name != "_id" {
				stored.Value(name, e)
			}
		}
		passes, err := f.Match(stored.Finish())
		if err != nil {
			t.Fatal(err)
		}
		if selected && !passes {
			t.Fatalf("%s selects %s, but %s does not let it pass", where, v, filter)
		}
	})
}

// TestSpatialFilterIsSuperset is the same for conditions on shapes.
func TestSpatialFilterIsSuperset(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := func() string {
			x, y := rapid.Float64Range(-179, 179).Draw(t, "x"), rapid.Float64Range(-89, 89).Draw(t, "y")
			size := rapid.SampledFrom([]float64{0.001, 0.5, 5}).Draw(t, "size")
			switch rapid.IntRange(0, 3).Draw(t, "type") {
			case 0:
				return fmt.Sprintf(`{"type":"LineString","coordinates":[[%v,%v],[%v,%v]]}`, x, y, min(x+size, 180), max(y-size, -90))
			case 1:
				return fmt.Sprintf(`{"type":"Polygon","coordinates":[[[%v,%v],[%v,%v],[%v,%v],[%v,%v]]]}`, x, y, min(x+size, 180), y, min(x+size, 180), min(y+size, 90), x, y)
			case 2:
				return rapid.SampledFrom([]string{`{"type":"Point","coordinates":[1]}`, `{"type":"Circle"}`, `[1,2]`, `{"x":1,"y":2}`, `{"type":"Point","coordinates":[1,2]}`}).Draw(t, "odd")
			}
			return fmt.Sprintf(`{"type":"Point","coordinates":[%v,%v]}`, x, y)
		}
		item := shape()
		other := rapid.SampledFrom([]string{item, shape()}).Draw(t, "other")
		where := rapid.SampledFrom([]string{
			"ST_WITHIN(c.at, %s)", "ST_WITHIN(%s, c.at)", "ST_INTERSECTS(c.at, %s)", "ST_DISTANCE(c.at, %s) < 200000", "3000000 >= ST_DISTANCE(%s, c.at)",
			"ST_DISTANCE(c.at, %s) <= 0",
		}).Draw(t, "where")
		where = fmt.Sprintf(where, other)
		selects(t, where, `{"at":`+item+`}`)
	})
}

// selects says whether a condition selects an item, and fails where its filter
// does not let pass what it selects.
func selects(t interface {
	Fatal(...any)
	Fatalf(string, ...any)
}, where, item string) (selected bool) {
	v, err := ParseJSON([]byte(item))
	if err != nil {
		t.Fatal(err)
	}
	q, err := Parse("SELECT VALUE 1 FROM c WHERE "+where, nil, nil)
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	run := q.Start(time.Time{}, func(bson.Value) bool { selected = true; return true })
	if _, err := run.Add(v.Doc()); err != nil {
		t.Fatal(err)
	}
	filter, _ := q.Filter()
	f, err := match.Parse(filter, nil)
	if err != nil {
		t.Fatalf("%s: %s: %v", where, filter, err)
	}
	if passes, err := f.Match(v.Doc()); err != nil || selected && !passes {
		t.Fatalf("%s selects %s, but %s does not let it pass: %v", where, v, filter, err)
	}
	return selected
}

// TestDistanceFilterAtItsBound walks around points near the equator and near a
// pole, on both sides of a distance on the ellipsoid: the greatest angle on the
// sphere has the same distance along a meridian at the equator.
func TestDistanceFilterAtItsBound(t *testing.T) {
	for _, latitude := range []float64{0, 45, 88} {
		where := fmt.Sprintf(`ST_DISTANCE(c.at, {"type":"Point","coordinates":[10,%v]}) < 200000`, latitude)
		inside, outside := 0, 0
		for bearing := 0.0; bearing < 360; bearing += 5 {
			for _, scale := range []float64{0.990, 0.994, 0.998, 0.9995, 1.001} {
				angle := 200000 * scale / geo.LeastRadius
				sin, cos := math.Sincos(bearing * math.Pi / 180)
				sinLat, cosLat := math.Sincos(latitude * math.Pi / 180)
				y := sinLat*math.Cos(angle) + cosLat*math.Sin(angle)*cos
				x := 10 + math.Atan2(sin*math.Sin(angle)*cosLat, math.Cos(angle)-sinLat*y)*180/math.Pi
				x = math.Remainder(x, 360)
				if selects(t, where, fmt.Sprintf(`{"at":{"type":"Point","coordinates":[%v,%v]}}`, x, math.Asin(y)*180/math.Pi)) {
					inside++
				} else {
					outside++
				}
			}
		}
		if outside == 0 || latitude == 0 && inside == 0 {
			t.Errorf("at %v: %d inside, %d outside", latitude, inside, outside)
		}
	}
}
