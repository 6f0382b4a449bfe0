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

// Load restores them.
func (d *deviation) Load(_ *Env, b []byte) error {
	s := saved(b)
	d.count, d.mean, d.m2 = int64(s.int()), s.float(), s.float()
	return nil
}
