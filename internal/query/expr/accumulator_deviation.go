package expr

import (
	"encoding/binary"
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
)

func init() {
	registerDeviation("$stdDevPop", 0)
	registerDeviation("$stdDevSamp", 1)
}

func registerDeviation(name string, less int64) {
	registerGatherer(name, deviation{less: less})
	registerNary(name, 0, anyNumber, func(env *Env, args []Expr) (bson.Value, error) {
		d := deviation{less: less}
		err := env.eachInput(args, func(v bson.Value) error { return d.add(env, v) })
		return d.value(), err
	})
}

// deviation is a standard deviation, by Welford's method.
type deviation struct {
	less     int64 // by how much the divisor is less than the count
	count    int64
	mean, m2 float64
}

// add takes in v if it is a number.
func (d *deviation) add(_ *Env, v bson.Value) error {
	if !v.IsNumber() {
		return nil
	}
	d.count++
	if delta := bson.ToDouble(v) - d.mean; delta != 0 {
		d.mean += delta / float64(d.count)
		d.m2 += delta * (bson.ToDouble(v) - d.mean)
	}
	return nil
}

func (d *deviation) value() bson.Value {
	if d.count <= d.less {
		return bson.Null
	}
	return bson.Double(math.Sqrt(d.m2 / float64(d.count-d.less)))
}

func (d *deviation) Result() (bson.Value, error) { return d.value(), nil }
func (d *deviation) Size() int                   { return 32 }

// Save appends the count, the mean and the sum of squares.
func (d *deviation) Save(b []byte) ([]byte, error) {
	return saveFloat(saveFloat(binary.AppendUvarint(b, uint64(d.count)), d.mean), d.m2), nil
}

// Load adds them, by the parallel form of the method (Chan, Golub, LeVeque).
func (d *deviation) Load(_ *Env, b []byte) error {
	s := saved(b)
	count, mean, m2 := int64(s.int()), s.float(), s.float()
	if d.count == 0 || count == 0 {
		if count > 0 {
			d.count, d.mean, d.m2 = count, mean, m2
		}
		return nil
	}
	n := float64(d.count + count)
	if delta := mean - d.mean; delta != 0 {
		d.mean = (float64(d.count)*d.mean + float64(count)*mean) / n
		d.m2 += delta * delta * float64(d.count) * float64(count) / n
	}
	d.count, d.m2 = d.count+count, d.m2+m2
	return nil
}
