package expr

import (
	"encoding/base64"
	"encoding/hex"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// The formats of the text of binaries.
const (
	formatAuto      = "auto" // uuid for a UUID, else base64; only to text
	formatBase64    = "base64"
	formatBase64URL = "base64url"
	formatHex       = "hex"
	formatUTF8      = "utf8"
	formatUUID      = "uuid"
)

// The subtypes of binaries that the conversions know.
const (
	subtypeUUID     = 4
	subtypeLast     = 9   // of those that have a meaning
	subtypeFirstOwn = 128 // of those that applications define
	subtypeLastOwn  = 255
)

// uuidBytes is the length of a UUID.
const uuidBytes = 16

func targetSubtype(v bson.Value) (byte, error) {
	if !v.IsNumber() {
		return 0, mongoerr.New(mongoerr.Code(4341108),
			"In $convert, 'subtype' argument must be a number, but is %s", v.Type)
	}
	n, ok := bson.ExactInt32(v)
	if !ok {
		return 0, mongoerr.New(mongoerr.Code(4341106), "In $convert, numeric 'subtype' argument is not an integer")
	}
	if n < 0 || n > subtypeLast && n < subtypeFirstOwn || n > subtypeLastOwn {
		return 0, mongoerr.New(mongoerr.Code(4341107),
			"In $convert, numeric value for 'subtype' does not correspond to a BinData type: %d", n)
	}
	return byte(n), nil
}

func binaryFormat(v bson.Value) (string, error) {
	if v.Type != bson.TypeString {
		return "", mongoerr.New(mongoerr.Code(4341114),
			"$convert requires that 'format' be a string, found: %s with value %s", v.Type, text(v))
	}
	switch s := v.Str(); s {
	case formatAuto, formatBase64, formatBase64URL, formatHex, formatUTF8, formatUUID:
		return s, nil
	}
	return "", mongoerr.New(mongoerr.Code(4341125), "Invalid 'format' argument for $convert: %s", v.Str())
}

func byteOrder(v bson.Value) (bigEndian bool, err error) {
	if v.Type != bson.TypeString {
		return false, mongoerr.New(mongoerr.Code(9130001),
			"$convert requires that 'byteOrder' be a string, found: %s with value %s", v.Type, text(v))
	}
	switch v.Str() {
	case "little":
		return false, nil
	case "big":
		return true, nil
	}
	return false, mongoerr.New(mongoerr.Code(9130002), "Invalid 'byteOrder' argument for $convert: %s", v.Str())
}

func (how *conversion) toBinary(v bson.Value) (bson.Value, error) {
	order := how.byteOrder()
	var buf [sizeLong]byte
	switch v.Type {
	case bson.TypeInt32:
		order.PutUint32(buf[:], uint32(v.Int32()))
		return bson.Binary(how.subtype, buf[:sizeInt]), nil
	case bson.TypeInt64:
		order.PutUint64(buf[:], uint64(v.Int64()))
		return bson.Binary(how.subtype, buf[:]), nil
	case bson.TypeDouble:
		order.PutUint64(buf[:], math.Float64bits(v.Double()))
		return bson.Binary(how.subtype, buf[:]), nil
	case bson.TypeString:
		return how.binaryOfText(v)
	case bson.TypeBinary:
		if subtype, _ := v.Binary(); subtype != how.subtype {
			return bson.Value{}, mongoerr.New(mongoerr.ConversionFailure,
				"Conversions between different binData subtypes are not supported")
		}
		return v, nil
	}
	return bson.Value{}, unsupported(v, how.to)
}

func (how *conversion) binaryOfText(v bson.Value) (bson.Value, error) {
	if how.format == "" {
		return bson.Value{}, mongoerr.New(mongoerr.Code(4341115),
			"Format must be speficied when converting from 'string' to 'binData'")
	}
	b, reason := decodeBinary(v.Str(), how.format)
	if (how.format == formatUUID) != (how.subtype == subtypeUUID) {
		reason = "Only the UUID format is allowed with the UUID subtype"
	}
	if reason != "" {
		return bson.Value{}, mongoerr.New(mongoerr.ConversionFailure,
			"Failed to convert '%s' to BinData in $convert with no onError value: %s", text(v), reason)
	}
	return bson.Binary(how.subtype, b), nil
}

// decodeBinary reads text in a format; reason says why that fails.
func decodeBinary(s, format string) (b []byte, reason string) {
	var err error
	switch format {
	case formatBase64:
		b, err = base64.StdEncoding.Strict().DecodeString(s)
		if strings.ContainsAny(s, "\r\n") { // the decoder ignores them
			err = base64.CorruptInputError(0)
		}
	case formatBase64URL:
		b, err = base64.RawURLEncoding.Strict().DecodeString(strings.TrimRight(s, "="))
		if strings.ContainsAny(s, "\r\n") || strings.HasSuffix(s, "=") && len(s)%4 != 0 {
			err = base64.CorruptInputError(0)
		}
	case formatHex:
		b, err = hex.DecodeString(s)
	case formatUTF8:
		return []byte(s), ""
	case formatUUID:
		return decodeUUID(s)
	default:
		return nil, "Invalid format '" + format + "'"
	}
	if err != nil {
		return nil, "Input is not a valid " + format + " string."
	}
	return b, ""
}

// The places of the dashes in the text of a UUID.
var uuidDashes = [...]int{8, 13, 18, 23}

// uuidChars is the length of the text of a UUID.
const uuidChars = 2*uuidBytes + len(uuidDashes)

func decodeUUID(s string) (b []byte, reason string) {
	invalid := "Invalid UUID string: " + s
	if len(s) != uuidChars {
		return nil, invalid
	}
	for _, at := range uuidDashes {
		if s[at] != '-' {
			return nil, invalid
		}
	}
	b, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
	if err != nil || len(b) != uuidBytes {
		return nil, invalid
	}
	return b, ""
}

func (how *conversion) textOfBinary(env *Env, v bson.Value) (bson.Value, error) {
	subtype, b := v.Binary()
	format := how.format
	isUUID := subtype == subtypeUUID && len(b) == uuidBytes
	switch {
	case format == "":
		return bson.Value{}, mongoerr.New(mongoerr.Code(4341115),
			"Format must be speficied when converting from 'binData' to 'string'")
	case format == formatAuto && isUUID:
		format = formatUUID
	case format == formatAuto:
		format = formatBase64
	}
	reason := ""
	size := 0
	switch format {
	case formatUUID:
		size = uuidChars
		if !isUUID {
			reason = "Only the UUID subtype is allowed with the UUID format"
		}
	case formatBase64:
		size = base64.StdEncoding.EncodedLen(len(b))
	case formatBase64URL:
		size = base64.RawURLEncoding.EncodedLen(len(b))
	case formatHex:
		size = hex.EncodedLen(len(b))
	case formatUTF8:
		if size = len(b); !utf8.Valid(b) {
			reason = "BinData does not represent a valid UTF-8 string"
		} else if size >= maxStringBytes {
			return bson.Value{}, stringTooLong()
		}
	}
	if reason == "" && size >= maxStringBytes {
		reason = stringTooLong().Error()
	}
	if reason != "" {
		return bson.Value{}, mongoerr.New(mongoerr.ConversionFailure,
			"Failed to convert '%s' to String in $convert with no onError value: %s", text(v), reason)
	}
	out, body, err := env.newString(size)
	if err == nil {
		encodeBinary(body, b, format)
	}
	return out, err
}

// encodeBinary writes b into dst, which has the right length.
func encodeBinary(dst, b []byte, format string) {
	const upper = "0123456789ABCDEF"
	switch format {
	case formatBase64:
		base64.StdEncoding.Encode(dst, b)
	case formatBase64URL:
		base64.RawURLEncoding.Encode(dst, b)
	case formatHex:
		for i, c := range b {
			dst[2*i], dst[2*i+1] = upper[c>>4], upper[c&15]
		}
	case formatUTF8:
		copy(dst, b)
	case formatUUID:
		hex.Encode(dst, b[:4])
		dst[8] = '-'
		hex.Encode(dst[9:], b[4:6])
		dst[13] = '-'
		hex.Encode(dst[14:], b[6:8])
		dst[18] = '-'
		hex.Encode(dst[19:], b[8:10])
		dst[23] = '-'
		hex.Encode(dst[24:], b[10:])
	}
}
