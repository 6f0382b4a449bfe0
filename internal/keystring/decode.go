package keystring

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

// ErrCorrupt is the error for bytes that Append has not written.
var ErrCorrupt = errors.New("keystring: corrupt key")

// Decode reads len(descending) components off the front of key, with the type
// bits that belong to them, and returns the values and what is left of key. The
// values share no bytes with the key. Strings written with a collator come back
// as the collator's keys.
func Decode(key, typeBits []byte, descending []bool) (vs []bson.Value, rest []byte, err error) {
	var d Decoder
	d.memory = make([]byte, 0, len(key)+8*len(descending))
	d.values = make([]bson.Value, 0, len(descending))
	return d.Decode(key, typeBits, descending)
}

// Decoder is Decode again and again in the same memory: values are valid until
// the next call. Not for use by several goroutines at once.
type Decoder struct {
	values []bson.Value
	memory []byte // of the values
}

// Decode is the function of that name.
func (d *Decoder) Decode(key, typeBits []byte, descending []bool) (vs []bson.Value, rest []byte, err error) {
	bits := typeReader(typeBits)
	r := reader{key: key, memory: d.memory[:0]}
	vs = d.values[:0]
	for _, desc := range descending {
		r.flip = 0
		if desc {
			r.flip = 0xff
		}
		vs = append(vs, r.value(&bits, 0))
		if r.bad {
			return nil, key, ErrCorrupt
		}
	}
	d.values, d.memory = vs, r.memory
	return vs, key[r.at:], nil
}

func (r *reader) value(bits *typeReader, depth int) bson.Value {
	switch tag := r.byte(); tag {
	case tagMinKey:
		return bson.MinKey
	case tagUndefined:
		return bson.Undefined
	case tagNull:
		return bson.Null
	case tagMaxKey:
		return bson.MaxKey
	case tagFalse:
		return bson.False
	case tagTrue:
		return bson.True
	case tagString:
		v := r.stringValue()
		if bits.next() == bitsSymbol {
			v.Type = bson.TypeSymbol
		}
		return v
	case tagObject:
		return bson.Document(r.fields(bits, depth+1))
	case tagArray:
		return r.array(bits, depth+1)
	case tagObjectID:
		return bson.Value{Type: bson.TypeObjectID, Data: r.bytes(12)}
	case tagDate:
		return r.eight(bson.TypeDate, r.uint(8)^1<<63)
	case tagTimestamp:
		return r.eight(bson.TypeTimestamp, r.uint(8))
	case tagBinary:
		n := r.length()
		subtype := r.byte()
		return bson.Binary(subtype, r.bytes(n))
	case tagRegex:
		pattern := r.name()
		return bson.Regex(pattern, r.name())
	case tagDBPointer:
		ns := string(r.bytes(r.length()))
		var id [12]byte
		copy(id[:], r.bytes(12))
		return bson.DBPointer(ns, id)
	case tagCode:
		return bson.Code(r.text())
	case tagCodeScope:
		code := r.text()
		return bson.CodeScope(code, r.fields(bits, depth+1))
	default:
		return r.numeric(tag, bits)
	}
}

// bytes is a copy of the next n bytes.
func (r *reader) bytes(n int) []byte {
	from := len(r.memory)
	r.memory = append(r.memory, r.raw(n)...)
	b := r.memory[from:len(r.memory):len(r.memory)]
	if r.flip != 0 {
		invert(b)
	}
	return b
}

// eight is a value of eight bytes.
func (r *reader) eight(t bson.Type, u uint64) bson.Value {
	from := len(r.memory)
	r.memory = binary.LittleEndian.AppendUint64(r.memory, u)
	return bson.Value{Type: t, Data: r.memory[from:len(r.memory):len(r.memory)]}
}

func (r *reader) double(f float64) bson.Value { return r.eight(bson.TypeDouble, math.Float64bits(f)) }

func (r *reader) int64(i int64) bson.Value { return r.eight(bson.TypeInt64, uint64(i)) }

func (r *reader) int32(i int32) bson.Value {
	from := len(r.memory)
	r.memory = binary.LittleEndian.AppendUint32(r.memory, uint32(i))
	return bson.Value{Type: bson.TypeInt32, Data: r.memory[from:len(r.memory):len(r.memory)]}
}

func (r *reader) text() string {
	raw := r.until()
	return string(r.appendText(make([]byte, 0, len(raw)), raw))
}

// name is a text that a document holds without its length, and so without a zero.
func (r *reader) name() string {
	s := r.text()
	if strings.IndexByte(s, 0) >= 0 {
		r.fail()
		return ""
	}
	return s
}

// stringValue is a text as a string.
func (r *reader) stringValue() bson.Value {
	raw := r.until()
	from := len(r.memory)
	r.memory = append(r.appendText(append(r.memory, 0, 0, 0, 0), raw), 0)
	data := r.memory[from:len(r.memory):len(r.memory)]
	binary.LittleEndian.PutUint32(data, uint32(len(data)-4))
	return bson.Value{Type: bson.TypeString, Data: data}
}

// appendText appends a text without its escapes.
func (r *reader) appendText(dst, raw []byte) []byte {
	for i := 0; i < len(raw); i++ {
		c := raw[i] ^ r.flip
		if c == escape {
			if i++; i == len(raw) {
				r.fail()
				break
			}
			c = (raw[i] ^ r.flip) - escapedZero
		}
		dst = append(dst, c)
	}
	return dst
}

func (r *reader) fields(bits *typeReader, depth int) bson.Doc {
	if depth > maxDepth {
		r.fail()
	}
	var b bson.Builder
	b.Reset(nil)
	for r.byte() != end {
		name := r.name()
		b.Value(name, r.value(bits, depth))
	}
	return b.Finish()
}

func (r *reader) array(bits *typeReader, depth int) bson.Value {
	if depth > maxDepth {
		r.fail()
	}
	var b bson.Builder
	b.Reset(nil)
	for i := 0; r.peek() != end; i++ {
		b.Value(bson.Index(i), r.value(bits, depth))
	}
	r.at++
	return bson.ArrayOf(b.Finish())
}

// numeric reads a number and gives it the type that its type bits say.
func (r *reader) numeric(tag byte, bits *typeReader) bson.Value {
	kind := bits.next()
	exp := 0
	if kind == bitsDecimal {
		exp = int(bits.next())<<8 | int(bits.next())
	}
	switch tag {
	case tagNaN:
		if kind == bitsDecimal {
			return bson.Decimal(bson.DecimalNaN)
		}
		return bson.Double(math.NaN())
	case tagZero:
		return r.zero(kind, exp)
	}
	n := r.number(tag)
	if r.bad {
		return bson.Value{}
	}
	v, ok := r.numberValue(&n, kind, exp)
	if !ok {
		r.fail()
	}
	return v
}

func (r *reader) zero(kind byte, exp int) bson.Value {
	switch kind {
	case bitsLong:
		return r.int64(0)
	case bitsDouble:
		return r.double(0)
	case bitsDoubleZero:
		return r.double(math.Copysign(0, -1))
	case bitsDecimal:
		return bson.Decimal(bson.NewDecimal(exp&negativeZero != 0, []byte{'0'}, exp&^negativeZero-decimalExponent))
	}
	return r.int32(0)
}

// numberValue is n in the type that its type bits say.
func (r *reader) numberValue(n *number, kind byte, exp int) (bson.Value, bool) {
	if kind == bitsDecimal {
		return n.decimal(exp)
	}
	if n.rest != nil {
		return bson.Value{}, false
	}
	if n.whole == 0 || n.fraction != 0 || kind == bitsDouble {
		f := n.float()
		if kind == bitsLong && f == math.MinInt64 {
			return r.int64(math.MinInt64), true
		}
		return r.double(f), true
	}
	i := int64(n.whole)
	if n.negative {
		i = -i
	}
	if kind == bitsLong || i != int64(int32(i)) {
		return r.int64(i), true
	}
	return r.int32(int32(i)), true
}

// float is the number without a decimal's rest.
func (n *number) float() float64 {
	f := math.Float64frombits(n.double)
	if n.whole != 0 {
		size := fractionBits(n.whole)
		f = float64(n.whole) + math.Ldexp(float64(n.fraction), -size)
	}
	if n.negative {
		f = -f
	}
	return f
}

func (n *number) decimal(exp int) (bson.Value, bool) {
	var d bson.Decimal128
	switch {
	case n.rest != nil:
		var ok bool
		if d, ok = n.restDecimal(); !ok {
			return bson.Value{}, false
		}
	case n.whole != 0 && n.fraction == 0:
		i := int64(n.whole)
		if n.negative {
			i = -i
		}
		d = bson.DecimalFromInt64(i)
	default:
		d = bson.DecimalFromDouble(n.float(), 34)
	}
	if d.IsInf() == 0 && !d.IsNaN() {
		var ok bool
		if d, ok = d.WithExponent(exp - decimalExponent); !ok {
			return bson.Value{}, false
		}
	}
	return bson.Decimal(d), true
}

// restDecimal reads a decimal that stands entirely in the key.
func (n *number) restDecimal() (bson.Decimal128, bool) {
	const maxPairs = 17
	if len(n.rest) <= 2 || len(n.rest) > 2+maxPairs {
		return bson.Decimal128{}, false
	}
	var rest [2 + maxPairs]byte
	for i, c := range n.rest {
		rest[i] = c ^ n.flip
	}
	var digits [2 * maxPairs]byte
	pairs := len(n.rest) - 2
	for i, c := range rest[2 : 2+pairs] {
		if c > 100 {
			return bson.Decimal128{}, false
		}
		digits[2*i], digits[2*i+1] = '0'+(c-1)/10, '0'+(c-1)%10
	}
	exp := int(binary.BigEndian.Uint16(rest[:])) - decimalExponent
	return bson.NewDecimal(n.negative, digits[:2*pairs], exp-(2*pairs-1)), true
}
