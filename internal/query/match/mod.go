package match

import (
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
)

func (n *Mod) match(s subject, env *Env) (bool, error) { return n.test(s, each, n, env) }
func (n *Mod) kind() kind                              { return kindMod }

func (n *Mod) elem(v bson.Value, _ *Env) (bool, error) {
	if !v.IsNumber() {
		return false, nil
	}
	i, ok := truncInt64(v)
	return ok && remainder(i, n.Divisor) == n.Remainder, nil
}

// remainder has no overflow for the smallest dividend.
func remainder(i, divisor int64) int64 {
	if divisor == -1 {
		return 0
	}
	return i % divisor
}

func (n *Mod) text(b *bson.Builder) {
	b.OpenDoc(n.Path).OpenArray("$mod").Int("0", n.Divisor).Int("1", n.Remainder).Close().Close()
}

// truncInt64 is the whole part of a number, and whether it fits a long.
func truncInt64(v bson.Value) (int64, bool) {
	switch v.Type {
	case bson.TypeInt32:
		return int64(v.Int32()), true
	case bson.TypeInt64:
		return v.Int64(), true
	case bson.TypeDouble:
		f := v.Double()
		if !(f >= -1<<63 && f < 1<<63) {
			return 0, false
		}
		return int64(math.Trunc(f)), true
	}
	return 0, false
}

// exactInt64 is the value of a number that is whole and fits a long.
func exactInt64(v bson.Value) (int64, bool) {
	i, ok := truncInt64(v)
	return i, ok && (v.Type != bson.TypeDouble || float64(i) == v.Double())
}
