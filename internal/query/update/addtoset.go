package update

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// addToSet is $addToSet: it appends those values that the array does not have.
type addToSet struct {
	values []bson.Value // free of duplicates, in the order they were given
	set    valueSet
}

func parseAddToSet(_ string, arg bson.Value, opts *Options) (operator, error) {
	values := []bson.Value{arg}
	if arg.Type == bson.TypeDocument {
		name, each := arg.Doc().First()
		if name == "$each" {
			if each.Type != bson.TypeArray {
				return nil, mongoerr.New(mongoerr.TypeMismatch,
					"The argument to $each in $addToSet must be an array but it was of type %s", each.Type)
			}
			if arg.Doc().Len() > 1 {
				return nil, mongoerr.New(mongoerr.BadValue, "Found unexpected fields after $each in $addToSet: %s", arg)
			}
			values = each.Doc().Slice()
		}
	}
	a := &addToSet{set: newValueSet(values, opts.Collator)}
	seen := make([]bool, len(values))
	for _, v := range values {
		if i, _ := a.set.find(v); !seen[i] {
			seen[i] = true
			a.values = append(a.values, v)
		}
	}
	return a, nil
}

func (a *addToSet) apply(_ *Context, dst []byte, field string, old bson.Value) ([]byte, bson.Type, error) {
	w := openArray(dst)
	var present []bool
	switch old.Type {
	case bson.Missing:
	case bson.TypeArray:
		present = make([]bool, len(a.set.sorted))
		for v := range old.Doc().Values() {
			if i, ok := a.set.find(v); ok {
				present[i] = true
			}
		}
		w.copy(old.Doc())
	default:
		return dst, 0, mongoerr.New(mongoerr.BadValue,
			"Cannot apply $addToSet to non-array field. Field named '%s' has non-array type %s", field, old.Type)
	}
	for _, v := range a.values {
		if i, _ := a.set.find(v); present == nil || !present[i] {
			w.add(v)
		}
	}
	return w.finish()
}
