package geo

import (
	"math"

	"github.com/golang/geo/s1"
	"github.com/golang/geo/s2"

	"github.com/mayflydb/mayfly/internal/bson"
)

// flatShape is a shape in the plane. Its border belongs to it.
type flatShape interface {
	contains(x, y float64) bool
	bounds() Rect
}

// Rect is a rectangle in the plane, with its border.
type Rect struct{ MinX, MinY, MaxX, MaxY float64 }

func (r Rect) contains(x, y float64) bool {
	return x >= r.MinX && x <= r.MaxX && y >= r.MinY && y <= r.MaxY
}

func (r Rect) bounds() Rect { return r }

func flatGeometry(s flatShape) *Geometry { return &Geometry{crs: Flat, flat: s} }

// element is the i-th element of an array or a document, or Missing.
func element(v bson.Value, i int) bson.Value {
	for it := v.Doc().Iter(); it.Next(); i-- {
		if i == 0 {
			return it.Value
		}
	}
	return bson.Value{}
}

// parseBox reads two opposite corners, in any order.
func parseBox(v bson.Value) (*Geometry, error) {
	ax, ay, err := parseFlat(element(v, 0), false)
	if err != nil {
		return nil, err
	}
	bx, by, err := parseFlat(element(v, 1), false)
	if err != nil {
		return nil, err
	}
	return flatGeometry(Rect{min(ax, bx), min(ay, by), max(ax, bx), max(ay, by)}), nil
}

// ring is a polygon in the plane, closed by itself.
type ring [][2]float64

func parseRing(v bson.Value) (*Geometry, error) {
	var r ring
	for it := v.Doc().Iter(); it.Next(); {
		x, y, err := parseFlat(it.Value, false)
		if err != nil {
			return nil, err
		}
		r = append(r, [2]float64{x, y})
	}
	if len(r) < 3 {
		return nil, badValue("Polygon must have at least 3 points")
	}
	return flatGeometry(r), nil
}

func (r ring) bounds() Rect {
	b := Rect{r[0][0], r[0][1], r[0][0], r[0][1]}
	for _, p := range r {
		b = Rect{min(b.MinX, p[0]), min(b.MinY, p[1]), max(b.MaxX, p[0]), max(b.MaxY, p[1])}
	}
	return b
}

// contains counts the edges that a ray to the right meets. Vertices, level and
// upright edges are inside; a point exactly on a slanted edge is inside at the
// right side of the polygon only, as in the server.
func (r ring) contains(x, y float64) bool {
	inside := false
	for i, b := range r {
		a := r[(i+len(r)-1)%len(r)]
		if x == b[0] && y == b[1] || y == a[1] && y == b[1] && x >= min(a[0], b[0]) && x <= max(a[0], b[0]) {
			return true
		}
		if y <= min(a[1], b[1]) || y > max(a[1], b[1]) || x > max(a[0], b[0]) {
			continue
		}
		if a[0] == b[0] {
			if x == a[0] {
				return true
			}
			inside = !inside
		} else if x <= (y-a[1])*(b[0]-a[0])/(b[1]-a[1])+a[0] {
			inside = !inside
		}
	}
	return inside
}

// disc is a circle in the plane.
type disc struct{ x, y, radius float64 }

// parseCircle reads [center, radius].
func parseCircle(v bson.Value) (x, y, radius float64, err error) {
	if x, y, err = parseFlat(element(v, 0), false); err != nil {
		return
	}
	r := element(v, 1)
	if radius = bson.ToDouble(r); !r.IsNumber() || !(radius >= 0) {
		return 0, 0, 0, badValue("radius must be a non-negative number")
	}
	if v.Doc().Len() > 2 {
		return 0, 0, 0, badValue("Only 2 fields allowed for circular region")
	}
	return x, y, radius, nil
}

func parseCenter(v bson.Value) (*Geometry, error) {
	x, y, radius, err := parseCircle(v)
	if err != nil {
		return nil, err
	}
	return flatGeometry(disc{x, y, radius}), nil
}

// contains adds the radius to a coordinate where the other is the centre's: the
// difference of the coordinates would round a point on the border away.
func (d disc) contains(x, y float64) bool {
	switch {
	case x == d.x:
		return max(y, d.y) <= min(y, d.y)+d.radius
	case y == d.y:
		return max(x, d.x) <= min(x, d.x)+d.radius
	}
	return flatDistance(d.x, d.y, x, y) <= d.radius
}

func (d disc) bounds() Rect {
	return Rect{d.x - d.radius, d.y - d.radius, d.x + d.radius, d.y + d.radius}
}

func flatDistance(ax, ay, bx, by float64) float64 {
	dx, dy := math.Abs(ax-bx), math.Abs(ay-by)
	switch {
	case dx == 0:
		return dy
	case dy == 0:
		return dx
	}
	return math.Sqrt(dx*dx + dy*dy)
}

// parseCenterSphere reads a circle on the sphere, with its radius in radians.
func parseCenterSphere(v bson.Value) (*Geometry, error) {
	x, y, err := parseFlat(element(v, 0), false)
	if err != nil {
		return nil, err
	}
	on, err := onSphere(x, y)
	if err != nil {
		return nil, err
	}
	_, _, radius, err := parseCircle(v)
	if err != nil {
		return nil, err
	}
	c := s2.CapFromCenterAngle(on, s1.Angle(min(radius, math.Pi)))
	return &Geometry{crs: Sphere, cap: &circleOnSphere{c, Point{x, y, Sphere, on}, radius}}, nil
}
