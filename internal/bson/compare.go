package bson

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"strings"
)

// Collator orders strings for a collation. A nil Collator is the simple
// collation: byte order.
type Collator interface {
	// Compare orders two strings.
	Compare(a, b string) int
	// AppendKey appends bytes whose order is the order of Compare.
	AppendKey(dst []byte, s string) []byte
}

// Compare orders two values as the server's indexes and sorts do: by class,
// then by content; Missing and undefined sort before null.
// (Manual, "Comparison/Sort Order".)
func Compare(a, b Value) int { return CompareWith(a, b, nil) }

// CompareWith is Compare with strings (not field names) ordered by coll.
func CompareWith(a, b Value, coll Collator) int {
	if c := cmp.Compare(a.Type.Class(), b.Type.Class()); c != 0 {
		return c
	}
	switch a.Type {
	case TypeDouble, TypeInt32, TypeInt64, TypeDecimal:
		return CompareNumbers(a, b)
	case TypeString, TypeSymbol:
		if coll != nil {
			return coll.Compare(a.Str(), b.Str())
		}
		return strings.Compare(a.Str(), b.Str())
	case TypeDocument:
		return CompareDocs(a.Doc(), b.Doc(), coll)
	case TypeArray:
		return compareArrays(a.Doc(), b.Doc(), coll)
	case TypeBinary:
		return compareBinary(a, b)
	case TypeObjectID, TypeBool:
		return bytes.Compare(a.Data, b.Data)
	case TypeDate:
		return cmp.Compare(a.Date(), b.Date())
	case TypeTimestamp:
		return cmp.Compare(a.Timestamp(), b.Timestamp())
	case TypeRegex:
		return bytes.Compare(a.Data, b.Data)
	case TypeDBPointer:
		an, ai := a.DBPointer()
		bn, bi := b.DBPointer()
		return cmp.Or(cmp.Compare(len(an), len(bn)), strings.Compare(an, bn), bytes.Compare(ai[:], bi[:]))
	case TypeCode:
		return strings.Compare(a.Str(), b.Str())
	case TypeCodeScope:
		ac, as := a.CodeScope()
		bc, bs := b.CodeScope()
		return cmp.Or(strings.Compare(ac, bc), CompareDocs(as, bs, nil))
	}
	return 0
}

// Equal reports whether two values compare equal: 1 and 1.0 do.
func Equal(a, b Value) bool { return Compare(a, b) == 0 }

// CompareDocs orders two documents field by field: class of the value, then
// name, then value; a document that is a prefix of another comes first.
func CompareDocs(a, b Doc, coll Collator) int {
	ai, bi := a.Iter(), b.Iter()
	for {
		an, bn := ai.Next(), bi.Next()
		if !an || !bn {
			return cmp.Compare(b2i(an), b2i(bn))
		}
		if c := cmp.Compare(ai.Value.Type.Class(), bi.Value.Type.Class()); c != 0 {
			return c
		}
		if c := strings.Compare(ai.Key, bi.Key); c != 0 {
			return c
		}
		if c := CompareWith(ai.Value, bi.Value, coll); c != 0 {
			return c
		}
	}
}

func compareArrays(a, b Doc, coll Collator) int {
	ai, bi := a.Iter(), b.Iter()
	for {
		an, bn := ai.Next(), bi.Next()
		if !an || !bn {
			return cmp.Compare(b2i(an), b2i(bn))
		}
		if c := CompareWith(ai.Value, bi.Value, coll); c != 0 {
			return c
		}
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func compareBinary(a, b Value) int {
	// Length first, then subtype, then content.
	al, bl := binary.LittleEndian.Uint32(a.Data), binary.LittleEndian.Uint32(b.Data)
	return cmp.Or(cmp.Compare(al, bl), bytes.Compare(a.Data[4:], b.Data[4:]))
}

// CompareNumbers orders two numbers of any numeric types by their exact
// mathematical value; NaN is below every number and equal to itself.
func CompareNumbers(a, b Value) int {
	switch {
	case a.Type == TypeDecimal && b.Type == TypeDouble:
		return compareDecimalDouble(a.Decimal(), b.Double())
	case a.Type == TypeDouble && b.Type == TypeDecimal:
		return -compareDecimalDouble(b.Decimal(), a.Double())
	case a.Type == TypeDecimal || b.Type == TypeDecimal:
		return CompareDecimals(ToDecimal(a), ToDecimal(b))
	}
	if a.Type == TypeDouble {
		if b.Type == TypeDouble {
			return cmp.Compare(a.Double(), b.Double())
		}
		return compareDoubleInt(a.Double(), integer(b))
	}
	if b.Type == TypeDouble {
		return -compareDoubleInt(b.Double(), integer(a))
	}
	return cmp.Compare(integer(a), integer(b))
}

// integer is the value of an int or a long.
func integer(v Value) int64 {
	if v.Type == TypeInt32 {
		return int64(v.Int32())
	}
	return v.Int64()
}

func compareDoubleInt(f float64, i int64) int {
	if math.IsNaN(f) || f < -1<<63 {
		return -1
	}
	if f >= 1<<63 {
		return 1
	}
	t := math.Trunc(f)
	return cmp.Or(cmp.Compare(int64(t), i), cmp.Compare(f, t))
}
