package match

import "github.com/mayflydb/mayfly/internal/bson"

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
	i, ok := exactInt64(v)
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
