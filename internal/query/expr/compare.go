package expr

import "github.com/mayflydb/mayfly/internal/bson"

func init() {
	registerComparison("$eq", func(c int) bool { return c == 0 })
	registerComparison("$ne", func(c int) bool { return c != 0 })
	registerComparison("$gt", func(c int) bool { return c > 0 })
	registerComparison("$gte", func(c int) bool { return c >= 0 })
	registerComparison("$lt", func(c int) bool { return c < 0 })
	registerComparison("$lte", func(c int) bool { return c <= 0 })
	registerBinary("$cmp", func(env *Env, a, b bson.Value) (bson.Value, error) {
		return smallInt(env.compare(a, b)), nil
	})
}

// registerComparison registers an operator that compares values of any types,
// Missing below null; holds reports for which orders the operator is true.
func registerComparison(name string, holds func(order int) bool) {
	registerBinary(name, func(env *Env, a, b bson.Value) (bson.Value, error) {
		return bson.Bool(holds(env.compare(a, b))), nil
	})
}

// smallInts are the ints that operators return most, made once.
var smallInts = func() (vs [18]bson.Value) {
	for i := range vs {
		vs[i] = bson.Int32(int32(i - 1))
	}
	return vs
}()

// smallInt is the int i; -1 to 16 cost no allocation.
func smallInt(i int) bson.Value {
	if i >= -1 && i < len(smallInts)-1 {
		return smallInts[i+1]
	}
	return bson.Int32(int32(i))
}
