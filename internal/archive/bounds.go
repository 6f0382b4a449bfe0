package archive

import (
	"math"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Bounds are what a query says of dates, and of values: objects, and row groups, in which no document
// can have them are passed over. Of a query that says nothing, all objects are read.
type Bounds struct {
	at map[string]span
	// equal are the values of which the one at a path has to be equal to some.
	equal map[string][]bson.Value
}

// span is from the first to the last instant, in milliseconds since 1970.
type span struct{ from, to int64 }

// BoundsOf returns the bounds of a query's fields, and of those in $and. Only dates bound: a
// comparison with a Date matches nothing but Dates. Equal values count where exact, as without a
// collation, by which other strings are equal.
func BoundsOf(query bson.Doc, exact bool) Bounds {
	b := Bounds{at: map[string]span{}, equal: map[string][]bson.Value{}}
	b.add(query, 0)
	if !exact {
		b.equal = nil
	}
	return b
}

// maxBoundDepth is how deep $and is followed.
const maxBoundDepth = 8

func (b *Bounds) add(query bson.Doc, depth int) {
	if depth > maxBoundDepth {
		return
	}
	for name, v := range query.All() {
		switch {
		case name == "$and" && v.Type == bson.TypeArray:
			for one := range v.Doc().Values() {
				if one.Type == bson.TypeDocument {
					b.add(one.Doc(), depth+1)
				}
			}
		case strings.HasPrefix(name, "$"):
		case v.Type == bson.TypeDocument:
			for op, v := range v.Doc().All() {
				b.compare(name, op, v)
			}
		default:
			b.compare(name, "$eq", v)
		}
	}
}

// compare adds a comparison.
func (b *Bounds) compare(name, op string, v bson.Value) {
	switch op {
	case "$eq":
		if findable(v) {
			b.equal[name] = []bson.Value{v}
		}
	case "$in":
		if v.Type == bson.TypeArray && b.equal[name] == nil {
			if all := v.Doc().Slice(); len(all) <= maxFound && !slices.ContainsFunc(all, func(v bson.Value) bool { return !findable(v) }) {
				b.equal[name] = all
			}
		}
	}
	if v.Type != bson.TypeDate {
		return
	}
	switch op {
	case "$eq":
		b.narrow(name, v.Date(), v.Date())
	case "$gt", "$gte":
		b.narrow(name, v.Date(), math.MaxInt64)
	case "$lt", "$lte":
		b.narrow(name, math.MinInt64, v.Date())
	}
}

// maxFound bounds the values that are looked for in filters.
const maxFound = 1000

func (b *Bounds) narrow(path string, from, to int64) {
	s, ok := b.at[path]
	if !ok {
		s = span{math.MinInt64, math.MaxInt64}
	}
	b.at[path] = span{max(s.from, from), min(s.to, to)}
}

// MayHave reports whether the object of a row may have a document that matches. Where an array has
// dates, one may match one bound and another the other.
func (b Bounds) MayHave(r *Row) bool {
	s, ok := b.at[r.Key]
	return !ok || r.Arrays || s.from <= r.Until && s.to >= r.From
}
