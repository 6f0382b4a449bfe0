package command

import (
	"fmt"
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Args are the parsed arguments of a command, or of a document inside one.
// Every method takes the name of a declared field; a name that Fields does not
// declare is a bug of the caller and panics. Values share the request's bytes.
type Args struct {
	fields *Fields
	values []bson.Value // of the fields that are present, in their order
	slots  []uint8      // index of a field's value in values, plus 1; 0 if absent
	subs   []Args       // the parsed documents of all Struct fields, concatenated
	spans  []span       // where a field's documents are in subs
}

type span struct{ field, from, to int }

func (a *Args) at(name string) int {
	i, ok := a.fields.index[name]
	if !ok {
		panic(fmt.Sprintf("command: %q has no field %q", a.fields.name, name))
	}
	return i
}

// Value returns the field as it came, or Missing.
func (a *Args) Value(name string) bson.Value { return a.value(a.at(name)) }

// value is the value of the i-th field, or Missing.
func (a *Args) value(i int) bson.Value {
	if slot := a.slots[i]; slot > 0 {
		return a.values[slot-1]
	}
	return bson.Value{}
}

// keep stores the value of the i-th field.
func (a *Args) keep(i int, v bson.Value) {
	a.values = append(a.values, v)
	a.slots[i] = uint8(len(a.values))
}

// Has reports whether the field is there (and not null, unless Nullable).
func (a *Args) Has(name string) bool { return !a.Value(name).IsMissing() }

// Bool reads a Bool or SafeBool; absent is false.
func (a *Args) Bool(name string) bool { return a.Value(name).Truthy() }

// BoolOr is Bool with a default for absent.
func (a *Args) BoolOr(name string, absent bool) bool {
	v := a.Value(name)
	if v.IsMissing() {
		return absent
	}
	return v.Truthy()
}

// Int64 reads any number, truncated and clamped to 64 bits; absent is 0.
func (a *Args) Int64(name string) int64 { return bson.ClampToInt64(a.Value(name)) }

// Int64Or is Int64 with a default for absent.
func (a *Args) Int64Or(name string, absent int64) int64 {
	v := a.Value(name)
	if v.IsMissing() {
		return absent
	}
	return bson.ClampToInt64(v)
}

// Int reads any number, truncated and clamped to 32 bits; absent is 0.
func (a *Args) Int(name string) int { return clamp32(bson.ClampToInt64(a.Value(name))) }

// IntOr is Int with a default for absent.
func (a *Args) IntOr(name string, absent int) int {
	if !a.Has(name) {
		return absent
	}
	return a.Int(name)
}

// Double reads any number as a double; absent is 0.
func (a *Args) Double(name string) float64 { return bson.ToDouble(a.Value(name)) }

// Str reads a string; absent is "".
func (a *Args) Str(name string) string {
	v := a.Value(name)
	if v.Type != bson.TypeString {
		return ""
	}
	return v.Str()
}

// Doc reads a document; absent is nil.
func (a *Args) Doc(name string) bson.Doc {
	v := a.Value(name)
	if v.Type != bson.TypeDocument {
		return nil
	}
	return v.Doc()
}

// Array reads the elements of an array; absent is nil. For an array that came
// as a document sequence use Op.Documents.
func (a *Args) Array(name string) []bson.Value {
	v := a.Value(name)
	switch v.Type {
	case bson.Missing:
		return nil
	case bson.TypeArray:
		return v.Doc().Slice()
	}
	return []bson.Value{v}
}

// Strings reads the strings of an array of strings.
func (a *Args) Strings(name string) []string {
	vs := a.Array(name)
	if vs == nil {
		return nil
	}
	ss := make([]string, 0, len(vs))
	for _, v := range vs {
		if v.Type == bson.TypeString {
			ss = append(ss, v.Str())
		}
	}
	return ss
}

// UUID reads a UUID and reports whether there is one.
func (a *Args) UUID(name string) (id [16]byte, ok bool) { return uuidOf(a.Value(name)) }

// Struct reads a Struct field and reports whether it is there.
func (a *Args) Struct(name string) (Args, bool) {
	s := a.Structs(name)
	if len(s) == 0 {
		return Args{}, false
	}
	return s[0], true
}

// Structs reads an array of Struct elements, which may also have come as a section.
func (a *Args) Structs(name string) []Args {
	i := a.at(name)
	for _, s := range a.spans {
		if s.field == i {
			return a.subs[s.from:s.to]
		}
	}
	return nil
}

func uuidOf(v bson.Value) (id [16]byte, ok bool) {
	if v.Type != bson.TypeBinary {
		return id, false
	}
	sub, content := v.Binary()
	if sub != 4 || len(content) != 16 {
		return id, false
	}
	return [16]byte(content), true
}

func clamp32(i int64) int {
	return int(min(max(i, math.MinInt32), math.MaxInt32))
}
