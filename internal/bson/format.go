package bson

import (
	"encoding/hex"
	"strconv"
	"strings"
)

// Bounds of the text form. The first three are the server's.
const (
	maxTextDepth  = 100      // deeper documents print as ...
	maxTextString = 160      // bytes with the final zero; longer strings print 150
	maxTextBinary = 80       // bytes; longer binaries and code print 70
	maxText       = 64 << 10 // a text that has this many bytes ends with ...
)

// String is d as the server prints documents in its messages and logs:
// { a: 1, b: "x", c: [ 1.0, null ] }. It is made to be read: long strings and
// deep documents are cut, and types cannot always be told apart.
func (d Doc) String() string { return string(appendDoc(nil, d, false, 0)) }

// String is v as the server prints values in its messages; see Doc.String.
func (v Value) String() string { return string(v.AppendText(nil)) }

// AppendText appends v as the server prints values in its messages.
func (v Value) AppendText(dst []byte) []byte { return appendText(dst, v, 0) }

func appendDoc(dst []byte, d Doc, array bool, depth int) []byte {
	open, end, empty := "{ ", " }", "{}"
	if array {
		open, end, empty = "[ ", " ]", "[]"
	}
	if d.IsEmpty() {
		return append(dst, empty...)
	}
	dst = append(dst, open...)
	first := true
	for it := d.Iter(); it.Next(); {
		if !first {
			dst = append(dst, ", "...)
		}
		first = false
		if len(dst) > maxText || depth > maxTextDepth {
			dst = append(dst, "..."...)
			break
		}
		if !array {
			dst = append(append(dst, it.Key...), ": "...)
		}
		dst = appendText(dst, it.Value, depth)
	}
	return append(dst, end...)
}

func appendText(dst []byte, v Value, depth int) []byte {
	switch v.Type {
	case Missing:
		return append(dst, "EOO"...)
	case TypeDouble:
		return appendDouble(dst, v.Double())
	case TypeString, TypeSymbol:
		return appendQuoted(dst, v.Str())
	case TypeDocument:
		return appendDoc(dst, v.Doc(), false, depth+1)
	case TypeArray:
		return appendDoc(dst, v.Doc(), true, depth+1)
	case TypeBinary:
		return appendBinary(dst, v)
	case TypeUndefined:
		return append(dst, "undefined"...)
	case TypeObjectID:
		return append(appendHex(append(dst, "ObjectId('"...), v.Data), "')"...)
	case TypeBool:
		return strconv.AppendBool(dst, v.Bool())
	case TypeDate:
		return append(strconv.AppendInt(append(dst, "new Date("...), v.Date(), 10), ')')
	case TypeNull:
		return append(dst, "null"...)
	case TypeRegex:
		pattern, options := v.Regex()
		return append(append(append(append(dst, '/'), pattern...), '/'), options...)
	case TypeDBPointer:
		ns, id := v.DBPointer()
		dst = append(append(append(dst, "DBRef('"...), ns...), "',"...)
		return append(appendHex(dst, id[:]), ')')
	case TypeCode:
		code := v.Str()
		if len(code) >= maxTextBinary {
			return append(append(dst, code[:70]...), "..."...)
		}
		return append(dst, code...)
	case TypeCodeScope:
		code, scope := v.CodeScope()
		dst = append(append(append(dst, "CodeWScope( "...), code...), ", "...)
		return append(appendDoc(dst, scope, false, depth+1), ')')
	case TypeInt32:
		return strconv.AppendInt(dst, int64(v.Int32()), 10)
	case TypeInt64:
		return strconv.AppendInt(dst, v.Int64(), 10)
	case TypeTimestamp:
		t := v.Timestamp()
		dst = strconv.AppendUint(append(dst, "Timestamp("...), t>>32, 10)
		return append(strconv.AppendUint(append(dst, ", "...), t&0xffffffff, 10), ')')
	case TypeDecimal:
		return append(dst, v.Decimal().String()...)
	case TypeMinKey:
		return append(dst, "MinKey"...)
	case TypeMaxKey:
		return append(dst, "MaxKey"...)
	}
	return append(dst, '?')
}

func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	if len(s) >= maxTextString {
		return append(append(dst, s[:150]...), `..."`...)
	}
	return append(append(dst, s...), '"')
}

func appendHex(dst, b []byte) []byte { return hex.AppendEncode(dst, b) }

func appendUpperHex(dst, b []byte) []byte {
	return append(dst, strings.ToUpper(hex.EncodeToString(b))...)
}

// appendDouble prints what C's %.16g prints, and .0 if neither a point nor
// an upper-case E or N is in it. That gives nan.0, inf.0 and 1e+300.0: the
// server's texts have them.
func appendDouble(dst []byte, f float64) []byte {
	s := formatG(f, 16)
	dst = append(dst, s...)
	if !strings.ContainsRune(s, '.') {
		dst = append(dst, ".0"...)
	}
	return dst
}

// formatG is C's %.<digits>g.
func formatG(f float64, digits int) string {
	s := strconv.FormatFloat(f, 'g', digits, 64)
	switch s {
	case "NaN":
		return "nan"
	case "+Inf":
		return "inf"
	case "-Inf":
		return "-inf"
	}
	return s
}

// appendBinary prints UUID("…") or BinData(<subtype>, <hex digits>).
func appendBinary(dst []byte, v Value) []byte {
	subtype, content := v.Binary()
	if subtype == 4 && len(content) == 16 {
		return append(appendUUID(append(dst, `UUID("`...), content), `")`...)
	}
	if subtype == 2 && len(content) >= 4 {
		content = content[4:]
	}
	dst = append(strconv.AppendUint(append(dst, "BinData("...), uint64(subtype), 10), ", "...)
	if len(content) > maxTextBinary {
		return append(appendUpperHex(dst, content[:70]), "...)"...)
	}
	return append(appendUpperHex(dst, content), ')')
}
