package match

import "github.com/mayflydb/mayfly/internal/bson"

// TypeSet is the set of types that $type names. "number" stands for the four
// numeric types and is printed as such.
type TypeSet struct {
	Number bool // "number" was named
	bits   [4]uint64
}

// Add adds one type.
func (t *TypeSet) Add(x bson.Type) { t.bits[x>>6] |= 1 << (x & 63) }

// Has says whether values of type x are in the set.
func (t *TypeSet) Has(x bson.Type) bool {
	return t.bits[x>>6]&(1<<(x&63)) != 0 || t.Number && x.IsNumber()
}

// Types lists the types of the set by number, those of "number" included.
func (t *TypeSet) Types() []bson.Type {
	var out []bson.Type
	for x := range 256 {
		if t.Has(bson.Type(x)) {
			out = append(out, bson.Type(x))
		}
	}
	return out
}

func (n *Type) match(s subject, env *Env) (bool, error) { return n.test(s, each, n, env) }
func (n *Type) kind() kind                              { return kindType }
func (n *Type) elem(v bson.Value, _ *Env) (bool, error) {
	return !v.IsMissing() && n.Types.Has(v.Type), nil
}

func (n *Type) text(b *bson.Builder) {
	b.OpenDoc(n.Path).OpenArray("$type")
	i := 0
	if n.Types.Number {
		b.String("0", "number")
		i++
	}
	for x := range 256 {
		if n.Types.bits[x>>6]&(1<<(x&63)) != 0 {
			code := int32(x)
			if bson.Type(x) == bson.TypeMinKey {
				code = -1
			}
			b.Int32(bson.Index(i), code)
			i++
		}
	}
	b.Close().Close()
}
