package bson

import (
	"math/bits"
	"strconv"
	"strings"
)

// String is d in the form of the specification: digits with a point where the
// exponent is small, else scientific with an upper-case E; trailing zeros and
// the sign of zero are kept. NaN, Infinity, -Infinity.
func (d Decimal128) String() string {
	var buf [48]byte
	return string(d.AppendText(buf[:0]))
}

// AppendText appends d.String().
func (d Decimal128) AppendText(dst []byte) []byte {
	if d.IsNaN() {
		return append(dst, "NaN"...)
	}
	if d.Negative() {
		dst = append(dst, '-')
	}
	if d.IsInf() != 0 {
		return append(dst, "Infinity"...)
	}
	exp, hi, lo := d.parts()
	var buf [decimalDigits]byte
	digits := coefficientDigits(buf[:0], hi, lo)
	adjusted := exp + len(digits) - 1
	switch {
	case exp > 0 || adjusted < -6:
		dst = append(dst, digits[0])
		if len(digits) > 1 {
			dst = append(append(dst, '.'), digits[1:]...)
		}
		dst = append(dst, 'E')
		if adjusted >= 0 {
			dst = append(dst, '+')
		}
		return strconv.AppendInt(dst, int64(adjusted), 10)
	case exp == 0:
		return append(dst, digits...)
	case adjusted >= 0:
		point := len(digits) + exp
		return append(append(append(dst, digits[:point]...), '.'), digits[point:]...)
	default:
		dst = append(dst, "0."...)
		for i := adjusted + 1; i < 0; i++ {
			dst = append(dst, '0')
		}
		return append(dst, digits...)
	}
}

const tenTo19 = 10_000_000_000_000_000_000

// coefficientDigits appends the decimal digits of hi·2^64+lo, at least one;
// hi is less than 10^19.
func coefficientDigits(dst []byte, hi, lo uint64) []byte {
	q, r := bits.Div64(hi, lo, tenTo19)
	if q == 0 {
		return strconv.AppendUint(dst, r, 10)
	}
	dst = strconv.AppendUint(dst, q, 10)
	n := len(dst)
	dst = append(dst, "0000000000000000000"...)
	for i := n + 18; r > 0; i-- {
		dst[i] = byte('0' + r%10)
		r /= 10
	}
	return dst
}

// ParseDecimal reads a decimal number with an optional exponent, or one of
// inf, infinity and nan in any case, each with an optional sign. More than 34
// digits round half to even; too large becomes infinite, too small zero.
func ParseDecimal(s string) (d Decimal128, ok bool) {
	negative := false
	if s != "" && (s[0] == '-' || s[0] == '+') {
		negative, s = s[0] == '-', s[1:]
	}
	switch strings.ToLower(s) {
	case "inf", "infinity":
		return decimalInfinity(negative), true
	case "nan":
		return DecimalNaN, true
	}
	mantissa, exp := s, 0
	if e := strings.IndexAny(s, "eE"); e >= 0 {
		if exp, ok = parseExponent(s[e+1:]); !ok {
			return DecimalNaN, false
		}
		mantissa = s[:e]
	}
	var buf [64]byte
	digits, point := buf[:0], -1
	for i := range len(mantissa) {
		switch c := mantissa[i]; {
		case c >= '0' && c <= '9':
			digits = append(digits, c)
		case c == '.' && point < 0:
			point = len(digits)
		default:
			return DecimalNaN, false
		}
	}
	if len(digits) == 0 {
		return DecimalNaN, false
	}
	if point >= 0 {
		exp -= len(digits) - point
	}
	return NewDecimal(negative, digits, exp), true
}

// parseExponent reads a signed number and cuts it to a range from which no
// number of digits leads back.
func parseExponent(s string) (exp int, ok bool) {
	const limit = 1 << 30
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		if ne, is := err.(*strconv.NumError); !is || ne.Err != strconv.ErrRange {
			return 0, false
		}
	}
	return int(min(max(n, -limit), limit)), true
}

func decimalInfinity(negative bool) Decimal128 {
	if negative {
		return Decimal128{H: decimalInf | decimalSignBit}
	}
	return Decimal128{H: decimalInf}
}

// NewDecimal makes ±digits·10^exp from at least one ASCII digit, rounded once,
// half to even, to 34 digits and to the smallest exponent; too large becomes
// infinite. It may write into digits.
func NewDecimal(negative bool, digits []byte, exp int) Decimal128 {
	for len(digits) > 1 && digits[0] == '0' {
		digits = digits[1:]
	}
	zero := len(digits) == 1 && digits[0] == '0'
	if zero {
		exp = min(max(exp, decimalExpMin), decimalExpMax)
	}
	if drop := max(len(digits)-decimalDigits, decimalExpMin-exp); drop > 0 {
		digits = roundDigits(digits, drop)
		exp += drop
		if len(digits) > decimalDigits { // 99…9 became 100…0
			digits = digits[:decimalDigits]
			exp++
		}
	}
	hi, lo := coefficient(digits)
	for n := len(digits); exp > decimalExpMax; n++ {
		if n == decimalDigits {
			return decimalInfinity(negative)
		}
		hi, lo = mulAdd10(hi, lo, 0)
		exp--
	}
	d := Decimal128{H: uint64(exp+decimalBias)<<49 | hi, L: lo}
	if negative {
		d.H |= decimalSignBit
	}
	return d
}

// roundDigits cuts the last drop digits, rounding half to even.
func roundDigits(digits []byte, drop int) []byte {
	if drop > len(digits) {
		return append(digits[:0], '0')
	}
	cut := digits[len(digits)-drop:]
	kept := digits[:len(digits)-drop]
	up := cut[0] > '5'
	if cut[0] == '5' {
		up = len(kept) > 0 && kept[len(kept)-1]&1 == 1
		for _, c := range cut[1:] {
			up = up || c != '0'
		}
	}
	if !up {
		if len(kept) == 0 {
			return append(kept, '0')
		}
		return kept
	}
	for i := len(kept) - 1; i >= 0; i-- {
		if kept[i] != '9' {
			kept[i]++
			return kept
		}
		kept[i] = '0'
	}
	kept = append(kept, '0')
	copy(kept[1:], kept)
	kept[0] = '1'
	return kept
}

// coefficient is the number that at most 38 digits write.
func coefficient(digits []byte) (hi, lo uint64) {
	for _, c := range digits {
		hi, lo = mulAdd10(hi, lo, uint64(c-'0'))
	}
	return hi, lo
}

func mulAdd10(hi, lo, add uint64) (uint64, uint64) {
	h, l := bits.Mul64(lo, 10)
	l, carry := bits.Add64(l, add, 0)
	return hi*10 + h + carry, l
}
