package match

import (
	"github.com/mayflydb/mayfly/internal/bson"
)

func (n *Mod) match(s subject, env *Env) (bool, error) { return n.test(s, each, n, env) }
func (n *Mod) kind() kind                              { return kindMod }

func (n *Mod) elem(v bson.Value, _ *Env) (bool, error) {
	i, fits := bson.TruncateToInt64(v)
	return fits && remainder(i, n.Divisor) == n.Remainder, nil
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

func parseMod(_ *parser, a argument) (Node, error) {
	if a.v.Type != bson.TypeArray {
		return nil, badValue("malformed mod, needs to be an array")
	}
	args := a.v.Doc().Slice()
	switch {
	case len(args) < 2:
		return nil, badValue("malformed mod, not enough elements")
	case len(args) > 2:
		return nil, badValue("malformed mod, too many elements")
	}
	divisor, err := modNumber("divisor", args[0])
	if err != nil {
		return nil, err
	}
	rest, err := modNumber("remainder", args[1])
	if err != nil {
		return nil, err
	}
	if divisor == 0 {
		return nil, badValue("divisor cannot be 0")
	}
	return &Mod{newLeaf(a.path), divisor, rest}, nil
}

func modNumber(what string, v bson.Value) (int64, error) {
	if !v.IsNumber() {
		return 0, badValue("malformed mod, %s not a number", what)
	}
	i, fits := bson.TruncateToInt64(v)
	switch {
	case fits:
		return i, nil
	case v.IsNaN() || v.IsInf() != 0:
		return 0, badValue("malformed mod, %s value is invalid :: caused by :: Unable to coerce NaN/Inf to integral type", what)
	}
	return 0, badValue("malformed mod, %s value is invalid :: caused by :: Out of bounds coercing to integral value", what)
}
