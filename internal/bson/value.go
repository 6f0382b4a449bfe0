package bson

import (
	"encoding/binary"
	"math"
	"math/bits"
	"unsafe"
)

// Value is one BSON value: its type and its payload, exactly the bytes that
// follow the element's name on the wire. The zero Value is Missing. A Value
// read from a document shares the document's bytes; nobody may change them.
type Value struct {
	Type Type
	Data []byte
}

// Values with no payload.
var (
	Null      = Value{Type: TypeNull}
	Undefined = Value{Type: TypeUndefined}
	MinKey    = Value{Type: TypeMinKey}
	MaxKey    = Value{Type: TypeMaxKey}
	True      = Value{Type: TypeBool, Data: []byte{1}}
	False     = Value{Type: TypeBool, Data: []byte{0}}
)

// IsMissing reports whether v stands for an absent field.
func (v Value) IsMissing() bool { return v.Type == Missing }

// IsNullish reports whether v is absent, null or undefined: what most expression
// operators answer with null.
func (v Value) IsNullish() bool {
	return v.Type == Missing || v.Type == TypeNull || v.Type == TypeUndefined
}

// IsNumber reports whether v is an int, a long, a double or a decimal.
func (v Value) IsNumber() bool { return v.Type.IsNumber() }

// The accessors below read the payload of the type they name and must only be
// called on a Value of that type (each element of a document that passed
// Validate has a whole payload).

// Double returns the payload of a double.
func (v Value) Double() float64 { return math.Float64frombits(binary.LittleEndian.Uint64(v.Data)) }

// Int32 returns the payload of an int.
func (v Value) Int32() int32 { return int32(binary.LittleEndian.Uint32(v.Data)) }

// Int64 returns the payload of a long.
func (v Value) Int64() int64 { return int64(binary.LittleEndian.Uint64(v.Data)) }

// Date returns the milliseconds since 1970 of a date.
func (v Value) Date() int64 { return int64(binary.LittleEndian.Uint64(v.Data)) }

// Timestamp returns the payload of a timestamp: seconds in the upper, the
// increment in the lower 32 bits.
func (v Value) Timestamp() uint64 { return binary.LittleEndian.Uint64(v.Data) }

// Bool returns the payload of a bool.
func (v Value) Bool() bool { return v.Data[0] != 0 }

// Str returns the text of a string, a symbol or JavaScript code, sharing v's
// bytes.
func (v Value) Str() string {
	return unsafeString(v.Data[4 : len(v.Data)-1])
}

// Doc returns the document of an object, or the array as a document with the
// names "0", "1" …
func (v Value) Doc() Doc { return Doc(v.Data) }

// ObjectID returns the twelve bytes of an ObjectId.
func (v Value) ObjectID() [12]byte { return [12]byte(v.Data) }

// Decimal returns the payload of a decimal.
func (v Value) Decimal() Decimal128 {
	return Decimal128{L: binary.LittleEndian.Uint64(v.Data), H: binary.LittleEndian.Uint64(v.Data[8:])}
}

// Binary returns subtype and content of a binary value. The inner length that
// the old subtype 2 carries is part of the content.
func (v Value) Binary() (subtype byte, content []byte) { return v.Data[4], v.Data[5:] }

// Regex returns pattern and options of a regular expression.
func (v Value) Regex() (pattern, options string) {
	p := cstringLen(v.Data)
	rest := v.Data[p+1:]
	return unsafeString(v.Data[:p]), unsafeString(rest[:cstringLen(rest)])
}

// CodeScope returns code and scope of JavaScript with scope.
func (v Value) CodeScope() (code string, scope Doc) {
	n := int(binary.LittleEndian.Uint32(v.Data[4:]))
	return unsafeString(v.Data[8 : 8+n-1]), Doc(v.Data[8+n:])
}

// DBPointer returns namespace and ObjectId of the retired DBPointer type.
func (v Value) DBPointer() (ns string, id [12]byte) {
	n := int(binary.LittleEndian.Uint32(v.Data))
	return unsafeString(v.Data[4 : 4+n-1]), [12]byte(v.Data[4+n:])
}

// Truthy is the server's conversion to bool in expressions and in $match's
// $expr: false, numeric zero, null, undefined and missing are false.
func (v Value) Truthy() bool {
	switch v.Type {
	case Missing, TypeNull, TypeUndefined:
		return false
	case TypeBool:
		return v.Bool()
	case TypeDouble:
		return v.Double() != 0
	case TypeInt32:
		return v.Int32() != 0
	case TypeInt64:
		return v.Int64() != 0
	case TypeDecimal:
		return !v.Decimal().IsZero()
	}
	return true
}

// The constructors below allocate the payload.

// Double makes a double.
func Double(f float64) Value {
	return Value{TypeDouble, binary.LittleEndian.AppendUint64(nil, math.Float64bits(f))}
}

// Int32 makes an int.
func Int32(i int32) Value { return Value{TypeInt32, binary.LittleEndian.AppendUint32(nil, uint32(i))} }

// Int64 makes a long.
func Int64(i int64) Value { return Value{TypeInt64, binary.LittleEndian.AppendUint64(nil, uint64(i))} }

// Int makes an int where i fits one, else a long.
func Int(i int64) Value {
	if i == int64(int32(i)) {
		return Int32(int32(i))
	}
	return Int64(i)
}

// Bool makes a bool.
func Bool(b bool) Value {
	if b {
		return True
	}
	return False
}

// String makes a string.
func String(s string) Value { return Value{TypeString, appendString(make([]byte, 0, len(s)+5), s)} }

// Symbol makes a symbol.
func Symbol(s string) Value { return Value{TypeSymbol, appendString(make([]byte, 0, len(s)+5), s)} }

// Code makes JavaScript code without scope.
func Code(s string) Value { return Value{TypeCode, appendString(make([]byte, 0, len(s)+5), s)} }

// Date makes a date from milliseconds since 1970.
func Date(ms int64) Value { return Value{TypeDate, binary.LittleEndian.AppendUint64(nil, uint64(ms))} }

// Timestamp makes a timestamp: seconds in the upper, the increment in the
// lower 32 bits of t.
func Timestamp(t uint64) Value { return Value{TypeTimestamp, binary.LittleEndian.AppendUint64(nil, t)} }

// ObjectID makes an ObjectId.
func ObjectID(id [12]byte) Value { return Value{TypeObjectID, append([]byte(nil), id[:]...)} }

// Decimal makes a decimal.
func Decimal(d Decimal128) Value {
	b := binary.LittleEndian.AppendUint64(nil, d.L)
	return Value{TypeDecimal, binary.LittleEndian.AppendUint64(b, d.H)}
}

// Binary makes a binary value.
func Binary(subtype byte, content []byte) Value {
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, 5+len(content)), uint32(len(content)))
	return Value{TypeBinary, append(append(b, subtype), content...)}
}

// Regex makes a regular expression.
func Regex(pattern, options string) Value {
	b := append([]byte(pattern), 0)
	return Value{TypeRegex, append(append(b, options...), 0)}
}

// CodeScope makes JavaScript with scope.
func CodeScope(code string, scope Doc) Value {
	size := 4 + 4 + len(code) + 1 + len(scope)
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, size), uint32(size))
	return Value{TypeCodeScope, append(appendString(b, code), scope...)}
}

// DBPointer makes a value of the retired DBPointer type.
func DBPointer(ns string, id [12]byte) Value {
	return Value{TypeDBPointer, append(appendString(nil, ns), id[:]...)}
}

// Document makes an object that shares d's bytes.
func Document(d Doc) Value { return Value{TypeDocument, d} }

// ArrayOf makes an array from a document with the names "0", "1" …, sharing
// its bytes.
func ArrayOf(d Doc) Value { return Value{TypeArray, d} }

// Array makes an array of the values; a Missing among them becomes null.
func Array(vs ...Value) Value {
	var b Builder
	b.Reset(nil)
	for i, v := range vs {
		if v.IsMissing() {
			v = Null
		}
		b.Value(Index(i), v)
	}
	return ArrayOf(b.Finish())
}

func appendString(b []byte, s string) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(s)+1))
	return append(append(b, s...), 0)
}

func unsafeString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// cstringLen is the length of the zero-terminated string at the start of b,
// or len(b) where the zero is missing.
func cstringLen(b []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(b); i += 8 {
		// The lowest high bit left over is in the first zero byte.
		x := binary.LittleEndian.Uint64(b[i:])
		if zeros := (x - ones) &^ x & highs; zeros != 0 {
			return i + bits.TrailingZeros64(zeros)>>3
		}
	}
	for ; i < len(b); i++ {
		if b[i] == 0 {
			return i
		}
	}
	return len(b)
}

// payloadLen is the length of the payload of type t at the start of b, or -1
// where b is too short or t unknown.
func payloadLen(t Type, b []byte) int {
	n := int(payloads[t])
	if n < 0 {
		switch {
		case n == payloadRegex:
			return regexLen(b)
		case n == payloadNone || len(b) < 4:
			return -1
		}
		n = int(int32(binary.LittleEndian.Uint32(b))) + payloadLength - n
		if n < 5 {
			return -1
		}
	}
	if n > len(b) {
		return -1
	}
	return n
}

// AppendTyped appends the type and the bytes of a value, as an element of a document
// has them around its name.
func AppendTyped(dst []byte, v Value) []byte { return append(append(dst, byte(v.Type)), v.Data...) }

// CutTyped reads a value that AppendTyped has made, which shares the bytes of b, and
// returns what follows; ok is false if there is none. What a document or an array
// holds is not looked at.
func CutTyped(b []byte) (v Value, rest []byte, ok bool) {
	if len(b) == 0 {
		return v, nil, false
	}
	v.Type = Type(b[0])
	n := payloadLen(v.Type, b[1:])
	if n < 0 {
		return Value{}, nil, false
	}
	v.Data = b[1 : 1+n : 1+n]
	return v, b[1+n:], true
}

func regexLen(b []byte) int {
	p := cstringLen(b)
	if p == len(b) {
		return -1
	}
	o := cstringLen(b[p+1:])
	if p+1+o == len(b) {
		return -1
	}
	return p + o + 2
}
