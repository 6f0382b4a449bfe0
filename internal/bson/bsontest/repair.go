package bsontest

import (
	"bytes"
	"encoding/binary"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Repair reads data as a document whose lengths and types may be wrong, and
// makes the well-formed document that comes closest. What is well-formed comes
// back as it is. Fuzzers take their documents through it, as hardly any change
// of a byte leaves a document whole.
func Repair(data []byte) bson.Doc {
	if bson.Validate(data, bson.MaxDepth) == nil {
		return data
	}
	r := repairer{data}
	return r.document(0)
}

// repairer takes values off the front of its bytes.
type repairer struct{ data []byte }

const repairDepth = 60

// repairTypes are the types that a byte stands for that is none.
var repairTypes = []bson.Type{
	bson.TypeDouble, bson.TypeString, bson.TypeInt32, bson.TypeInt64, bson.TypeNull, bson.TypeBool, bson.TypeDecimal, bson.TypeDate,
	bson.TypeRegex, bson.TypeObjectID, bson.TypeBinary, bson.TypeUndefined, bson.TypeTimestamp, bson.TypeMinKey, bson.TypeMaxKey,
	bson.TypeSymbol, bson.TypeDocument, bson.TypeArray,
}

// take returns the next n bytes, with zeros for those that are missing.
func (r *repairer) take(n int) []byte {
	out := make([]byte, n)
	r.data = r.data[copy(out, r.data):]
	return out
}

func (r *repairer) cstring() string {
	name, rest, _ := bytes.Cut(r.data, []byte{0})
	r.data = rest
	return strings.ToValidUTF8(string(name), "?")
}

// counted takes bytes behind their length, no more than there are.
func (r *repairer) counted() []byte {
	n := int(binary.LittleEndian.Uint32(r.take(4)))
	return r.take(min(n, len(r.data)))
}

func (r *repairer) document(depth int) bson.Doc {
	var b bson.Builder
	b.Reset(nil)
	r.take(4)
	for len(r.data) > 0 {
		t := bson.Type(r.take(1)[0])
		if t == 0 {
			break
		}
		name := r.cstring()
		b.Value(name, r.value(t, depth+1))
	}
	return b.Finish()
}

func (r *repairer) value(t bson.Type, depth int) bson.Value {
	switch t {
	case bson.TypeDouble, bson.TypeInt64, bson.TypeDate, bson.TypeTimestamp:
		return bson.Value{Type: t, Data: r.take(8)}
	case bson.TypeInt32:
		return bson.Value{Type: t, Data: r.take(4)}
	case bson.TypeDecimal:
		return bson.Value{Type: t, Data: r.take(16)}
	case bson.TypeObjectID:
		return bson.Value{Type: t, Data: r.take(12)}
	case bson.TypeBool:
		return bson.Bool(r.take(1)[0]&1 == 1)
	case bson.TypeNull, bson.TypeUndefined, bson.TypeMinKey, bson.TypeMaxKey:
		return bson.Value{Type: t}
	case bson.TypeString, bson.TypeSymbol:
		text := strings.ToValidUTF8(strings.TrimSuffix(string(r.counted()), "\x00"), "?")
		if t == bson.TypeSymbol {
			return bson.Symbol(text)
		}
		return bson.String(text)
	case bson.TypeRegex:
		return bson.Regex(r.cstring(), r.cstring())
	case bson.TypeBinary:
		content := r.counted()
		return bson.Binary(r.take(1)[0]&0x80, content)
	case bson.TypeDocument, bson.TypeArray:
		if depth > repairDepth {
			return bson.Null
		}
		d := r.document(depth)
		if t == bson.TypeDocument {
			return bson.Document(d)
		}
		return bson.Array(d.Slice()...)
	}
	return r.value(repairTypes[int(t)%len(repairTypes)], depth)
}
