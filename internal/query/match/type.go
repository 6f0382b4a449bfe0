package match

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// TypeSet is the set of types that $type names. "number" stands for the four
// numeric types and is printed as such.
type TypeSet struct {
	Number bool // "number" was named
	bits   [4]uint64
}

// Add adds one type.
func (t *TypeSet) Add(x bson.Type) { t.bits[x>>6] |= 1 << (x & 63) }

// Has reports whether values of type x are in the set.
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

func parseType(_ *parser, a argument) (Node, error) {
	n := &Type{leaf: newLeaf(a.path)}
	if a.v.Type != bson.TypeArray {
		return n, n.Types.parse(a.v)
	}
	if a.v.Doc().IsEmpty() {
		return nil, mongoerr.New(mongoerr.FailedToParse, "%s must match at least one type", a.path)
	}
	for it := a.v.Doc().Iter(); it.Next(); {
		if err := n.Types.parse(it.Value); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// parse adds the type that v names by alias or number.
func (t *TypeSet) parse(v bson.Value) error {
	switch {
	case v.Type == bson.TypeString:
		return t.AddAlias(v.Str())
	case !v.IsNumber():
		return mongoerr.New(mongoerr.TypeMismatch, "type must be represented as a number or a string")
	}
	code, whole := bson.ExactInt64(v)
	switch {
	case whole && code == -1:
		t.Add(bson.TypeMinKey)
		return nil
	case whole && code == 0:
		return badValue("Invalid numerical type code: 0. Instead use {$exists:false}.")
	case !whole || code < 0 || code > int64(bson.TypeMaxKey) || !bson.Type(code).Valid():
		return badValue("Invalid numerical type code: %s", v)
	}
	t.Add(bson.Type(code))
	return nil
}

// AddAlias adds the type that an alias ("string", "number") names.
func (t *TypeSet) AddAlias(alias string) error {
	if alias == "number" {
		t.Number = true
		return nil
	}
	x, ok := bson.TypeByAlias(alias)
	if !ok || alias == "" {
		return badValue("Unknown type name alias: %s", alias)
	}
	t.Add(x)
	return nil
}
