package geo

import (
	"math"

	"github.com/golang/geo/s2"
)

// The ellipsoid of WGS 84, in metres.
const (
	equatorRadius = 6378137.0
	flattening    = 1 / 298.257223563
	polarRadius   = equatorRadius * (1 - flattening)
)

// LeastRadius is the least radius of curvature of the ellipsoid, that of the
// meridians at the equator, in metres. A way of s metres on the ellipsoid takes
// no more than the angle s/LeastRadius on the sphere with the same coordinates.
const LeastRadius = equatorRadius * (1 - flattening) * (1 - flattening)

// Geodesic is how far p is from the nearest point of g on the ellipsoid of
// WGS 84, in metres. The edges of g are those on the sphere. ok is false if g
// or p is not on the sphere.
func (g *Geometry) Geodesic(p Point) (metres float64, ok bool) {
	if g.crs == Strict || p.CRS == Flat || !g.Supports(p.CRS) {
		return 0, false
	}
	at := s2.LatLngFromPoint(p.on)
	best := math.Inf(1)
	for i := range g.points {
		best = min(best, geodesic(at, s2.LatLngFromPoint(g.points[i].on)))
	}
	for _, l := range g.lines {
		best = min(best, geodesicToEdges(p.on, l))
	}
	for _, own := range g.polygons {
		if own.ContainsPoint(p.on) {
			return 0, true
		}
		best = min(best, geodesicToEdges(p.on, own))
	}
	return best, true
}

// geodesicToEdges is the way on the ellipsoid from a point to the nearest point
// of the edges. That is nearly the nearest one on the sphere too: near enough
// for the length of the way, but another edge may have it where two are about
// as near.
func geodesicToEdges(p s2.Point, all edged) float64 {
	// The ratio of a way on the ellipsoid to that on the sphere varies by less.
	const variation = 1.011
	nearest := math.Inf(1)
	angles := make([]float64, all.NumEdges())
	for i := range angles {
		e := all.Edge(i)
		angles[i] = s2.DistanceFromSegment(p, e.V0, e.V1).Radians()
		nearest = min(nearest, angles[i])
	}
	from, best := s2.LatLngFromPoint(p), math.Inf(1)
	for i, a := range angles {
		if a > nearest*variation+maxProjected {
			continue
		}
		e := all.Edge(i)
		for _, to := range []s2.Point{s2.Project(p, e.V0, e.V1), e.V0, e.V1} {
			best = min(best, geodesic(from, s2.LatLngFromPoint(to)))
		}
	}
	return best
}

// geodesic is the shortest way between two places on the ellipsoid, in metres.
func geodesic(a, b s2.LatLng) float64 {
	if d, ok := vincenty(a, b); ok {
		return d
	}
	return aroundGlobe(a, b)
}

const (
	vincentyRounds = 200
	vincentyEnough = 1e-12 // radians of longitude: some micrometres
)

// vincenty solves the inverse problem by the iteration of T. Vincenty, "Direct
// and inverse solutions of geodesics on the ellipsoid" (Survey Review, 1975), to
// half a millimetre. It does not converge for places nearly opposite each other.
func vincenty(a, b s2.LatLng) (metres float64, ok bool) {
	l := math.Remainder(b.Lng.Radians()-a.Lng.Radians(), 2*math.Pi)
	sinU1, cosU1 := reduced(a.Lat.Radians())
	sinU2, cosU2 := reduced(b.Lat.Radians())
	lambda := l
	for range vincentyRounds {
		sinL, cosL := math.Sincos(lambda)
		sinSigma := math.Hypot(cosU2*sinL, cosU1*sinU2-sinU1*cosU2*cosL)
		cosSigma := sinU1*sinU2 + cosU1*cosU2*cosL
		if sinSigma == 0 {
			return 0, cosSigma > 0 // the same place, or the opposite one
		}
		sigma := math.Atan2(sinSigma, cosSigma)
		sinAlpha := cosU1 * cosU2 * sinL / sinSigma
		cos2Alpha := 1 - sinAlpha*sinAlpha
		cos2M := 0.0 // along the equator
		if cos2Alpha > 0 {
			cos2M = cosSigma - 2*sinU1*sinU2/cos2Alpha
		}
		c := flattening / 16 * cos2Alpha * (4 + flattening*(4-3*cos2Alpha))
		before := lambda
		lambda = l + (1-c)*flattening*sinAlpha*(sigma+c*sinSigma*(cos2M+c*cosSigma*(2*cos2M*cos2M-1)))
		if math.Abs(lambda) > math.Pi {
			return 0, false
		}
		if math.Abs(lambda-before) > vincentyEnough {
			continue
		}
		u2 := cos2Alpha * (equatorRadius*equatorRadius/(polarRadius*polarRadius) - 1)
		big := 1 + u2/16384*(4096+u2*(-768+u2*(320-175*u2)))
		small := u2 / 1024 * (256 + u2*(-128+u2*(74-47*u2)))
		delta := small * sinSigma * (cos2M + small/4*(cosSigma*(2*cos2M*cos2M-1)-
			small/6*cos2M*(4*sinSigma*sinSigma-3)*(4*cos2M*cos2M-3)))
		return polarRadius * big * (sigma - delta), true
	}
	return 0, false
}

// reduced are the sine and the cosine of the reduced latitude.
func reduced(latitude float64) (sin, cos float64) {
	sin, cos = math.Sincos(math.Atan((1 - flattening) * math.Tan(latitude)))
	return sin, cos
}

const (
	// globeSteps is how many places half way are tried first, and globeRounds how
	// often the best of them is then looked for more closely.
	globeSteps  = 72
	globeRounds = 60
)

// aroundGlobe is the way between two places nearly opposite each other: each way
// crosses the great circle half way between them, so the shortest is the one over
// the best place of that.
func aroundGlobe(a, b s2.LatLng) float64 {
	from, to := s2.PointFromLatLng(a), s2.PointFromLatLng(b)
	pole := s2.Point{Vector: from.Sub(to.Vector).Normalize()}
	x := s2.Ortho(pole)
	y := pole.Cross(x.Vector)
	over := func(angle float64) float64 {
		sin, cos := math.Sincos(angle)
		m := s2.LatLngFromPoint(s2.Point{Vector: x.Mul(cos).Add(y.Mul(sin))})
		d1, _ := vincenty(a, m)
		d2, _ := vincenty(m, b)
		return d1 + d2
	}
	const step = 2 * math.Pi / globeSteps
	best, at := math.Inf(1), 0.0
	for i := range globeSteps {
		if d := over(float64(i) * step); d < best {
			best, at = d, float64(i)*step
		}
	}
	low, high := at-step, at+step
	for range globeRounds {
		third := (high - low) / 3
		d1, d2 := over(low+third), over(high-third)
		best = min(best, d1, d2)
		if d1 < d2 {
			high -= third
		} else {
			low += third
		}
	}
	return best
}
