package update

import "github.com/mayflydb/mayfly/internal/bson"

// extreme is $min (sign -1) and $max (sign 1): the value replaces the old one if it is
// less (greater) in the order of all values.
type extreme struct {
	value bson.Value
	sign  int
	coll  bson.Collator
}

func parseMin(_ string, arg bson.Value, opts *Options) (operator, error) {
	return &extreme{arg, -1, opts.Collator}, nil
}

func parseMax(_ string, arg bson.Value, opts *Options) (operator, error) {
	return &extreme{arg, 1, opts.Collator}, nil
}

func (e *extreme) apply(_ *Context, dst []byte, _ string, old bson.Value) ([]byte, bson.Type, error) {
	if !old.IsMissing() && e.sign*bson.CompareWith(e.value, old, e.coll) <= 0 {
		return append(dst, old.Data...), old.Type, nil
	}
	return append(dst, e.value.Data...), e.value.Type, nil
}
