package bson

// Type is the one-byte tag in front of every BSON element.
type Type byte

// The element types of the BSON specification, with the numbers they have on
// the wire. Missing is ours: it marks the absence of a value and never occurs
// inside a document.
const (
	Missing       Type = 0x00
	TypeDouble    Type = 0x01
	TypeString    Type = 0x02
	TypeDocument  Type = 0x03
	TypeArray     Type = 0x04
	TypeBinary    Type = 0x05
	TypeUndefined Type = 0x06
	TypeObjectID  Type = 0x07
	TypeBool      Type = 0x08
	TypeDate      Type = 0x09
	TypeNull      Type = 0x0A
	TypeRegex     Type = 0x0B
	TypeDBPointer Type = 0x0C
	TypeCode      Type = 0x0D
	TypeSymbol    Type = 0x0E
	TypeCodeScope Type = 0x0F
	TypeInt32     Type = 0x10
	TypeTimestamp Type = 0x11
	TypeInt64     Type = 0x12
	TypeDecimal   Type = 0x13
	TypeMinKey    Type = 0xFF
	TypeMaxKey    Type = 0x7F
)

// typeInfo is what the server says about one type.
type typeInfo struct {
	alias string // the name $type and error messages use
	class int8   // the canonical type: values of one class compare with each other
}

var types = [256]typeInfo{
	Missing:       {"missing", 0},
	TypeDouble:    {"double", 10},
	TypeString:    {"string", 15},
	TypeDocument:  {"object", 20},
	TypeArray:     {"array", 25},
	TypeBinary:    {"binData", 30},
	TypeUndefined: {"undefined", 0},
	TypeObjectID:  {"objectId", 35},
	TypeBool:      {"bool", 40},
	TypeDate:      {"date", 45},
	TypeNull:      {"null", 5},
	TypeRegex:     {"regex", 50},
	TypeDBPointer: {"dbPointer", 55},
	TypeCode:      {"javascript", 60},
	TypeSymbol:    {"symbol", 15},
	TypeCodeScope: {"javascriptWithScope", 65},
	TypeInt32:     {"int", 10},
	TypeTimestamp: {"timestamp", 47},
	TypeInt64:     {"long", 10},
	TypeDecimal:   {"decimal", 10},
	TypeMinKey:    {"minKey", -1},
	TypeMaxKey:    {"maxKey", 127},
}

// What payloads says about types whose payload has no fixed size.
const (
	payloadLength = -1 // it starts with its length; less what that leaves out
	payloadRegex  = -100
	payloadNone   = -101
)

// payloads is the size of the payload of every type, or one of the constants
// above. It is apart from types so that iterating stays within few cache lines.
var payloads = func() (p [256]int8) {
	for t := range p {
		p[t] = payloadNone
	}
	for t, size := range map[Type]int8{
		TypeDouble: 8, TypeUndefined: 0, TypeObjectID: 12, TypeBool: 1, TypeDate: 8, TypeNull: 0, TypeInt32: 4,
		TypeTimestamp: 8, TypeInt64: 8, TypeDecimal: 16, TypeMinKey: 0, TypeMaxKey: 0,
		TypeDocument: payloadLength, TypeArray: payloadLength, TypeCodeScope: payloadLength,
		TypeString: payloadLength - 4, TypeCode: payloadLength - 4, TypeSymbol: payloadLength - 4,
		TypeBinary: payloadLength - 5, TypeDBPointer: payloadLength - 16, TypeRegex: payloadRegex,
	} {
		p[t] = size
	}
	return
}()

// String returns the alias that $type takes and that the server's messages
// print: "double", "objectId", "javascript", "missing" …
func (t Type) String() string {
	if s := types[t].alias; s != "" {
		return s
	}
	return "unknown"
}

// Valid reports whether t may stand in front of an element of a document.
func (t Type) Valid() bool { return t != Missing && types[t].alias != "" }

// Class is the server's canonical type: values of different classes are
// ordered by class alone, values of one class by their content (numbers of all
// four types share class 10, strings and symbols share 15).
func (t Type) Class() int { return int(types[t].class) }

// IsNumber reports whether t is one of the four numeric types.
func (t Type) IsNumber() bool { return types[t].class == 10 }

// TypeByAlias finds the type that an alias of $type names. "number" names four
// types and is not among them.
func TypeByAlias(alias string) (Type, bool) {
	for t := range types {
		if alias != "" && types[t].alias == alias && Type(t) != Missing {
			return Type(t), true
		}
	}
	return Missing, false
}
