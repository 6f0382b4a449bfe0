package nosql

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

func text(s string) bson.Value { return bson.String(s) }

// number is f as a whole number if it is one that a double holds exactly,
// so that it prints as JSON has it.
func number(f float64) bson.Value {
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 && !(f == 0 && math.Signbit(f)) {
		return bson.Int(int64(f))
	}
	return bson.Double(f)
}

func isText(v bson.Value) bool { return v.Type == bson.TypeString }

func isTrue(v bson.Value) bool { return v.Type == bson.TypeBool && v.Bool() }

// finite returns undefined for values that JSON has no number for.
func finite(f float64) bson.Value {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return bson.Value{}
	}
	return number(f)
}

func itoa(n int) string { return strconv.Itoa(n) }

// typeRank orders types for ORDER BY, MIN and MAX: undefined, null, false and
// true, numbers, strings, arrays, objects. (Cosmos DB: "ORDER BY clause".)
func typeRank(v bson.Value) int {
	switch {
	case v.IsMissing():
		return 0
	case v.Type == bson.TypeNull || v.Type == bson.TypeUndefined:
		return 1
	case v.Type == bson.TypeBool:
		return 2
	case v.IsNumber():
		return 3
	case isText(v):
		return 4
	case v.Type == bson.TypeArray:
		return 5
	}
	return 6
}

// order compares two values of any types.
func order(a, b bson.Value) int {
	if d := typeRank(a) - typeRank(b); d != 0 {
		return d
	}
	if a.IsMissing() {
		return 0
	}
	return bson.Compare(a, b)
}

// equal reports whether two values of one type are equal: objects whatever the
// order of their fields.
func equal(a, b bson.Value) bool {
	switch {
	case typeRank(a) != typeRank(b):
		return false
	case a.IsMissing():
		return true
	case a.Type == bson.TypeArray:
		x, y := a.Doc().Iter(), b.Doc().Iter()
		for x.Next() {
			if !y.Next() || !equal(x.Value, y.Value) {
				return false
			}
		}
		return !y.Next()
	case a.Type == bson.TypeDocument && b.Type == bson.TypeDocument:
		n := a.Doc().Len()
		if n != b.Doc().Len() {
			return false
		}
		lookup := lookupIn(b.Doc(), n)
		for name, v := range a.Doc().All() {
			if w := lookup(name); w.IsMissing() || !equal(v, w) {
				return false
			}
		}
		return true
	}
	return bson.Equal(a, b)
}

// lookupIn returns d's Lookup, for n of its fields.
func lookupIn(d bson.Doc, n int) func(name string) bson.Value {
	if n <= maxCompare {
		return d.Lookup
	}
	fields := make(map[string]bson.Value, n)
	for name, v := range d.All() {
		if _, twice := fields[name]; !twice {
			fields[name] = v
		}
	}
	return func(name string) bson.Value { return fields[name] }
}

// identity is a string that equal values share and no others, for GROUP BY, DISTINCT and
// sets.
func identity(dst []byte, v bson.Value) []byte {
	dst = append(dst, byte(typeRank(v)))
	switch {
	case v.IsMissing():
		return dst
	case v.IsNumber():
		if n, whole := bson.ExactInt64(v); whole {
			return strconv.AppendInt(append(dst, 'i'), n, 10)
		}
		return strconv.AppendFloat(append(dst, 'n'), bson.ToDouble(v), 'g', -1, 64)
	case v.Type == bson.TypeArray:
		dst = strconv.AppendInt(dst, int64(v.Doc().Len()), 10)
		for e := range v.Doc().Values() {
			dst = identity(append(dst, ','), e)
		}
		return dst
	case v.Type == bson.TypeDocument:
		type field struct {
			name  string
			value bson.Value
		}
		var fields []field
		for name, value := range v.Doc().All() {
			fields = append(fields, field{name, value})
		}
		slices.SortFunc(fields, func(a, b field) int { return strings.Compare(a.name, b.name) })
		dst = strconv.AppendInt(dst, int64(len(fields)), 10)
		for _, f := range fields {
			dst = append(strconv.AppendQuote(append(dst, ','), f.name), ':')
			dst = identity(dst, f.value)
		}
		return dst
	case isText(v):
		return strconv.AppendQuote(dst, v.Str())
	}
	return append(dst, v.Data...)
}
