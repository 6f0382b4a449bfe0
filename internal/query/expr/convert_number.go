package expr

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// toInteger converts to an int or a long.
func (how *conversion) toInteger(env *Env, v bson.Value) (bson.Value, error) {
	i, err := how.integer(v)
	switch {
	case err != nil:
		return bson.Value{}, err
	case how.to == bson.TypeInt32:
		return env.Int32(int32(i)), nil
	}
	return env.Int64(i), nil
}

func (how *conversion) integer(v bson.Value) (int64, error) {
	switch v.Type {
	case bson.TypeBool:
		if v.Bool() {
			return 1, nil
		}
		return 0, nil
	case bson.TypeInt32, bson.TypeInt64, bson.TypeDouble, bson.TypeDecimal:
		return integerOf(v, how.to)
	case bson.TypeString:
		return parseInteger(v.Str(), how.to)
	case bson.TypeBinary:
		return how.integerOfBinary(v)
	case bson.TypeDate:
		if how.to == bson.TypeInt64 {
			return v.Date(), nil
		}
	}
	return 0, unsupported(v, how.to)
}

// integerOf drops the fraction of a number.
func integerOf(v bson.Value, to bson.Type) (int64, error) {
	if v.IsNaN() {
		return 0, mongoerr.New(mongoerr.ConversionFailure,
			"Attempt to convert NaN value to integer type in $convert with no onError value")
	}
	if v.IsInf() != 0 {
		return 0, mongoerr.New(mongoerr.ConversionFailure,
			"Attempt to convert infinity value to integer type in $convert with no onError value")
	}
	i, ok := bson.TruncateToInt64(v)
	if to == bson.TypeInt32 && ok {
		ok = i == int64(int32(i))
		if f := bson.ToDouble(v); v.Type == bson.TypeDouble {
			// A fraction beyond the range is out of it.
			ok = f >= math.MinInt32 && f <= math.MaxInt32
		}
	}
	if !ok {
		return 0, wouldOverflow(v)
	}
	return i, nil
}

func wouldOverflow(v bson.Value) error {
	const message = "Conversion would overflow target type in $convert with no onError value: "
	if v.Type == bson.TypeInt64 {
		return mongoerr.New(mongoerr.ConversionFailure, message)
	}
	return mongoerr.New(mongoerr.ConversionFailure, "%s%s", message, text(v))
}

func badNumber(s, reason string) error {
	return mongoerr.New(mongoerr.ConversionFailure,
		"Failed to parse number '%s' in $convert with no onError value: %s", s, reason)
}

// refuseHex refuses what looks like a hexadecimal number.
func refuseHex(s string) error {
	if strings.HasPrefix(s, "0x") {
		return mongoerr.New(mongoerr.ConversionFailure,
			"Illegal hexadecimal input in $convert with no onError value: %s", s)
	}
	return nil
}

// parseInteger reads an optional sign and decimal digits.
func parseInteger(s string, to bson.Type) (int64, error) {
	if err := refuseHex(s); err != nil {
		return 0, err
	}
	digits := strings.TrimPrefix(s, "+")
	if len(digits) == len(s) {
		digits = strings.TrimPrefix(s, "-")
	}
	if digits == "" {
		return 0, badNumber(s, "No digits")
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			if i == 0 {
				return 0, badNumber(s, "Did not consume any digits")
			}
			return 0, badNumber(s, "Did not consume whole string.")
		}
	}
	bits := 64
	if to == bson.TypeInt32 {
		bits = 32
	}
	i, err := strconv.ParseInt(s, 10, bits)
	if err != nil {
		return 0, badNumber(s, "Overflow")
	}
	return i, nil
}

// The sizes in bytes of binaries that are numbers.
const (
	sizeByte  = 1
	sizeShort = 2
	sizeInt   = 4
	sizeLong  = 8
)

func (how *conversion) byteOrder() binary.ByteOrder {
	if how.bigEndian {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

func wrongLength(v bson.Value, to bson.Type, n int) error {
	return mongoerr.New(mongoerr.ConversionFailure,
		"Failed to convert '%s' to %s in $convert because of invalid length: %d", text(v), to, n)
}

func (how *conversion) integerOfBinary(v bson.Value) (int64, error) {
	_, b := v.Binary()
	order := how.byteOrder()
	switch {
	case len(b) == sizeByte:
		return int64(int8(b[0])), nil
	case len(b) == sizeShort:
		return int64(int16(order.Uint16(b))), nil
	case len(b) == sizeInt:
		return int64(int32(order.Uint32(b))), nil
	case len(b) == sizeLong && how.to == bson.TypeInt64:
		return int64(order.Uint64(b)), nil
	}
	return 0, wrongLength(v, how.to, len(b))
}

func (how *conversion) toDouble(env *Env, v bson.Value) (bson.Value, error) {
	switch v.Type {
	case bson.TypeInt32, bson.TypeInt64:
		return env.Double(bson.ToDouble(v)), nil
	case bson.TypeBool:
		i, err := how.integer(v)
		return env.Double(float64(i)), err
	case bson.TypeDate:
		return env.Double(float64(v.Date())), nil
	case bson.TypeDecimal:
		f := bson.ToDouble(v)
		if math.IsInf(f, 0) && v.IsInf() == 0 {
			return bson.Value{}, wouldOverflow(v)
		}
		return env.Double(f), nil
	case bson.TypeString:
		f, err := parseDouble(v.Str())
		return env.Double(f), err
	case bson.TypeBinary:
		_, b := v.Binary()
		switch len(b) {
		case sizeInt:
			return env.Double(float64(math.Float32frombits(how.byteOrder().Uint32(b)))), nil
		case sizeLong:
			return env.Double(math.Float64frombits(how.byteOrder().Uint64(b))), nil
		}
		return bson.Value{}, wrongLength(v, how.to, len(b))
	}
	return bson.Value{}, unsupported(v, how.to)
}

// smallestNormal is the least positive double that has all 53 bits.
const smallestNormal = 0x1p-1022

// parseDouble reads a number as C's strtod does: decimal or hexadecimal, or
// inf, infinity or nan in any case.
func parseDouble(s string) (float64, error) {
	if err := refuseHex(s); err != nil {
		return 0, err
	}
	if s == "" {
		return 0, badNumber(s, "Empty string")
	}
	unsigned := strings.TrimLeft(s[:1], "+-") + s[1:]
	hex := len(unsigned) > 1 && (unsigned[1] == 'x' || unsigned[1] == 'X')
	parsed := s
	switch {
	case strings.EqualFold(unsigned, "nan"):
		return math.NaN(), nil
	case strings.IndexByte(s, '_') >= 0:
		return 0, badNumber(s, "Did not consume whole string.")
	case hex && !strings.ContainsAny(s, "pP"):
		parsed += "p0"
	}
	f, err := strconv.ParseFloat(parsed, 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, badNumber(s, "Did not consume whole string.")
	}
	tiny := math.Abs(f) < smallestNormal && !hex && strings.ContainsAny(mantissa(s), "123456789")
	if err != nil || tiny {
		return 0, badNumber(s, "Out of range")
	}
	return f, nil
}

// mantissa is a number without its exponent.
func mantissa(s string) string {
	if e := strings.IndexAny(s, "eE"); e >= 0 {
		return s[:e]
	}
	return s
}

func toDecimal(env *Env, v bson.Value) (bson.Value, error) {
	switch v.Type {
	case bson.TypeInt32, bson.TypeInt64, bson.TypeDouble:
		return env.Decimal(bson.ToDecimal(v)), nil
	case bson.TypeBool:
		if v.Bool() {
			return env.Decimal(decimalOne), nil
		}
		return env.Decimal(decimalZero), nil
	case bson.TypeDate:
		return env.Decimal(bson.DecimalFromInt64(v.Date())), nil
	case bson.TypeString:
		d, err := parseDecimal(v.Str())
		return env.Decimal(d), err
	}
	return bson.Value{}, unsupported(v, bson.TypeDecimal)
}

func parseDecimal(s string) (bson.Decimal128, error) {
	if err := refuseHex(s); err != nil {
		return bson.Decimal128{}, err
	}
	if s == "" {
		return bson.Decimal128{}, badNumber(s, "Empty string")
	}
	cut, least := truncateDigits(s)
	d, ok := bson.ParseDecimal(cut)
	switch {
	case !ok:
		return d, badNumber(s, "Failed to parse string to decimal")
	case d.IsNaN() && s[0] == '-':
		d.H |= 1 << 63 // the sign
	case least == unset:
	case d.IsInf() != 0:
		return d, badNumber(s, "Conversion from string to decimal would overflow")
	case least < minDecimalExponent:
		return d, badNumber(s, "Conversion from string to decimal would underflow")
	}
	return d, nil
}

// minDecimalExponent is the least exponent of a decimal.
const minDecimalExponent = -6176

// truncateDigits makes zeros of the digits behind the first that a decimal has
// room for, since the server drops them. least is the power of ten of the last
// digit that counts, or unset where all are zero.
func truncateDigits(s string) (cut string, least int) {
	b := []byte(s)
	end := len(mantissa(s))
	exp := 0
	if end < len(s) {
		exp, _ = strconv.Atoi(s[end+1:])
	}
	whole := strings.IndexByte(s[:end], '.')
	if whole < 0 {
		whole = end
	}
	least = unset
	digits := 0
	for i, c := range b[:end] {
		if c < '0' || c > '9' || c == '0' && digits == 0 {
			continue
		}
		if digits++; digits > decimalDigits {
			b[i] = '0'
			continue
		}
		if c != '0' {
			least = exp + whole - i
			if i < whole {
				least--
			}
		}
	}
	return string(b), least
}
