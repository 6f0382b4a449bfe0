package expr

import (
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
)

func init() {
	for _, name := range []string{"$stdDevPop", "$stdDevSamp"} {
		registerWindow(name, func(empty Accumulator) slidingState {
			return &slidingDeviation{less: gathered[*deviation](empty).less}
		})
	}
}

// slidingDeviation is a standard deviation of a sliding window, by the updating
// formulas of Youngs and Cramer, which work both ways; both sums are kept in
// twofold precision. Infinities and NaN are only counted: while one is in, there
// is no deviation.
type slidingDeviation struct {
	less      int64 // by how much the divisor is less than the count
	count     int64 // of finite numbers
	notFinite int64
	sum       summation
	squares   summation // of the squared differences from the mean
}

func (d *slidingDeviation) add(_ *Env, _ *queue, v bson.Value) error {
	d.update(v, 1)
	return nil
}

func (d *slidingDeviation) remove(_ *Env, _ *queue, v bson.Value) error {
	d.update(v, -1)
	return nil
}

func (d *slidingDeviation) update(v bson.Value, n int64) {
	switch {
	case !v.IsNumber():
		return
	case v.IsNaN() || infinity(v) != 0:
		d.notFinite += n
		return
	case d.count+n == 0:
		d.count, d.sum, d.squares = 0, summation{}, summation{}
		return
	case d.count == 0:
		d.sum.add(v)
	default:
		f := bson.ToDouble(v)
		before, after := float64(d.count), float64(d.count+n)
		x := before*f - bson.ToDouble(d.sum.sum())
		d.sum.add(bson.Double(f * float64(n)))
		d.squares.add(bson.Double(x * x * float64(n) / (before * after)))
	}
	d.count += n
}

func (d *slidingDeviation) result(*queue) (bson.Value, error) {
	if d.notFinite > 0 || d.count <= d.less {
		return bson.Null, nil
	}
	squares := d.squares.double()
	if squares < 0 || d.count == 1 {
		d.squares = summation{}
		return bson.Int32(0), nil
	}
	return bson.Double(math.Sqrt(squares / float64(d.count-d.less))), nil
}

func (d *slidingDeviation) size() int { return 128 }
