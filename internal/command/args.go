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
	values []bson.Value
	subs   []Args // the parsed documents of all Struct fields, one field after the other
	spans  []span // where a field's documents are in subs
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
func (a *Args) Value(name string) bson.Value { return a.values[a.at(name)] }

// Has says whether the field is there (and not null, unless Nullable).
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
func (a *Args) Int64(name string) int64 { return safeInt64(a.Value(name)) }

// Int64Or is Int64 with a default for absent.
func (a *Args) Int64Or(name string, absent int64) int64 {
	v := a.Value(name)
	if v.IsMissing() {
		return absent
	}
	return safeInt64(v)
}

// Int reads any number, truncated and clamped to 32 bits; absent is 0.
func (a *Args) Int(name string) int { return clamp32(safeInt64(a.Value(name))) }

// IntOr is Int with a default for absent.
func (a *Args) IntOr(name string, absent int) int {
	if !a.Has(name) {
		return absent
	}
	return a.Int(name)
}

// Double reads any number as a double; absent is 0.
func (a *Args) Double(name string) float64 { return toDouble(a.Value(name)) }

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
// as a section of its own use Op.Documents.
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

// UUID reads a UUID and says whether there is one.
func (a *Args) UUID(name string) (id [16]byte, ok bool) { return uuidOf(a.Value(name)) }

// Struct reads a Struct field and says whether it is there.
func (a *Args) Struct(name string) (Args, bool) {
	s := a.Structs(name)
	if len(s) == 0 {
		return Args{}, false
	}
	return s[0], true
}

// Structs reads an array of Struct elements, also where it came as a section.
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

// safeInt64 reads a number as the server's safeNumberLong: truncated, NaN is 0,
// out of range is clamped. Anything else is 0.
func safeInt64(v bson.Value) int64 {
	switch v.Type {
	case bson.TypeInt32:
		return int64(v.Int32())
	case bson.TypeInt64:
		return v.Int64()
	case bson.TypeDouble:
		return clampDouble(v.Double())
	case bson.TypeDecimal:
		return decimalInt64(v.Decimal())
	}
	return 0
}

func clampDouble(f float64) int64 {
	switch {
	case math.IsNaN(f):
		return 0
	case f >= math.MaxInt64:
		return math.MaxInt64
	case f <= math.MinInt64:
		return math.MinInt64
	}
	return int64(f)
}

func decimalInt64(d bson.Decimal128) int64 {
	if d.IsNaN() {
		return 0
	}
	switch sign := d.IsInf(); {
	case sign > 0:
		return math.MaxInt64
	case sign < 0:
		return math.MinInt64
	}
	f, err := d.APD().Float64()
	if err != nil {
		if d.Negative() {
			return math.MinInt64
		}
		return math.MaxInt64
	}
	if math.Abs(f) >= 1<<53 {
		// Beyond the double's integers: the exact digits decide.
		if i, ok := exactDecimal(d); ok {
			return i
		}
	}
	return clampDouble(f)
}

func exactDecimal(d bson.Decimal128) (int64, bool) {
	i, err := d.APD().Int64()
	return i, err == nil
}

func toDouble(v bson.Value) float64 {
	switch v.Type {
	case bson.TypeDouble:
		return v.Double()
	case bson.TypeDecimal:
		d := v.Decimal()
		if d.IsNaN() {
			return math.NaN()
		}
		if s := d.IsInf(); s != 0 {
			return math.Inf(s)
		}
		f, err := d.APD().Float64()
		if err != nil {
			if d.Negative() {
				return math.Inf(-1)
			}
			return math.Inf(1)
		}
		return f
	}
	return float64(safeInt64(v))
}

func clamp32(i int64) int {
	return int(min(max(i, math.MinInt32), math.MaxInt32))
}

// isInteger says whether a number has no fraction and fits 64 bits.
func isInteger(v bson.Value) bool {
	switch v.Type {
	case bson.TypeInt32, bson.TypeInt64:
		return true
	case bson.TypeDouble:
		f := v.Double()
		return f == math.Trunc(f) && f >= math.MinInt64 && f < math.MaxInt64
	case bson.TypeDecimal:
		if v.Decimal().IsNaN() || v.Decimal().IsInf() != 0 {
			return false
		}
		_, ok := exactDecimal(v.Decimal())
		return ok
	}
	return false
}
