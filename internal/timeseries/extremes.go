package timeseries

import (
	"math"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

// extreme is the least (sign -1) or greatest (sign 1) value of a series by BSON's
// order, the first of equal ones. Documents are compared field by field, so that
// control.min and control.max bound each nested field of a measurement.
func (s *Series) extreme(sign int) bson.Value {
	if s.values == nil && s.width == 8 {
		if i, ok := s.extremeAt(sign); ok {
			return s.At(i)
		}
	}
	best := bson.Value{}
	for i := range s.n {
		best = further(best, s.At(i), sign)
	}
	return best
}

// extremeAt is the place of the extreme of doubles or of dates and other signed
// integers; ok is false for others, and where a double is not a number.
func (s *Series) extremeAt(sign int) (at int, ok bool) {
	switch s.t {
	case bson.TypeDouble:
		best := double(s.data, 0) * float64(sign)
		for i := range s.n {
			f := double(s.data, i) * float64(sign)
			if math.IsNaN(f) {
				return 0, false
			}
			if f > best {
				best, at = f, i
			}
		}
		return at, true
	case bson.TypeDate, bson.TypeInt64:
		for i := range s.n {
			if a, b := s.date(i), s.date(at); a != b && a > b == (sign > 0) {
				at = i
			}
		}
		return at, true
	}
	return 0, false
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
