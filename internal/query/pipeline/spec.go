package pipeline

import (
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// field declares one field of a stage's specification.
type field struct {
	name     string
	types    []bson.Type // nil: any
	required bool
	null     bool // null is an error of type, not absence
}

// The numeric types, for fields that accept any of them.
var numberTypes = []bson.Type{bson.TypeDouble, bson.TypeInt32, bson.TypeInt64, bson.TypeDecimal}

func stringField(name string) field { return field{name: name, types: []bson.Type{bson.TypeString}} }
func docField(name string) field    { return field{name: name, types: []bson.Type{bson.TypeDocument}} }
func arrayField(name string) field  { return field{name: name, types: []bson.Type{bson.TypeArray}} }
func boolField(name string) field   { return field{name: name, types: []bson.Type{bson.TypeBool}} }
func anyField(name string) field    { return field{name: name} }

func (f field) must() field    { f.required = true; return f }
func (f field) notNull() field { f.null = true; return f }

// readSpec checks a document by its declaration, like mongod's IDL, and returns its
// values in the order of the fields; absent ones are Missing.
// at is what messages call the document: "$lookup", "$out.timeseries". Errors:
// 40415, 40413, 14, 40414.
func readSpec(at string, d bson.Doc, fields ...field) ([]bson.Value, error) {
	values := make([]bson.Value, len(fields))
	seen := make([]bool, len(fields))
	for it := d.Iter(); it.Next(); {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == it.Key })
		switch {
		case i < 0:
			return nil, mongoerr.New(40415, "BSON field '%s.%s' is an unknown field.", at, it.Key)
		case seen[i]:
			return nil, mongoerr.New(40413, "BSON field '%s.%s' is a duplicate field", at, it.Key)
		}
		seen[i] = true
		f := fields[i]
		if !f.null && f.types != nil && (it.Value.Type == bson.TypeNull || it.Value.Type == bson.TypeUndefined) {
			continue
		}
		if f.types != nil && !slices.Contains(f.types, it.Value.Type) {
			return nil, wrongType(at+"."+f.name, it.Value, f.types)
		}
		values[i] = it.Value
	}
	for i, f := range fields {
		if f.required && values[i].IsMissing() {
			return nil, mongoerr.New(40414, "BSON field '%s.%s' is missing but a required field", at, f.name)
		}
	}
	return values, nil
}

func wrongType(path string, v bson.Value, types []bson.Type) error {
	if len(types) == 1 {
		return mongoerr.New(mongoerr.TypeMismatch, "BSON field '%s' is the wrong type '%s', expected type '%s'", path, v.Type, types[0])
	}
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = t.String()
	}
	return mongoerr.New(mongoerr.TypeMismatch, "BSON field '%s' is the wrong type '%s', expected types '[%s]'", path, v.Type, strings.Join(names, ", "))
}

// str is the text of a string, "" of anything else.
func str(v bson.Value) string {
	if v.Type != bson.TypeString {
		return ""
	}
	return v.Str()
}
