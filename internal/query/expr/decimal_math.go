package expr

import (
	"bytes"
	"math/big"
	"strconv"

	"github.com/cockroachdb/apd/v3"

	"github.com/mayflydb/mayfly/internal/bson"
)

// The server computes elementary functions of decimals in the binary format of
// 113 bits and rounds to 34 decimal digits afterwards; this shows in the last
// digit and in the trailing zeros of exact results. So do the functions here:
// argument and result pass through 113 bits, and in between there is enough
// precision that the binary result is the correctly rounded one.

// decimalDigits is the precision of a decimal.
const decimalDigits = 34

// quadBits is the precision of the binary format.
const quadBits = 113

// maxQuadExponent is the size of a decimal exponent up to which a number passes
// through the binary format as a whole; beyond, its power of ten stays apart.
const maxQuadExponent = 300

// toQuad returns a finite number as q·10^exp, q rounded to 113 bits.
func toQuad(d bson.Decimal128) (q *big.Float, exp int) {
	if e := d.Exponent(); e < -maxQuadExponent || e > maxQuadExponent {
		exp = e
		if d.IsZero() {
			return newFloat(), 0
		}
		digits, _ := d.Digits(nil)
		d = bson.NewDecimal(d.Negative(), digits, 0)
	}
	f, _, err := big.ParseFloat(d.String(), 10, quadBits, big.ToNearestEven)
	if err != nil {
		return newFloat(), 0
	}
	return newFloat().Set(f), exp
}

// fromQuad rounds f to 113 bits, then f·10^exp to 34 digits, all of which it
// keeps.
func fromQuad(f *big.Float, exp int) bson.Decimal128 {
	if f.Sign() == 0 {
		return decimalZero
	}
	var buf [64]byte
	s := new(big.Float).SetPrec(quadBits).Set(f).Append(buf[:0], 'e', decimalDigits-1)
	negative := s[0] == '-'
	if negative {
		s = s[1:]
	}
	e := bytes.IndexByte(s, 'e')
	ten, _ := strconv.Atoi(string(s[e+1:]))
	s[1] = s[0] // the point makes room
	return bson.NewDecimal(negative, s[1:e], exp+ten-(decimalDigits-1))
}

// logOfDecimal is the natural logarithm of a positive finite number.
func logOfDecimal(d bson.Decimal128) *big.Float {
	q, exp := toQuad(d)
	l := bigLog(q)
	if exp != 0 {
		l.Add(l, newFloat().Mul(bigLn10, newFloat().SetInt64(int64(exp))))
	}
	return l
}

var (
	decimalZero     = bson.DecimalFromInt64(0)
	decimalOne      = bson.DecimalFromInt64(1)
	decimalTiny     = bson.NewDecimal(false, []byte{'0'}, -6176) // zero, where the result is too small
	decimalInfinity = bson.DecimalFromAPD(&apd.Decimal{Form: apd.Infinite})
)

// The powers of e from which, in decimals, they are infinite or zero.
var (
	decimalExpMax = mustFloat("14149.38539644841072829055748903542")
	decimalExpMin = mustFloat("-15000")
)

func expDecimal(d bson.Decimal128) bson.Decimal128 {
	switch {
	case d.IsNaN():
		return d
	case d.IsInf() > 0:
		return d
	case d.IsInf() < 0:
		return decimalZero
	}
	if d.IsZero() || d.Exponent() < -3*decimalDigits {
		return decimalOne
	}
	if d.Exponent() > maxQuadExponent {
		if d.Negative() {
			return decimalTiny
		}
		return decimalInfinity
	}
	q, _ := toQuad(d)
	return expOf(q)
}

// expOf is e^a.
func expOf(a *big.Float) bson.Decimal128 {
	rounded, _ := newFloat().SetString(a.Text('e', decimalDigits-1))
	switch {
	case rounded.Cmp(decimalExpMax) >= 0:
		return decimalInfinity
	case rounded.Cmp(decimalExpMin) < 0:
		return decimalTiny
	}
	exp := 0
	if a.MantExp(nil) > 8 {
		a, exp = reduceBy(a, bigLn10)
	}
	return fromQuad(bigExp(a), exp)
}

func lnDecimal(d bson.Decimal128) bson.Decimal128 {
	if d.IsNaN() || d.IsInf() != 0 {
		return d
	}
	if bson.CompareDecimals(d, decimalOne) == 0 {
		return decimalZero
	}
	return fromQuad(logOfDecimal(d), 0)
}

// log10Decimal has no trailing zeros where it is a whole number.
func log10Decimal(d bson.Decimal128) bson.Decimal128 {
	if d.IsNaN() || d.IsInf() != 0 {
		return d
	}
	l := logOfDecimal(d)
	r := fromQuad(l.Quo(l, bigLn10), 0)
	if whole, ok := r.WithExponent(0); ok {
		return whole
	}
	return r
}

func logDecimals(d, base bson.Decimal128) bson.Decimal128 {
	return lnDecimal(d).Divide(lnDecimal(base))
}

func powDecimals(base, exponent bson.Decimal128) bson.Decimal128 {
	switch {
	case exponent.IsZero() || bson.CompareDecimals(base, decimalOne) == 0:
		return decimalOne
	case base.IsNaN() || exponent.IsNaN():
		return bson.DecimalNaN
	}
	odd, whole := oddDecimal(exponent)
	if base.IsZero() || base.IsInf() != 0 || exponent.IsInf() != 0 {
		return powSpecial(base, exponent, odd)
	}
	if base.Negative() && !whole {
		return bson.DecimalNaN
	}
	power := logOfDecimal(base.Abs())
	q, exp := toQuad(exponent)
	power.Mul(power, q)
	p := decimalOne
	switch {
	case exp == 0:
		p = expOf(power)
	case exp > 0 && power.Sign() > 0:
		p = decimalInfinity
	case exp > 0 && power.Sign() < 0:
		p = decimalTiny
	}
	if base.Negative() && odd && !p.IsZero() {
		p = p.Neg()
	}
	return p
}

// powSpecial is the power where base or exponent is infinite or base is zero;
// a negative base of an odd power makes infinity negative, never zero.
func powSpecial(base, exponent bson.Decimal128, odd bool) bson.Decimal128 {
	grows := base.IsInf() != 0
	if exponent.IsInf() != 0 {
		switch bson.CompareDecimals(base.Abs(), decimalOne) {
		case 0:
			return decimalOne
		case 1:
			grows = true
		default:
			grows = false
		}
	}
	if grows == exponent.Negative() {
		return decimalTiny
	}
	if base.Negative() && odd {
		return decimalInfinity.Neg()
	}
	return decimalInfinity
}

// oddDecimal says whether a finite number is whole, and odd.
func oddDecimal(d bson.Decimal128) (odd, whole bool) {
	if d.IsInf() != 0 {
		return false, true
	}
	if d.Exponent() > 0 && !d.IsZero() {
		return false, true
	}
	w, ok := d.WithExponent(0)
	if !ok {
		return false, false
	}
	return w.L&1 == 1, true
}
