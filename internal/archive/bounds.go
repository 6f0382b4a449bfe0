package archive

import (
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Bounds are what a query says of dates: objects in which no document can have them are passed
// over. Of a query that says nothing, all objects are read.
type Bounds struct {
	at map[string]span
}

// span is from the first to the last instant, in milliseconds since 1970.
type span struct{ from, to int64 }

// BoundsOf returns the bounds of a query's fields, and of those in $and. Only dates bound: a
// comparison with a Date matches nothing but Dates.
func BoundsOf(query bson.Doc) Bounds {
	b := Bounds{at: map[string]span{}}
	b.add(query, 0)
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
		case v.Type == bson.TypeDate:
			b.narrow(name, v.Date(), v.Date())
		case v.Type == bson.TypeDocument:
			for op, v := range v.Doc().All() {
				if v.Type != bson.TypeDate {
					continue
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
		}
	}
}

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
