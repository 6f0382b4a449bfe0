package match

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
)

// String is the operator's name.
func (o BitOp) String() string {
	return [...]string{"$bitsAllSet", "$bitsAllClear", "$bitsAnySet", "$bitsAnyClear"}[o]
}

func (n *BitTest) match(s subject, env *Env) (bool, error) { return n.test(s, each, n, env) }
func (n *BitTest) kind() kind                              { return kindBitsAllSet + kind(n.Op) }

func (n *BitTest) elem(v bson.Value, _ *Env) (bool, error) {
	if v.Type == bson.TypeBinary {
		_, content := v.Binary()
		return n.decide(func(p uint32) bool {
			return int(p/8) < len(content) && content[p/8]&(1<<(p%8)) != 0
		}), nil
	}
	i, ok := bson.ExactInt64(v)
	if !ok {
		return false, nil
	}
	// Positions past 63 repeat the sign.
	return n.decide(func(p uint32) bool { return i>>min(p, 63)&1 != 0 }), nil
}

func (n *BitTest) decide(set func(uint32) bool) bool {
	all := n.Op == BitsAllSet || n.Op == BitsAllClear
	want := n.Op == BitsAllSet || n.Op == BitsAnySet
	for _, p := range n.Positions {
		if (set(p) == want) != all {
			return !all
		}
	}
	return all
}

func (n *BitTest) text(b *bson.Builder) {
	b.OpenDoc(n.Path).OpenArray(n.Op.String())
	for i, p := range n.Positions {
		b.Int32(bson.Index(i), int32(p))
	}
	b.Close().Close()
}

func parseBits(_ *parser, a argument) (Node, error) {
	n := &BitTest{leaf: newLeaf(a.path), Op: map[string]BitOp{
		"$bitsAllSet": BitsAllSet, "$bitsAllClear": BitsAllClear,
		"$bitsAnySet": BitsAnySet, "$bitsAnyClear": BitsAnyClear,
	}[a.op]}
	var err error
	switch {
	case a.v.Type == bson.TypeArray:
		err = n.positions(a.v.Doc())
	case a.v.Type == bson.TypeBinary:
		_, content := a.v.Binary()
		for i := range uint32(len(content) * 8) {
			if content[i/8]&(1<<(i%8)) != 0 {
				n.Positions = append(n.Positions, i)
			}
		}
	case a.v.IsNumber():
		var mask int64
		mask, err = nonNegative(a.op, a.v)
		for i := range uint32(63) {
			if mask>>i&1 != 0 {
				n.Positions = append(n.Positions, i)
			}
		}
	default:
		return nil, badValue("%s takes an Array, a number, or a BinData but received: %s", a.path, a.text())
	}
	if err != nil {
		return nil, err
	}
	return n, nil
}

// positions reads a list of bit positions.
func (n *BitTest) positions(list bson.Doc) error {
	for it := list.Iter(); it.Next(); {
		_, fits := bson.TruncateToInt64(it.Value)
		i, whole := bson.ExactInt64(it.Value)
		if !it.Value.IsNumber() {
			return badValue("Failed to parse bit position. Expected a number in: %s: %s", it.Key, it.Value)
		}
		if fits && !whole {
			return badValue("Failed to parse bit position. Expected an integer: %s: %s", it.Key, it.Value)
		}
		if !fits || i != int64(int32(i)) {
			return badValue("bit positions cannot be represented as a 32-bit signed integer: %s: %s", it.Key, it.Value)
		}
		if i < 0 {
			return badValue("Failed to parse bit position. Expected a non-negative number in: %s: %s", it.Key, it.Value)
		}
		n.Positions = append(n.Positions, uint32(i))
	}
	slices.Sort(n.Positions)
	n.Positions = slices.Compact(n.Positions)
	return nil
}
