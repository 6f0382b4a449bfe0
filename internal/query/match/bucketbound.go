package match

import "github.com/mayflydb/mayfly/internal/bson"

// BucketBound is a condition on the buckets of a time-series collection: that
// the least, or the greatest, of the values at a path of the measurements in
// one is on one side of a value, in the order of all values. It cannot be
// written in a query; MongoDB's counterparts are $_internalExprGt and
// so on.
type BucketBound struct {
	leaf
	components []string // of the measurements' path
	Max        bool
	Op         Op
	Value      bson.Value
}

// NewBucketBound makes a condition on the greatest or least value at a path of
// measurements, given with its components.
func NewBucketBound(path string, components []string, greatest bool, op Op, value bson.Value) *BucketBound {
	side := "control.min."
	if greatest {
		side = "control.max."
	}
	return &BucketBound{newLeaf(side + path), components, greatest, op, value}
}

func (n *BucketBound) kind() kind { return (&Compare{Op: n.Op}).kind() }

func (n *BucketBound) text(b *bson.Builder) {
	name := [...]string{"$_internalExprEq", "$_internalExprLt", "$_internalExprLte", "$_internalExprGt", "$_internalExprGte"}[n.Op]
	b.OpenDoc(n.Path).Value(name, n.Value).Close()
}

func (n *BucketBound) match(s subject, _ *Env) (bool, error) {
	v, hi := BucketExtremes(s.v.Doc(), n.components)
	if n.Max {
		v = hi
	}
	c := bson.Compare(v, n.Value)
	switch n.Op {
	case Lt:
		return c < 0, nil
	case Lte:
		return c <= 0, nil
	case Gt:
		return c > 0, nil
	case Gte:
		return c >= 0, nil
	}
	return c == 0, nil
}

// maxExtremes is how deep the statistics of a bucket go by fields.
const maxExtremes = 15

// BucketExtremes returns bounds of all values that a filter can see at a path of the
// measurements in a bucket, apart from missing ones: null and null if there is none,
// MinKey and MaxKey if the statistics do not tell.
//
// The bounds are the least and the greatest value of each field; those of documents are
// kept field by field. Nothing is known if there may be arrays, since a filter looks
// at their elements, or if only some of the values are documents.
func BucketExtremes(bucket bson.Doc, components []string) (lo, hi bson.Value) {
	control := bucket.Lookup("control")
	if control.Type != bson.TypeDocument || len(components) > maxExtremes {
		return bson.MinKey, bson.MaxKey
	}
	lo, hi = control.Doc().Lookup("min"), control.Doc().Lookup("max")
	for _, name := range components {
		switch {
		case lo.Type == bson.TypeDocument && hi.Type == bson.TypeDocument:
			lo, hi = lo.Doc().Lookup(name), hi.Doc().Lookup(name)
		case lo.IsMissing() && hi.IsMissing(), !spans(lo, hi, bson.TypeDocument) && !spans(lo, hi, bson.TypeArray):
			return bson.Null, bson.Null
		default:
			return bson.MinKey, bson.MaxKey
		}
	}
	switch {
	case lo.IsMissing() && hi.IsMissing():
		return bson.Null, bson.Null
	case lo.IsMissing() || hi.IsMissing() || spans(lo, hi, bson.TypeArray):
		return bson.MinKey, bson.MaxKey
	}
	if lo.Type == bson.TypeDocument { // put together of several
		lo = bson.Document(bson.Empty)
	}
	if hi.Type == bson.TypeDocument {
		hi = bson.MaxKey
	}
	return lo, hi
}

// spans reports whether values of a type may lie between two.
func spans(lo, hi bson.Value, t bson.Type) bool {
	return lo.Type.Class() <= t.Class() && t.Class() <= hi.Type.Class()
}
