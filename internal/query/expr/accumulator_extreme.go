package expr

import "github.com/mayflydb/mayfly/internal/bson"

func init() {
	registerExtreme("$min", -1)
	registerExtreme("$max", 1)
}

// registerExtreme registers $min (sense -1) or $max (sense 1), as an accumulator
// and as an expression.
func registerExtreme(name string, sense int) {
	registerGatherer(name, extreme{sense: sense})
	registerNary(name, 0, anyNumber, func(env *Env, args []Expr) (bson.Value, error) {
		best := bson.Null
		err := env.eachInput(args, func(v bson.Value) error {
			if !v.IsNullish() && (best.IsNullish() || env.compare(v, best)*sense > 0) {
				best = v
			}
			return nil
		})
		return best, err
	})
}

// extreme is the least or greatest value that is not null, undefined or
// missing, and the first of equal ones.
type extreme struct {
	sense int
	best  bson.Value // owns its bytes
	small [8]byte    // which may be these
}

func (x *extreme) add(env *Env, v bson.Value) error {
	if v.IsNullish() || !x.best.IsMissing() && env.compare(v, x.best)*x.sense <= 0 {
		return nil
	}
	x.set(v)
	return nil
}

func (x *extreme) set(v bson.Value) {
	if x.best.Data == nil {
		x.best.Data = x.small[:0]
	}
	x.best = bson.Value{Type: v.Type, Data: append(x.best.Data[:0], v.Data...)}
}

func (x *extreme) Result() (bson.Value, error) { return orNull(x.best).Clone(), nil }

func (x *extreme) Size() int {
	if n := cap(x.best.Data); n > len(x.small) {
		return extremeBytes + n
	}
	return extremeBytes
}

// extremeBytes is the size of an extreme and its gatherer.
const extremeBytes = 64

// orNull is v, or null if it is missing: what a group's field has that no
// document contributed to.
func orNull(v bson.Value) bson.Value {
	if v.IsMissing() {
		return bson.Null
	}
	return v
}

// Save appends the value.
func (x *extreme) Save(b []byte) ([]byte, error) { return saveValue(b, x.best), nil }

// Load adds it.
func (x *extreme) Load(env *Env, b []byte) error {
	in := saved(b)
	return x.add(env, in.value())
}
