package update

import (
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// elementSort is the $sort of a $push: by whole elements, or by fields of
// elements that are documents.
type elementSort struct {
	keys       []sortKey // empty to compare whole elements
	descending bool
	coll       bson.Collator
}

type sortKey struct {
	parts      []string
	descending bool
}

func parseElementSort(v bson.Value, coll bson.Collator) (*elementSort, error) {
	s := &elementSort{coll: coll}
	if v.IsNumber() {
		direction, ok := direction(v)
		s.descending = direction
		if !ok {
			return nil, mongoerr.New(mongoerr.BadValue, "The $sort element value must be either 1 or -1")
		}
		return s, nil
	}
	if v.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.BadValue,
			"The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} to sort embedded fields")
	}
	if v.Doc().IsEmpty() {
		return nil, mongoerr.New(mongoerr.BadValue, "The $sort pattern is empty when it should be a set of fields.")
	}
	for it := v.Doc().Iter(); it.Next(); {
		down, ok := direction(it.Value)
		if !ok {
			return nil, mongoerr.New(mongoerr.BadValue, "The $sort element value must be either 1 or -1")
		}
		if it.Key == "" {
			return nil, mongoerr.New(mongoerr.BadValue, "The $sort field cannot be empty")
		}
		parts := strings.Split(it.Key, ".")
		if slices.Contains(parts, "") {
			return nil, mongoerr.New(mongoerr.BadValue, "The $sort field is a dotted field but has an empty part: %s", it.Key)
		}
		s.keys = append(s.keys, sortKey{parts, down})
	}
	return s, nil
}

// direction reads 1 and -1 of any numeric type.
func direction(v bson.Value) (descending, ok bool) {
	i, exact := bson.ExactInt64(v)
	return i == -1, exact && v.IsNumber() && (i == 1 || i == -1)
}

func (s *elementSort) sort(vs []bson.Value) {
	slices.SortStableFunc(vs, func(a, b bson.Value) int {
		if len(s.keys) == 0 {
			return sign(bson.CompareWith(a, b, s.coll), s.descending)
		}
		for _, k := range s.keys {
			if c := bson.CompareWith(k.of(a), k.of(b), s.coll); c != 0 {
				return sign(c, k.descending)
			}
		}
		return 0
	})
}

func sign(c int, descending bool) int {
	if descending {
		return -c
	}
	return c
}

// of returns the value at the key's path, or null. An element that is not a document
// has no fields.
func (k sortKey) of(v bson.Value) bson.Value {
	if v.Type != bson.TypeDocument {
		return bson.Null
	}
	for _, part := range k.parts {
		if v.Type != bson.TypeDocument && v.Type != bson.TypeArray {
			return bson.Null
		}
		v = v.Doc().Lookup(part)
	}
	if v.IsMissing() {
		return bson.Null
	}
	return v
}
