package nosql

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	mathbits "math/bits"
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
	is("IS_DATETIME", func(v bson.Value) bool {
		_, ok := instant(v)
		return isText(v) && ok
	})
	is("IS_INTEGER", func(v bson.Value) bool {
		_, whole := integer(v)
		return whole
	})
	register("TOSTRING", 1, 1, func(env *env, args []bson.Value) (bson.Value, error) {
		return toText(args[0]), env.makes(len(args[0].Data))
	})
	registerPure("STRINGTONUMBER", 1, 1, parsed(func(v bson.Value) bool { return v.IsNumber() }))
	registerPure("STRINGTOBOOLEAN", 1, 1, parsed(func(v bson.Value) bool { return v.Type == bson.TypeBool }))
	registerPure("STRINGTONULL", 1, 1, parsed(func(v bson.Value) bool { return v.Type == bson.TypeNull }))
	registerPure("STRINGTOARRAY", 1, 1, parsed(func(v bson.Value) bool { return v.Type == bson.TypeArray }))
	registerPure("STRINGTOOBJECT", 1, 1, parsed(func(v bson.Value) bool { return v.Type == bson.TypeDocument }))
	registerPure("DOCUMENTID", 1, 1, documentID)
	registerPure("IIF", 3, 3, func(args []bson.Value) bson.Value {
		if isTrue(args[0]) {
			return args[1]
		}
		return args[2]
	})
}

// documentID is the number of an item in its container, which its resource id
// ends with.
func documentID(args []bson.Value) bson.Value {
	if args[0].Type != bson.TypeDocument {
		return bson.Value{}
	}
	rid := args[0].Doc().Lookup("_rid")
	if !isText(rid) {
		return bson.Value{}
	}
	b, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(rid.Str(), "-", "/"))
	if err != nil || len(b) != 16 {
		return bson.Value{}
	}
	return bson.Int(int64(binary.LittleEndian.Uint64(b[8:])))
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
		return AppendJSONText(dst, v.Str())
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
		return AppendJSONText(dst, formatTime(v.Date()))
	case v.Type == bson.TypeObjectID:
		return AppendJSONText(dst, bson.FormatObjectID(v.ObjectID()))
	}
	return AppendJSONText(dst, v.String())
}

// AppendJSONDocument appends an object; see AppendJSON.
func AppendJSONDocument(dst []byte, d bson.Doc) []byte {
	dst = append(dst, '{')
	first := true
	for it := d.Iter(); it.Next(); first = false {
		if !first {
			dst = append(dst, ',')
		}
		dst = append(AppendJSONText(dst, it.Key), ':')
		dst = AppendJSON(dst, it.Value)
	}
	return append(dst, '}')
}

// appendDouble writes a number in the fewest digits that tell it apart, with an
// exponent if JavaScript has one.
func appendDouble(dst []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	}
	if abs := math.Abs(f); abs == 0 || abs >= 1e-6 && abs < 1e21 {
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	from := len(dst)
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	if n := len(dst); n-from > 4 && dst[n-4] == 'e' && dst[n-2] == '0' {
		dst[n-2] = dst[n-1] // e-09 is e-9
		dst = dst[:n-1]
	}
	return dst
}

// AppendJSONText appends a string in quotes, with escapes where JSON requires them.
func AppendJSONText(dst []byte, s string) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	for n := plain(s); n < len(s); n = plain(s) {
		dst = append(dst, s[:n]...)
		c := s[n]
		s = s[n+1:]
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		case '\b':
			dst = append(dst, `\b`...)
		case '\f':
			dst = append(dst, `\f`...)
		default:
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
	}
	return append(append(dst, s...), '"')
}

// plain is how many bytes of s come before the first that JSON has only escaped
// in a string: a control character, a quote, a backslash. It looks at eight
// bytes at a time.
func plain(s string) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(s); i += 8 {
		b := s[i : i+8]
		x := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 | uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		quote, back := x^ones*'"', x^ones*'\\'
		// The lowest bit is that of the first such byte; those above may be wrong.
		if found := ((x-ones*' ')&^x | (quote-ones)&^quote | (back-ones)&^back) & tops; found != 0 {
			return i + mathbits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' {
			break
		}
	}
	return i
}
