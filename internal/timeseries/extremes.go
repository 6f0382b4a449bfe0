package timeseries

import (
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

// extreme is the least (sign -1) or greatest (sign 1) of values by BSON's
// order. Documents are compared field by field, so that control.min and
// control.max bound each nested field of a measurement.
func extreme(values []bson.Value, sign int) bson.Value {
	best := bson.Value{}
	for _, v := range values {
		best = further(best, v, sign)
	}
	return best
}

// maxNested bounds how deep the statistics of nested documents go; below it a
// document counts as a whole.
const maxNested = 16

func further(a, b bson.Value, sign int) bson.Value { return furtherAt(a, b, sign, 0) }

func furtherAt(a, b bson.Value, sign, level int) bson.Value {
	switch {
	case a.IsMissing():
		return b
	case b.IsMissing():
		return a
	case a.Type == bson.TypeDocument && b.Type == bson.TypeDocument && level < maxNested:
		return merge(a.Doc(), b.Doc(), sign, level)
	case bson.Compare(b, a)*sign > 0:
		return b
	}
	return a
}

// merge takes the extreme of each field of two documents, those of a first.
func merge(a, b bson.Doc, sign, level int) bson.Value {
	var d bson.Builder
	for name, v := range a.All() {
		d.Value(name, furtherAt(v, b.Lookup(name), sign, level+1))
	}
	for name, v := range b.All() {
		if !a.Has(name) {
			d.Value(name, v)
		}
	}
	return bson.Value{Type: bson.TypeDocument, Data: d.Finish()}
}

type field struct {
	name  string
	value bson.Value
}

func sortedFields(d bson.Doc) []field {
	var fs []field
	for name, v := range d.All() {
		fs = append(fs, field{name, v})
	}
	slices.SortStableFunc(fs, func(a, b field) int { return strings.Compare(a.name, b.name) })
	return fs
}
