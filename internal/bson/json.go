package bson

import (
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// JSONMode chooses between the two forms of MongoDB Extended JSON v2.
type JSONMode bool

const (
	// RelaxedJSON writes ints, longs, doubles and common dates as plain JSON.
	RelaxedJSON JSONMode = false
	// CanonicalJSON keeps every type.
	CanonicalJSON JSONMode = true
)

// AppendJSON appends d as Extended JSON, without spaces.
func (d Doc) AppendJSON(dst []byte, mode JSONMode) []byte {
	dst = append(dst, '{')
	first := true
	for it := d.Iter(); it.Next(); {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(appendJSONString(dst, it.Key), ':')
		dst = it.Value.AppendJSON(dst, mode)
	}
	return append(dst, '}')
}

// MarshalJSON makes a Doc print as relaxed Extended JSON in logs and replies
// of HTTP.
func (d Doc) MarshalJSON() ([]byte, error) { return d.AppendJSON(nil, RelaxedJSON), nil }

// MarshalJSON is Doc.MarshalJSON for one value; Missing is null.
func (v Value) MarshalJSON() ([]byte, error) { return v.AppendJSON(nil, RelaxedJSON), nil }

// AppendJSON appends v as Extended JSON, without spaces; Missing is null.
func (v Value) AppendJSON(dst []byte, mode JSONMode) []byte {
	switch v.Type {
	case Missing, TypeNull:
		return append(dst, "null"...)
	case TypeDouble:
		return appendJSONDouble(dst, v.Double(), mode)
	case TypeString:
		return appendJSONString(dst, v.Str())
	case TypeDocument:
		return v.Doc().AppendJSON(dst, mode)
	case TypeArray:
		return appendJSONArray(dst, v.Doc(), mode)
	case TypeBinary:
		subtype, content := v.Binary()
		if subtype == 2 && len(content) >= 4 {
			content = content[4:]
		}
		dst = append(dst, `{"$binary":{"base64":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, content)
		dst = appendHex(append(dst, `","subType":"`...), []byte{subtype})
		return append(dst, `"}}`...)
	case TypeUndefined:
		return append(dst, `{"$undefined":true}`...)
	case TypeObjectID:
		return append(appendHex(append(dst, `{"$oid":"`...), v.Data), `"}`...)
	case TypeBool:
		return strconv.AppendBool(dst, v.Bool())
	case TypeDate:
		return appendJSONDate(dst, v.Date(), mode)
	case TypeInt32:
		if mode == RelaxedJSON {
			return strconv.AppendInt(dst, int64(v.Int32()), 10)
		}
		return append(strconv.AppendInt(append(dst, `{"$numberInt":"`...), int64(v.Int32()), 10), `"}`...)
	case TypeInt64:
		if mode == RelaxedJSON {
			return strconv.AppendInt(dst, v.Int64(), 10)
		}
		return append(strconv.AppendInt(append(dst, `{"$numberLong":"`...), v.Int64(), 10), `"}`...)
	case TypeDecimal:
		return append(v.Decimal().AppendText(append(dst, `{"$numberDecimal":"`...)), `"}`...)
	case TypeMinKey:
		return append(dst, `{"$minKey":1}`...)
	case TypeMaxKey:
		return append(dst, `{"$maxKey":1}`...)
	}
	return v.appendJSONRare(dst, mode)
}

func (v Value) appendJSONRare(dst []byte, mode JSONMode) []byte {
	switch v.Type {
	case TypeRegex:
		pattern, options := v.Regex()
		dst = appendJSONString(append(dst, `{"$regularExpression":{"pattern":`...), pattern)
		dst = appendJSONString(append(dst, `,"options":`...), options)
		return append(dst, "}}"...)
	case TypeTimestamp:
		t := v.Timestamp()
		dst = strconv.AppendUint(append(dst, `{"$timestamp":{"t":`...), t>>32, 10)
		return append(strconv.AppendUint(append(dst, `,"i":`...), t&0xffffffff, 10), "}}"...)
	case TypeDBPointer:
		ns, id := v.DBPointer()
		dst = appendJSONString(append(dst, `{"$dbPointer":{"$ref":`...), ns)
		return append(appendHex(append(dst, `,"$id":{"$oid":"`...), id[:]), `"}}}`...)
	case TypeCode:
		return append(appendJSONString(append(dst, `{"$code":`...), v.Str()), '}')
	case TypeSymbol:
		return append(appendJSONString(append(dst, `{"$symbol":`...), v.Str()), '}')
	case TypeCodeScope:
		code, scope := v.CodeScope()
		dst = appendJSONString(append(dst, `{"$code":`...), code)
		return append(scope.AppendJSON(append(dst, `,"$scope":`...), mode), '}')
	}
	return append(dst, "null"...)
}

func appendJSONArray(dst []byte, d Doc, mode JSONMode) []byte {
	dst = append(dst, '[')
	first := true
	for v := range d.Values() {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = v.AppendJSON(dst, mode)
	}
	return append(dst, ']')
}

func appendJSONDouble(dst []byte, f float64, mode JSONMode) []byte {
	var s string
	switch {
	case math.IsNaN(f):
		s = "NaN"
	case math.IsInf(f, 1):
		s = "Infinity"
	case math.IsInf(f, -1):
		s = "-Infinity"
	default:
		s = strconv.FormatFloat(f, 'G', -1, 64)
		if !strings.ContainsAny(s, ".E") {
			s += ".0"
		}
		if mode == RelaxedJSON {
			return append(dst, s...)
		}
	}
	return append(append(append(dst, `{"$numberDouble":"`...), s...), `"}`...)
}

// appendJSONDate writes RFC 3339 in the relaxed form for the years 1970 to
// 9999.
func appendJSONDate(dst []byte, ms int64, mode JSONMode) []byte {
	const year10000 = 253402300800000
	dst = append(dst, `{"$date":`...)
	if mode == RelaxedJSON && ms >= 0 && ms < year10000 {
		format := `"2006-01-02T15:04:05Z"`
		if ms%1000 != 0 {
			format = `"2006-01-02T15:04:05.000Z"`
		}
		return append(time.UnixMilli(ms).UTC().AppendFormat(dst, format), '}')
	}
	return append(strconv.AppendInt(append(dst, `{"$numberLong":"`...), ms, 10), `"}}`...)
}

// appendJSONString quotes s; bytes that are no UTF-8 become U+FFFD.
func appendJSONString(dst []byte, s string) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	plain := 0
	for plain < len(s) && s[plain] >= ' ' && s[plain] < utf8.RuneSelf && s[plain] != '"' && s[plain] != '\\' {
		plain++
	}
	dst = append(dst, s[:plain]...)
	for _, r := range s[plain:] {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r == '\n':
			dst = append(dst, `\n`...)
		case r == '\r':
			dst = append(dst, `\r`...)
		case r == '\t':
			dst = append(dst, `\t`...)
		case r == '\b':
			dst = append(dst, `\b`...)
		case r == '\f':
			dst = append(dst, `\f`...)
		case r < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', digits[r>>4], digits[r&15])
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}
