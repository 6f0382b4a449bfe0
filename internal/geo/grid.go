package geo

import (
	"encoding/binary"
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Grid is the raster of a 2d index: a square from Min to Max in both
// directions, cut in half Bits times.
type Grid struct {
	Bits     int // 1 .. 32
	Min, Max float64
}

// DefaultGrid is the raster of an index that names none.
var DefaultGrid = Grid{26, -180, 180}

// hashSubtype is the subtype of the binary values that are keys of a 2d index.
const hashSubtype = 0x80

// maxGridRanges bounds the ranges that a region is cut into.
const maxGridRanges = 50

// errOutside is the server's text for coordinates beyond the raster.
func (g Grid) errOutside(code mongoerr.Code, cause string) error {
	return mongoerr.New(code, "point not in interval of [ %s, %s ] :: caused by :: %s", number(g.Min), number(g.Max), cause)
}

func (g Grid) has(f float64) bool { return f >= g.Min && f <= g.Max }

// CheckPoint refuses the point of a search beyond the raster: error 16433.
func (g Grid) CheckPoint(p Point) error {
	if g.has(p.X) && g.has(p.Y) {
		return nil
	}
	at := bson.Array(bson.Double(p.X), bson.Double(p.Y))
	return g.errOutside(16433, at.String())
}

// scale is the place of a coordinate in the raster.
func (g Grid) scale(f float64) uint32 {
	s := (f - g.Min) / (g.Max - g.Min) * (1 << 32)
	return uint32(min(max(s, 0), math.MaxUint32))
}

// Key is the key of a location in the index: the interleaved bits of both
// coordinates. doc is the whole document, for messages. Errors: 13067, 13068
// for too few fields, 13026 for what is no number, 13027 for a place beyond
// the raster.
func (g Grid) Key(location bson.Value, doc bson.Doc) (bson.Value, error) {
	it := location.Doc().Iter()
	if !it.Next() {
		return bson.Value{}, mongoerr.New(13067, "geo field is empty")
	}
	vx := it.Value
	if !it.Next() {
		return bson.Value{}, mongoerr.New(13068, "geo field only has 1 element")
	}
	vy := it.Value
	if !vx.IsNumber() || !vy.IsNumber() {
		return bson.Value{}, mongoerr.New(13026, "geo values must be 'legacy coordinate pairs' for 2d indexes")
	}
	x, y := bson.ToDouble(vx), bson.ToDouble(vy)
	if !g.has(x) || !g.has(y) {
		return bson.Value{}, g.errOutside(13027, doc.String())
	}
	return hashValue(interleave(g.scale(x), g.scale(y)) &^ (math.MaxUint64 >> (2 * g.Bits))), nil
}

func hashValue(h uint64) bson.Value {
	return bson.Binary(hashSubtype, binary.BigEndian.AppendUint64(nil, h))
}

// interleave puts the bits of x in front of those of y, pair by pair.
func interleave(x, y uint32) uint64 { return spread(x)<<1 | spread(y) }

func spread(v uint32) uint64 {
	x := uint64(v)
	x = (x | x<<16) & 0x0000ffff0000ffff
	x = (x | x<<8) & 0x00ff00ff00ff00ff
	x = (x | x<<4) & 0x0f0f0f0f0f0f0f0f
	x = (x | x<<2) & 0x3333333333333333
	return (x | x<<1) & 0x5555555555555555
}

// HashRange is a range of keys of a 2d index, both ends included.
type HashRange struct{ Lo, Hi bson.Value }

// quad is a square of the raster: level halvings down, at x, y.
type quad struct {
	x, y  uint32
	level int
}

func (q quad) size() uint64 { return 1 << (32 - q.level) }

// Ranges are the keys of the locations in a rectangle, in ascending order.
func (g Grid) Ranges(r Rect) []HashRange {
	if r.MaxX < g.Min || r.MaxY < g.Min || r.MinX > g.Max || r.MinY > g.Max || r.MinX > r.MaxX || r.MinY > r.MaxY {
		return nil
	}
	// A step of the raster more at each side, for what rounding moved.
	lowX, lowY := uint64(g.scale(r.MinX)), uint64(g.scale(r.MinY))
	highX, highY := uint64(g.scale(r.MaxX))+1, uint64(g.scale(r.MaxY))+1
	lowX, lowY = lowX-min(lowX, 1), lowY-min(lowY, 1)
	open, done := []quad{{}}, []quad{}
	for len(open) > 0 && len(open)+len(done) < maxGridRanges {
		var next []quad
		for _, q := range open {
			minX, minY := uint64(q.x), uint64(q.y)
			maxX, maxY := minX+q.size()-1, minY+q.size()-1
			switch {
			case maxX < lowX || minX > highX || maxY < lowY || minY > highY:
			case minX >= lowX && maxX <= highX && minY >= lowY && maxY <= highY || q.level == g.Bits:
				done = append(done, q)
			default:
				half := uint32(q.size() / 2)
				for _, c := range [][2]uint32{{0, 0}, {0, half}, {half, 0}, {half, half}} {
					next = append(next, quad{q.x + c[0], q.y + c[1], q.level + 1})
				}
			}
		}
		open = next
	}
	out := make([]HashRange, 0, len(open)+len(done))
	for _, q := range append(done, open...) {
		lo := interleave(q.x, q.y)
		hi := lo
		if q.level < 32 {
			hi |= math.MaxUint64 >> (2 * q.level)
		}
		out = append(out, HashRange{hashValue(lo), hashValue(hi)})
	}
	return out
}

// FlatBounds is a rectangle in the plane that holds every point that the
// geometry contains. ok is false for shapes that a 2d index does not answer.
func (g *Geometry) FlatBounds() (Rect, bool) {
	switch {
	case g.flat != nil:
		return g.flat.bounds(), true
	case g.cap != nil:
		return g.cap.center.degreesAround(g.cap.radius), true
	}
	return Rect{}, false
}

// degreesAround is a rectangle in degrees that holds every place within an
// angle of radians from p.
func (p *Point) degreesAround(radians float64) Rect {
	const margin = 1e-6
	d := min(radians, math.Pi)*180/math.Pi + margin
	r := Rect{-180, p.Y - d, 180, p.Y + d}
	if r.MinY <= -90 || r.MaxY >= 90 {
		return r
	}
	// The widest place of the circle lies nearer to the pole than its centre.
	half := math.Asin(min(math.Sin(d*math.Pi/180)/math.Cos(p.Y*math.Pi/180), 1))*180/math.Pi + margin
	if lo, hi := p.X-half, p.X+half; d < 90 && lo >= -180 && hi <= 180 {
		r.MinX, r.MaxX = lo, hi
	}
	return r
}

// FlatAround is a rectangle that holds every place within a distance from p: in
// metres for a point on the sphere, else in units of the coordinates.
func (p *Point) FlatAround(distance float64) Rect {
	if p.CRS == Sphere {
		return p.degreesAround(distance / EarthRadius)
	}
	return disc{p.X, p.Y, distance}.bounds()
}
