package nosql

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

func init() {
	is := func(name string, f func(v bson.Value) bool) {
		registerPure(name, 1, 1, func(args []bson.Value) bson.Value { return bson.Bool(f(args[0])) })
	}
	is("IS_DEFINED", func(v bson.Value) bool { return !v.IsMissing() })
	is("IS_NULL", func(v bson.Value) bool { return v.Type == bson.TypeNull })
	is("IS_BOOL", func(v bson.Value) bool { return v.Type == bson.TypeBool })
	is("IS_NUMBER", bson.Value.IsNumber)
	is("IS_STRING", isText)
	is("IS_ARRAY", func(v bson.Value) bool { return v.Type == bson.TypeArray })
	is("IS_OBJECT", func(v bson.Value) bool { return v.Type == bson.TypeDocument })
	is("IS_PRIMITIVE", func(v bson.Value) bool { r := typeRank(v); return r >= 1 && r <= typeRank(text("")) })
	is("IS_FINITE_NUMBER", func(v bson.Value) bool {
		return v.IsNumber() && !math.IsInf(bson.ToDouble(v), 0) && !v.IsNaN()
	})
	is("IS_INTEGER", func(v bson.Value) bool {
		_, whole := integer(v)
		return whole
	})
	registerPure("TOSTRING", 1, 1, func(args []bson.Value) bson.Value { return toText(args[0]) })
	registerPure("STRINGTONUMBER", 1, 1, parsed(func(v bson.Value) bool { return v.IsNumber() }))
	registerPure("STRINGTOBOOLEAN", 1, 1, parsed(func(v bson.Value) bool { return v.Type == bson.TypeBool }))
	registerPure("STRINGTONULL", 1, 1, parsed(func(v bson.Value) bool { return v.Type == bson.TypeNull }))
	registerPure("STRINGTOARRAY", 1, 1, parsed(func(v bson.Value) bool { return v.Type == bson.TypeArray }))
	registerPure("STRINGTOOBJECT", 1, 1, parsed(func(v bson.Value) bool { return v.Type == bson.TypeDocument }))
	registerPure("IIF", 3, 3, func(args []bson.Value) bson.Value {
		if isTrue(args[0]) {
			return args[1]
		}
		return args[2]
	})
}

// toText is ToString: a string as it is, everything else as JSON.
func toText(v bson.Value) bson.Value {
	if v.IsMissing() || isText(v) {
		return v
	}
	return text(string(AppendJSON(nil, v)))
}

// parsed makes a function that reads JSON of one type.
func parsed(accept func(bson.Value) bool) func([]bson.Value) bson.Value {
	return func(args []bson.Value) bson.Value {
		if !isText(args[0]) {
			return bson.Value{}
		}
		v, err := ParseJSON([]byte(strings.TrimSpace(args[0].Str())))
		if err != nil || !accept(v) {
			return bson.Value{}
		}
		return v
	}
}

// AppendJSON appends a value as the service's JSON: plain numbers, no spaces.
// Types that JSON does not have are written as strings: dates in ISO 8601,
// ids in hexadecimal digits, others as MongoDB's shell prints them.
func AppendJSON(dst []byte, v bson.Value) []byte {
	switch {
	case v.IsMissing() || v.Type == bson.TypeNull || v.Type == bson.TypeUndefined:
		return append(dst, "null"...)
	case v.Type == bson.TypeBool:
		return strconv.AppendBool(dst, v.Bool())
	case v.Type == bson.TypeInt32 || v.Type == bson.TypeInt64:
		return strconv.AppendInt(dst, bson.ClampToInt64(v), 10)
	case v.IsNumber():
		return appendDouble(dst, bson.ToDouble(v))
	case isText(v):
		return appendJSONText(dst, v.Str())
	case v.Type == bson.TypeArray:
		dst = append(dst, '[')
		for i := v.Doc().Iter(); i.Next(); {
			if dst[len(dst)-1] != '[' {
				dst = append(dst, ',')
			}
			dst = AppendJSON(dst, i.Value)
		}
		return append(dst, ']')
	case v.Type == bson.TypeDocument:
		return AppendJSONDocument(dst, v.Doc())
	case v.Type == bson.TypeDate:
		return appendJSONText(dst, formatTime(v.Date()))
	case v.Type == bson.TypeObjectID:
		return appendJSONText(dst, bson.FormatObjectID(v.ObjectID()))
	}
	return appendJSONText(dst, v.String())
}

// AppendJSONDocument appends an object; see AppendJSON.
func AppendJSONDocument(dst []byte, d bson.Doc) []byte {
	dst = append(dst, '{')
	first := true
	for it := d.Iter(); it.Next(); first = false {
		if !first {
			dst = append(dst, ',')
		}
		dst = append(appendJSONText(dst, it.Key), ':')
		dst = AppendJSON(dst, it.Value)
	}
	return append(dst, '}')
}

func appendDouble(dst []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	}
	b, err := json.Marshal(f)
	if err != nil {
		return append(dst, "null"...) // only for what was dealt with above
	}
	return append(dst, b...)
}

func appendJSONText(dst []byte, s string) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, `\n`...)
		case c == '\r':
			dst = append(dst, `\r`...)
		case c == '\t':
			dst = append(dst, `\t`...)
		case c == '\b':
			dst = append(dst, `\b`...)
		case c == '\f':
			dst = append(dst, `\f`...)
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
