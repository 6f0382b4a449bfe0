package update

import (
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// push is $push: it inserts values into an array, then sorts and slices it.
type push struct {
	values   []bson.Value
	position int64 // from the front, negative from the end; past the end appends
	sort     *elementSort
	slice    int64 // number of elements to keep: the first or, if negative, the last
	sliced   bool
}

func parsePush(_ string, arg bson.Value, opts *Options) (operator, error) {
	p := &push{values: []bson.Value{arg}, position: math.MaxInt64}
	if arg.Type != bson.TypeDocument {
		return p, nil
	}
	each := arg.Doc().Lookup("$each")
	if each.IsMissing() {
		return p, nil
	}
	if each.Type != bson.TypeArray {
		return nil, mongoerr.New(mongoerr.BadValue, "The argument to $each in $push must be an array but it was of type: %s", each.Type)
	}
	p.values = each.Doc().Slice()
	for it := arg.Doc().Iter(); it.Next(); {
		var err error
		switch it.Key {
		case "$each":
		case "$slice":
			p.sliced = true
			p.slice, err = pushInteger("$slice", it.Value)
		case "$position":
			p.position, err = pushInteger("$position", it.Value)
		case "$sort":
			p.sort, err = parseElementSort(it.Value, opts.Collator)
		default:
			err = mongoerr.New(mongoerr.BadValue, "Unrecognized clause in $push: %s", it.Key)
		}
		if err != nil {
			return nil, err
		}
	}
	return p, nil
}

func pushInteger(clause string, v bson.Value) (int64, error) {
	i, ok := bson.ExactInt64(v)
	if !v.IsNumber() {
		return 0, mongoerr.New(mongoerr.BadValue, "The value for %s must be an integer value but was given type: %s", clause, v.Type)
	}
	if !ok {
		return 0, mongoerr.New(mongoerr.BadValue, "The value for %s must be an integer value but was given: %s", clause, v)
	}
	return i, nil
}

func (p *push) apply(c *Context, dst []byte, field string, old bson.Value) ([]byte, bson.Type, error) {
	array := bson.Empty
	switch old.Type {
	case bson.Missing:
	case bson.TypeArray:
		array = old.Doc()
	default:
		return dst, 0, mongoerr.New(mongoerr.BadValue, "The field '%s' must be an array but is of type %s in document %s", field, old.Type, c.id())
	}
	w := openArray(dst)
	if p.position == math.MaxInt64 && p.sort == nil && !p.sliced {
		w.copy(array)
		for _, v := range p.values {
			w.add(v)
		}
		return w.finish()
	}
	for _, v := range p.rearranged(array.Slice()) {
		w.add(v)
	}
	return w.finish()
}

// rearranged returns the array after $position, $sort and $slice.
func (p *push) rearranged(old []bson.Value) []bson.Value {
	at := p.position
	if at < 0 {
		at = max(0, int64(len(old))+at)
	}
	at = min(at, int64(len(old)))
	vs := make([]bson.Value, 0, len(old)+len(p.values))
	vs = append(vs, old[:at]...)
	vs = append(vs, p.values...)
	vs = append(vs, old[at:]...)
	if p.sort != nil {
		p.sort.sort(vs)
	}
	switch size := int64(len(vs)); {
	case !p.sliced || p.slice >= size || -p.slice >= size && p.slice < 0:
	case p.slice >= 0:
		vs = vs[:p.slice]
	case p.slice > -size:
		vs = vs[size+p.slice:]
	}
	return vs
}
