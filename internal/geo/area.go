package geo

import (
	"math"

	"github.com/golang/geo/s1"
	"github.com/golang/geo/s2"
)

// The ellipsoid of WGS 84: its greater half axis in metres, and its flattening.
const (
	wgsAxis       = 6378137.0
	wgsFlattening = 1 / 298.257223563
)

// authalicRadius is that of the sphere whose surface is as great as the
// ellipsoid's, and EarthArea that surface in square metres.
var (
	authalicRadius = wgsAxis * math.Sqrt(authalicQ(1)/2)
	EarthArea      = 4 * math.Pi * authalicRadius * authalicRadius
)

// authalicQ is how much of the ellipsoid lies between the equator and the
// latitude with a sine, in units of its greater half axis (Snyder, Map
// Projections, 3-12).
func authalicQ(sin float64) float64 {
	e2 := wgsFlattening * (2 - wgsFlattening)
	e := math.Sqrt(e2)
	return (1 - e2) * (sin/(1-e2*sin*sin) + math.Log((1+e*sin)/(1-e*sin))/(2*e))
}

// RingArea is the area, in square metres of the ellipsoid, of what lies at the
// left of a closed ring of positions {longitude, latitude} in degrees; the last
// is the first again.
func RingArea(ring [][2]float64) float64 {
	points := make([]s2.Point, 0, len(ring))
	for _, p := range ring {
		latitude := math.Asin(authalicQ(math.Sin(p[1]*math.Pi/180)) / authalicQ(1))
		point := s2.PointFromLatLng(s2.LatLng{Lat: s1.Angle(latitude), Lng: s1.Angle(p[0]) * s1.Degree})
		if n := len(points); n == 0 || points[n-1] != point {
			points = append(points, point)
		}
	}
	if n := len(points); n > 1 && points[0] == points[n-1] {
		points = points[:n-1]
	}
	return s2.LoopFromPoints(points).Area() * authalicRadius * authalicRadius
}
