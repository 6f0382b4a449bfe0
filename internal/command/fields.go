package command

import (
	"fmt"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// maxFields bounds how many fields one Fields declares: the parser notes the
// ones it has seen in one word.
const maxFields = 64

// Fields declares the fields of a command or of a document inside one, in the
// way of the server's IDL: unknown fields, wrong types, missing and repeated
// fields are errors with the IDL's codes; null and undefined count as absent.
type Fields struct {
	name    string
	root    place // where the parser starts
	value   kind  // of the command's own value
	fields  []Field
	index   map[string]int
	valueAt int // which of fields is the command's own value, or −1
	lenient bool
}

// NewFields declares the fields of the command or document called name, each a Field of
// its own. For a command, at most one of the fields may be the command's own value (see
// Collection, CollectionOrUUID, Value); without one, the value is ignored.
func NewFields(name string, fields ...*Field) *Fields {
	f := &Fields{name: name, root: place{name: name}, value: kindIgnored, valueAt: -1, index: make(map[string]int, len(fields))}
	for _, declared := range fields {
		if declared.inside != nil {
			panic(fmt.Sprintf("command: field %q of %q belongs to another declaration", declared.name, name))
		}
		declared.inside = &f.root
		d := *declared
		if d.isValue {
			f.value = d.kind
			if d.kind == kindNamespace || d.kind == kindNamespaceOrUUID {
				continue
			}
			d.name, f.valueAt = name, len(f.fields)
		}
		if _, dup := f.index[d.name]; dup {
			panic(fmt.Sprintf("command: field %q of %q is declared twice", d.name, name))
		}
		f.index[d.name] = len(f.fields)
		d.inside = &place{&f.root, d.name}
		f.fields = append(f.fields, d)
	}
	if len(f.fields) > maxFields {
		panic(fmt.Sprintf("command: %q declares more than %d fields", name, maxFields))
	}
	return f
}

// Lenient lets unknown fields be ignored, as the server's commands without an IDL
// declaration do. It returns f.
func (f *Fields) Lenient() *Fields { f.lenient = true; return f }

// has reports whether a field of that name is declared.
func (f *Fields) has(name string) bool { _, declared := f.index[name]; return declared }

// kind determines how the value of a field is checked and read.
type kind uint8

const (
	kindTyped     kind = iota // one of types
	kindAny                   // any value, also null
	kindIgnored               // any value, not kept
	kindInt32                 // a number, truncated and clamped to 32 bits
	kindInt64                 // a number, truncated and clamped to 64 bits
	kindExact                 // a number without fraction, in 64 bits
	kindBool                  // a bool or a number
	kindEnum                  // one of the strings in enum
	kindStruct                // a document with fields of its own
	kindArray                 // an array whose elements are elem
	kindUUID                  // binary of subtype 4
	kindDigest                // binary of subtype 0 and 32 bytes
	kindNamespace             // the name of a collection
	kindNamespaceOrUUID
)

// Field declares one field; its methods change and return it.
type Field struct {
	name      string
	kind      kind
	types     []bson.Type
	required  bool
	keepNull  bool
	notNull   bool
	optional  bool // of OptionalBool
	isValue   bool
	unstable  bool
	hasMin    bool
	hasMax    bool
	above     bool // the lower bound is exclusive
	allowOne  bool // a single element is allowed in place of the array
	min, max  int64
	enum      []string
	sub       *Fields
	elem      *Field
	rangeCode int32
	inside    *place // of its declaration; nil for an element
	typeErr   error  // for values of other types, also null; nil for the default
}

var (
	numberTypes   = []bson.Type{bson.TypeInt64, bson.TypeInt32, bson.TypeDecimal, bson.TypeDouble}
	safeBoolTypes = []bson.Type{bson.TypeBool, bson.TypeInt64, bson.TypeInt32, bson.TypeDecimal, bson.TypeDouble}
)

// Any declares a field of any type; null is kept as a value.
func Any(name string) *Field { return &Field{name: name, kind: kindAny, keepNull: true} }

// Ignored declares a field that is accepted and never read.
func Ignored(name string) *Field { return &Field{name: name, kind: kindIgnored} }

// OneOf declares a field of one of the types.
func OneOf(name string, types ...bson.Type) *Field { return &Field{name: name, types: types} }

// Bool declares a field that takes true and false only.
func Bool(name string) *Field { return OneOf(name, bson.TypeBool) }

// OptionalBool declares a boolean of the server's type optionalBool, which takes
// nothing else, not even null, and has separate error messages.
func OptionalBool(name string) *Field {
	d := Bool(name)
	d.optional = true
	return d
}

// SafeBool declares a field that takes a bool, or a number where zero is false.
func SafeBool(name string) *Field { return &Field{name: name, kind: kindBool, types: safeBoolTypes} }

// Int32 declares a field that takes an int and no other number.
func Int32(name string) *Field { return OneOf(name, bson.TypeInt32) }

// Int64 declares a field that takes a long and no other number.
func Int64(name string) *Field { return OneOf(name, bson.TypeInt64) }

// SafeInt declares a field that takes any number, truncated to an int.
func SafeInt(name string) *Field { return &Field{name: name, kind: kindInt32, types: numberTypes} }

// SafeInt64 declares a field that takes any number, truncated to a long.
func SafeInt64(name string) *Field { return &Field{name: name, kind: kindInt64, types: numberTypes} }

// ExactInt64 declares a field that takes any number without a fraction.
func ExactInt64(name string) *Field { return &Field{name: name, kind: kindExact, types: numberTypes} }

// Number declares a field that takes any number, read with Args.Double.
func Number(name string) *Field { return &Field{name: name, types: numberTypes} }

// String declares a string.
func String(name string) *Field { return OneOf(name, bson.TypeString) }

// Object declares a document whose fields are not checked.
func Object(name string) *Field { return OneOf(name, bson.TypeDocument) }

// Array declares an array of anything.
func Array(name string) *Field { return OneOf(name, bson.TypeArray) }

// Timestamp declares a timestamp.
func Timestamp(name string) *Field { return OneOf(name, bson.TypeTimestamp) }

// UUID declares a binary value of subtype 4.
func UUID(name string) *Field {
	return &Field{name: name, kind: kindUUID, types: []bson.Type{bson.TypeBinary}}
}

// Digest declares the SHA-256 of a user's name: a binary value of subtype 0 and 32
// bytes (code 12 for another length).
func Digest(name string) *Field {
	return &Field{name: name, kind: kindDigest, types: []bson.Type{bson.TypeBinary}}
}

// Enum declares a string that is one of values (code 2 for others).
func Enum(name string, values ...string) *Field {
	return &Field{name: name, kind: kindEnum, types: []bson.Type{bson.TypeString}, enum: values}
}

// Struct declares a document with the fields of sub.
func Struct(name string, sub *Fields) *Field {
	return &Field{name: name, kind: kindStruct, types: []bson.Type{bson.TypeDocument}, sub: sub}
}

// ArrayOf declares an array with elements as elem declares them; elem's name is
// ignored. Elements may also come as a section of their own (OP_MSG kind 1).
func ArrayOf(name string, elem *Field) *Field {
	return &Field{name: name, kind: kindArray, types: []bson.Type{bson.TypeArray}, elem: elem}
}

// Collection declares the command's own value as the name of a collection
// (code 73 for what is no valid name).
func Collection() *Field { return &Field{kind: kindNamespace, isValue: true} }

// CollectionOrUUID declares the command's own value as the name or the UUID of
// a collection.
func CollectionOrUUID() *Field { return &Field{kind: kindNamespaceOrUUID, isValue: true} }

// Value declares the command's own value as d, whose name is ignored; Args has it under
// the command's name.
func Value(d *Field) *Field { d.isValue = true; return d }

// Name is the field's name.
func (d *Field) Name() string { return d.name }

// Required makes absence an error (code 40414).
func (d *Field) Required() *Field { d.required = true; return d }

// Nullable keeps null as a value instead of reading it as absent.
func (d *Field) Nullable() *Field { d.keepNull = true; return d }

// NotNull makes null an error of type (code 14), as for fields that have a
// default.
func (d *Field) NotNull() *Field { d.notNull = true; return d }

// Min sets the lowest number allowed (code 2 below).
func (d *Field) Min(n int64) *Field { d.hasMin, d.min = true, n; return d }

// Above sets an exclusive lower bound (code 2 at or below n).
func (d *Field) Above(n int64) *Field { d.hasMin, d.above, d.min = true, true, n; return d }

// Max sets the highest number allowed (code 2 above).
func (d *Field) Max(n int64) *Field { d.hasMax, d.max = true, n; return d }

// RangeCode sets the code of the errors of Min, Above and Max, 2 by default.
func (d *Field) RangeCode(code int32) *Field { d.rangeCode = code; return d }

// Otherwise sets the error for values of other types. Null is one of those
// then, as for the server's fields with a parser of their own.
func (d *Field) Otherwise(err error) *Field { d.typeErr = err; return d }

// Hint declares the hint of a query: an index's name or key pattern, or
// {$natural: ±1} (code 9 for other types).
func Hint(name string) *Field {
	return OneOf(name, bson.TypeString, bson.TypeDocument).Otherwise(errHint)
}

// Modification declares what an update does: operators, a replacement or a
// pipeline (code 9 for other types).
func Modification(name string) *Field {
	return OneOf(name, bson.TypeDocument, bson.TypeArray).Otherwise(errModification)
}

var (
	errHint         = mongoerr.New(mongoerr.FailedToParse, "Hint must be a string or an object")
	errModification = mongoerr.New(mongoerr.FailedToParse, "Update argument must be either an object or an array")
)

// Unstable marks a field that Stable API version 1 does not have: it is rejected under
// apiStrict (code 323).
func (d *Field) Unstable() *Field { d.unstable = true; return d }

// OrOne lets a single element stand for the array that ArrayOf declares.
func (d *Field) OrOne() *Field {
	d.allowOne = true
	d.types = append(append([]bson.Type(nil), d.elem.types...), bson.TypeArray)
	return d
}
