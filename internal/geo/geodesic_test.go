package geo

import (
	"math"
	"testing"

	"github.com/golang/geo/s2"
	"pgregory.net/rapid"
)

// TestGeodesic compares ways on the ellipsoid with published ones: quarters of
// the meridian and of the equator, the line of Vincenty's paper's successors
// between Flinders Peak and Buninyong (Geoscience Australia), and the example of
// GeographicLib's documentation, Wellington to Salamanca.
func TestGeodesic(t *testing.T) {
	for _, c := range []struct {
		lat1, lng1, lat2, lng2, metres, within float64
	}{
		{0, 0, 90, 0, 10001965.729, 0.001},
		{0, 0, 0, 90, 10018754.171, 0.001},
		{90, 0, -90, 0, 20003931.459, 0.001},
		{0, 0, 0, 180, 20003931.459, 0.001}, // over a pole
		{-41.32, 174.81, 40.96, -5.50, 19959679.267, 0.01},
		{-37.95103342, 144.42486789, -37.65282114, 143.92649554, 54972.271, 0.1},
		{1, 2, 1, 2, 0, 0},
		{89.9999, 0, 89.9999, 180, 22.3388, 0.001},
	} {
		d := geodesic(s2.LatLngFromDegrees(c.lat1, c.lng1), s2.LatLngFromDegrees(c.lat2, c.lng2))
		if math.Abs(d-c.metres) > c.within {
			t.Errorf("from %v, %v to %v, %v: %.4f, want %.4f", c.lat1, c.lng1, c.lat2, c.lng2, d, c.metres)
		}
	}
}

// TestGeodesicBounds holds what bounds of filters rely on, and that a way is as
// long backwards.
func TestGeodesicBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) s2.LatLng {
			return s2.LatLngFromDegrees(rapid.Float64Range(-90, 90).Draw(t, name+".lat"), rapid.Float64Range(-180, 180).Draw(t, name+".lng"))
		}
		a, b := draw("a"), draw("b")
		there, back, angle := geodesic(a, b), geodesic(b, a), a.Distance(b).Radians()
		if math.Abs(there-back) > 0.01 {
			t.Fatalf("%v there, %v back", there, back)
		}
		if there < angle*LeastRadius-0.01 || there > angle*equatorRadius*1.004+0.01 {
			t.Fatalf("%v metres for an angle of %v", there, angle)
		}
	})
}
