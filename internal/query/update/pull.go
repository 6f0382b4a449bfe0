package update

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// pull is $pull and $pullAll: it removes the elements that it matches.
type pull struct {
	// objects is a condition on the fields of elements that are documents,
	// wrapped one on the element itself; where neither is set elements are
	// compared with values.
	objects, wrapped *match.Filter
	values           valueSet
}

func parsePull(_ string, arg bson.Value, opts *Options) (operator, error) {
	if arg.Type == bson.TypeDocument && !isCondition(arg.Doc()) {
		f, err := match.Parse(arg.Doc(), opts.matchOptions())
		return &pull{objects: f}, err
	}
	if arg.Type == bson.TypeDocument || arg.Type == bson.TypeRegex {
		f, err := match.Parse(new(bson.Builder).Value("", arg).Finish(), opts.matchOptions())
		return &pull{wrapped: f}, err
	}
	return &pull{values: newValueSet([]bson.Value{arg}, opts.Collator)}, nil
}

// conditions are the operators that make the argument of $pull a condition on
// the elements themselves.
var conditions = map[string]bool{
	"$eq": true, "$ne": true, "$gt": true, "$gte": true, "$lt": true, "$lte": true, "$in": true, "$nin": true,
	"$not": true, "$exists": true, "$type": true, "$mod": true, "$regex": true, "$options": true, "$size": true,
	"$all": true, "$elemMatch": true, "$bitsAllSet": true, "$bitsAllClear": true, "$bitsAnySet": true,
	"$bitsAnyClear": true, "$geoWithin": true, "$within": true, "$geoIntersects": true, "$near": true, "$nearSphere": true,
	"$geoNear": true, "$maxDistance": true, "$minDistance": true,
}

func isCondition(d bson.Doc) bool {
	name, _ := d.First()
	return conditions[name]
}

func parsePullAll(_ string, arg bson.Value, opts *Options) (operator, error) {
	if arg.Type != bson.TypeArray {
		return nil, mongoerr.New(mongoerr.BadValue, "$pullAll requires an array argument but was given a %s", arg.Type)
	}
	return &pull{values: newValueSet(arg.Doc().Slice(), opts.Collator)}, nil
}

func (p *pull) apply(c *Context, dst []byte, _ string, old bson.Value) ([]byte, bson.Type, error) {
	if old.Type != bson.TypeArray {
		return dst, 0, mongoerr.New(mongoerr.BadValue, "Cannot apply $pull to a non-array value")
	}
	w, removed := openArray(dst), false
	for v := range old.Doc().Values() {
		if err := c.tick(); err != nil {
			return dst, 0, err
		}
		ok, err := p.matches(v)
		if err != nil {
			return dst, 0, err
		}
		if ok {
			removed = true
			continue
		}
		w.add(v)
	}
	if !removed {
		return append(w.dst[:w.start], old.Data...), old.Type, nil
	}
	return w.finish()
}

func (p *pull) matches(v bson.Value) (bool, error) {
	switch {
	case p.objects != nil:
		if v.Type != bson.TypeDocument {
			return false, nil
		}
		return p.objects.Match(v.Doc())
	case p.wrapped != nil:
		return p.wrapped.MatchValue(v, nil)
	}
	return p.values.has(v), nil
}

// valueSet is a set of values under a collation.
type valueSet struct {
	sorted []bson.Value
	coll   bson.Collator
}

func newValueSet(vs []bson.Value, coll bson.Collator) valueSet {
	sorted := slices.Clone(vs)
	slices.SortFunc(sorted, func(a, b bson.Value) int { return bson.CompareWith(a, b, coll) })
	return valueSet{sorted, coll}
}

func (s valueSet) find(v bson.Value) (int, bool) {
	return slices.BinarySearchFunc(s.sorted, v, func(a, b bson.Value) int { return bson.CompareWith(a, b, s.coll) })
}

func (s valueSet) has(v bson.Value) bool {
	_, ok := s.find(v)
	return ok
}
