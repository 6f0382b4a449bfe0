package keystring

import "github.com/mayflydb/mayfly/internal/bson"

// The tags; see the table in doc.go. Neither 00 nor ff is one, so that a tag,
// inverted or not, is never the end of an array or of an object.
const (
	tagMinKey       = 0x08
	tagUndefined    = 0x10
	tagNull         = 0x18
	tagNaN          = 0x20
	tagNegLarge     = 0x21
	tagNegWhole8    = 0x22 // .. 0x29 for one byte
	tagNegWhole1    = 0x29
	tagNegSmall     = 0x2a
	tagZero         = 0x2b
	tagPosSmall     = 0x2c
	tagPosWhole1    = 0x2d // .. 0x34 for eight bytes
	tagPosWhole8    = 0x34
	tagPosLarge     = 0x35
	tagString       = 0x40
	tagObject       = 0x48
	tagArray        = 0x50
	tagBinary       = 0x58
	tagObjectID     = 0x60
	tagFalse        = 0x68
	tagTrue         = 0x69
	tagDate         = 0x70
	tagTimestamp    = 0x78
	tagRegex        = 0x80
	tagDBPointer    = 0x88
	tagCode         = 0x90
	tagCodeScope    = 0x98
	tagMaxKey       = 0xf8
	end             = 0x00 // of text, of an object, of an array
	escape          = 0x01 // in text, in front of escapedZero or escapedOne
	escapedZero     = 0x01
	escapedOne      = 0x02
	longLength      = 0xf0 // plus the number of bytes of a length, less one
	decimalExponent = 8000 // added to the exponent of a decimal's first digit
)

// classTags are the first and the last tag of the class that t belongs to.
func classTags(t bson.Type) (first, last byte) {
	switch t {
	case bson.TypeMinKey:
		first = tagMinKey
	case bson.Missing, bson.TypeUndefined:
		first = tagUndefined
	case bson.TypeNull:
		first = tagNull
	case bson.TypeDouble, bson.TypeInt32, bson.TypeInt64, bson.TypeDecimal:
		return tagNaN, tagPosLarge
	case bson.TypeString, bson.TypeSymbol:
		first = tagString
	case bson.TypeDocument:
		first = tagObject
	case bson.TypeArray:
		first = tagArray
	case bson.TypeBinary:
		first = tagBinary
	case bson.TypeObjectID:
		first = tagObjectID
	case bson.TypeBool:
		return tagFalse, tagTrue
	case bson.TypeDate:
		first = tagDate
	case bson.TypeTimestamp:
		first = tagTimestamp
	case bson.TypeRegex:
		first = tagRegex
	case bson.TypeDBPointer:
		first = tagDBPointer
	case bson.TypeCode:
		first = tagCode
	case bson.TypeCodeScope:
		first = tagCodeScope
	default:
		first = tagMaxKey
	}
	return first, first
}
