package bson

import (
	"encoding/binary"

	"github.com/mayflydb/mayfly/internal/mongoerr"
)

const (
	// MaxDocumentSize bounds a document that a user stores, in bytes.
	MaxDocumentSize = 16 << 20
	// MaxInternalSize bounds any document in memory: a stored one plus what a
	// command or the oplog wraps around it, in bytes.
	MaxInternalSize = MaxDocumentSize + 16<<10
	// MaxDepth bounds the levels of a stored document, its own included.
	MaxDepth = 180
	// MaxMessageDepth bounds the levels of a document in a message, its own
	// included: 200 levels of nesting below the command.
	MaxMessageDepth = 201
)

// Validate reports whether d is one whole well-formed document of at most
// maxDepth levels (d itself is the first): every length, terminator and type,
// at every level. Text is not required to be UTF-8 and duplicate names are
// allowed, as in the server. The error is InvalidBSON, or Overflow where d is
// too deep. It does not look at the size of d and does not allocate unless it
// fails.
func Validate(d Doc, maxDepth int) error {
	if len(d) < 5 || int(int32(binary.LittleEndian.Uint32(d))) != len(d) {
		return mongoerr.New(mongoerr.InvalidBSON, "invalid BSON length in object with unknown _id")
	}
	v := validator{root: d, maxDepth: maxDepth}
	return v.document(d, 1)
}

// SizeError is the error for a document of size bytes that exceeds what its
// place allows.
func SizeError(size int, d Doc) error {
	first := "EOO"
	if name, v := d.First(); !v.IsMissing() {
		first = name + ": " + v.String()
	}
	return mongoerr.New(mongoerr.BSONObjectTooLarge,
		"BSONObj size: %d (0x%X) is invalid. Size must be between 0 and %d(16MB) First element: %s",
		size, size, MaxInternalSize, first)
}

// ExceedsDepth reports whether d has more than levels levels, its own included;
// d must be well-formed.
func ExceedsDepth(d Doc, levels int) bool {
	if levels <= 0 {
		return true
	}
	for it := d.Iter(); it.Next(); {
		if it.Value.Type == TypeDocument || it.Value.Type == TypeArray {
			if ExceedsDepth(it.Value.Doc(), levels-1) {
				return true
			}
		}
	}
	return false
}

// ValidateValue reports whether v is one whole well-formed value, as Validate does
// for the field of a document; what it nests may have maxDepth levels.
func ValidateValue(v Value, maxDepth int) error {
	c := validator{root: Empty, maxDepth: maxDepth}
	switch {
	case !v.Type.Valid():
		return c.fail("Unrecognized BSON type "+Index(int(int8(v.Type))), "")
	case payloadLen(v.Type, v.Data) != len(v.Data):
		return c.fail("incorrect BSON length", "")
	}
	if fault := c.payload(v.Type, v.Data); fault != "" {
		return c.fail(fault, "")
	}
	return c.nested(v.Type, v.Data, 1)
}

type validator struct {
	root     Doc
	maxDepth int
}

// document checks d, whose length field is known to be len(d) and at least 5.
func (v *validator) document(d []byte, level int) error {
	if level > v.maxDepth {
		return mongoerr.New(mongoerr.Overflow, "BSONObj exceeds maximum nested object depth: %d", v.maxDepth-1)
	}
	if d[len(d)-1] != 0 {
		return v.fail("not terminated with EOO", "")
	}
	rest := d[4 : len(d)-1]
	for len(rest) > 0 {
		t := Type(rest[0])
		k := cstringLen(rest[1:])
		if k+1 == len(rest) {
			return v.fail("not null terminated string", "")
		}
		name, data := rest[1:1+k], rest[k+2:]
		if !t.Valid() {
			return v.fail("Unrecognized BSON type "+Index(int(int8(t))), string(name))
		}
		n := payloadLen(t, data)
		if n < 0 {
			return v.fail("incorrect BSON length", string(name))
		}
		if fault := v.payload(t, data[:n]); fault != "" {
			return v.fail(fault, string(name))
		}
		if err := v.nested(t, data[:n], level+1); err != nil {
			return err
		}
		rest = data[n:]
	}
	return nil
}

// nested checks what documents a payload holds.
func (v *validator) nested(t Type, p []byte, level int) error {
	switch t {
	case TypeDocument, TypeArray:
		return v.document(p, level)
	case TypeCodeScope:
		_, scope := (Value{t, p}).CodeScope()
		return v.document(scope, level)
	}
	return nil
}

// payload names what is wrong inside a payload whose overall length is right,
// nested documents aside.
func (v *validator) payload(t Type, p []byte) string {
	switch t {
	case TypeBool:
		if p[0] > 1 {
			return "BSON bool is neither false nor true"
		}
	case TypeString, TypeCode, TypeSymbol:
		if p[len(p)-1] != 0 {
			return "not null terminated string"
		}
	case TypeDBPointer:
		if len(p) < 4+1+12 {
			return "invalid BSON string length"
		}
		if p[len(p)-13] != 0 {
			return "not null terminated string"
		}
	case TypeBinary:
		// The retired subtype 2 carries its length once more.
		if p[4] == 2 && (len(p) < 9 || int(int32(binary.LittleEndian.Uint32(p[5:]))) != len(p)-9) {
			return "incorrect BSON length"
		}
	case TypeCodeScope:
		return codeScopeFault(p)
	}
	return ""
}

func codeScopeFault(p []byte) string {
	const smallest = 4 + 4 + 1 + 5
	if len(p) < smallest {
		return "incorrect BSON length"
	}
	code := int(int32(binary.LittleEndian.Uint32(p[4:])))
	if code < 1 || code > len(p)-8-5 {
		return "invalid BSON string length"
	}
	if p[8+code-1] != 0 {
		return "not null terminated string"
	}
	if scope := p[8+code:]; int(int32(binary.LittleEndian.Uint32(scope))) != len(scope) {
		return "incorrect BSON length"
	}
	return ""
}

// fail makes the server's error: what is wrong, in which element, in the
// document with which _id as far as one can be read.
func (v *validator) fail(fault, name string) error {
	if name != "" {
		fault += " in element with field name '" + name + "'"
	}
	where := "unknown _id"
	if id := v.root.Lookup("_id"); id.Type == TypeObjectID || id.IsNumber() {
		where = "_id: " + id.String()
	}
	return mongoerr.New(mongoerr.InvalidBSON, "%s in object with %s", fault, where)
}
