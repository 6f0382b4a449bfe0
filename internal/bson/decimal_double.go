package bson

import (
	"cmp"
	"math"
	"math/big"
	"strconv"
)

const doubleBits = 53 // of a double's significand

// TruncateToDouble is the double nearest to d that is not further from zero
// than d, and whether it equals d. Two decimals that truncate to different
// doubles are in the order of these. A finite d never becomes infinite.
func (d Decimal128) TruncateToDouble() (f float64, exact bool) {
	switch {
	case d.IsNaN():
		return math.NaN(), true
	case d.IsInf() != 0:
		return math.Inf(d.IsInf()), true
	}
	exp, hi, lo := d.parts()
	c := uint128{hi, lo}
	switch {
	case c.isZero():
		exact = true
	case exp >= 0 && c.digits()+exp <= maxPow10:
		f, exact = truncateInteger(c.mulPow10(exp))
	case exp < 0 && -exp <= maxPow10:
		f, exact = truncateQuotient(c, pow10[-exp])
	default:
		f, exact = truncateBig(c, exp)
	}
	if d.Negative() {
		f = -f
	}
	return f, exact
}

func truncateInteger(c uint128) (f float64, exact bool) {
	shift := max(c.bitLen()-doubleBits, 0)
	m := c.shr(shift)
	return math.Ldexp(float64(m.lo), shift), m.shl(shift) == c
}

// truncateQuotient is num/den, neither of which has more than 127 bits.
func truncateQuotient(num, den uint128) (f float64, exact bool) {
	shift := den.bitLen() - num.bitLen()
	if shift >= 0 {
		num = num.shl(shift)
	} else {
		den = den.shl(-shift)
	}
	if num.cmp(den) < 0 {
		num, shift = num.shl(1), shift+1
	}
	// num/den is in [1, 2) now: its first bits are the significand.
	var m uint64
	for range doubleBits {
		m <<= 1
		if num.cmp(den) >= 0 {
			num = num.sub(den)
			m |= 1
		}
		num = num.shl(1)
	}
	return math.Ldexp(float64(m), -(doubleBits-1)-shift), num.isZero()
}

// truncateBig is c·10^exp for exponents out of the reach of 128 bits.
func truncateBig(c uint128, exp int) (f float64, exact bool) {
	const minExponent, maxExponent = -1022, 1023
	num, den := c.big(), big.NewInt(1)
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(exp, -exp))), nil)
	if exp >= 0 {
		num.Mul(num, scale)
	} else {
		den = scale
	}
	// 2^e ≤ num/den < 2^(e+1)
	e := num.BitLen() - den.BitLen()
	if shifted := new(big.Int).Lsh(den, uint(max(e, 0))); new(big.Int).Lsh(num, uint(max(-e, 0))).Cmp(shifted) < 0 {
		e--
	}
	if e > maxExponent {
		return math.MaxFloat64, false
	}
	last := max(e, minExponent) - (doubleBits - 1) // weight of the significand's last bit
	if last < 0 {
		num.Lsh(num, uint(-last))
	} else {
		den.Lsh(den, uint(last))
	}
	m, rest := num.QuoRem(num, den, new(big.Int))
	return math.Ldexp(float64(m.Uint64()), last), rest.Sign() == 0
}

func (a uint128) big() *big.Int {
	b := new(big.Int).SetUint64(a.hi)
	return b.Lsh(b, 64).Or(b, new(big.Int).SetUint64(a.lo))
}

// Double is the double nearest to d, ties to even; too large becomes infinite.
func (d Decimal128) Double() float64 {
	if f, exact := d.TruncateToDouble(); exact {
		return f
	}
	f, _ := strconv.ParseFloat(d.String(), 64) // out of range is the infinity wanted
	return f
}

// TruncateToInt64 drops the fraction of d. ok reports whether the result fits (it
// never does for infinities and NaN), exact whether there was no fraction.
func (d Decimal128) TruncateToInt64() (i int64, exact, ok bool) {
	if d.IsNaN() || d.IsInf() != 0 {
		return 0, false, false
	}
	exp, hi, lo := d.parts()
	c := uint128{hi, lo}
	exact = true
	switch {
	case c.isZero():
		return 0, true, true
	case exp > 0:
		if c.digits()+exp > 19 {
			return 0, true, false
		}
		c = c.mulPow10(exp)
	case -exp >= decimalDigits:
		return 0, false, true
	default:
		c, exact = c.divPow10(-exp)
	}
	switch {
	case c.hi != 0:
		return 0, exact, false
	case c.lo <= math.MaxInt64:
		i = int64(c.lo)
		if d.Negative() {
			i = -i
		}
		return i, exact, true
	}
	return math.MinInt64, exact, d.Negative() && c.lo == 1<<63
}

// compareDecimalDouble orders by exact mathematical value; NaN is lowest.
func compareDecimalDouble(d Decimal128, f float64) int {
	t, exact := d.TruncateToDouble()
	switch {
	case math.IsNaN(t) || math.IsNaN(f):
		return b2i(math.IsNaN(f)) - b2i(math.IsNaN(t))
	case t != f:
		return cmp.Compare(t, f)
	case exact:
		return 0
	case d.Negative():
		return -1
	}
	return 1
}

// RoundToInt64 rounds d half to even. ok reports whether the result fits; it never
// does for infinities and NaN.
func (d Decimal128) RoundToInt64() (i int64, ok bool) {
	i, exact, ok := d.TruncateToInt64()
	if !ok || exact {
		return i, ok
	}
	if c := d.compareFractionToHalf(); c > 0 || c == 0 && i&1 != 0 {
		if d.Negative() {
			return i - 1, i != math.MinInt64
		}
		return i + 1, i != math.MaxInt64
	}
	return i, true
}

// compareFractionToHalf orders the size of d's fraction against 1/2; d has a
// negative exponent.
func (d Decimal128) compareFractionToHalf() int {
	exp, hi, lo := d.parts()
	if -exp > decimalDigits {
		return -1
	}
	c := uint128{hi, lo}
	whole, _ := c.divPow10(-exp)
	return c.sub(whole.mulPow10(-exp)).shl(1).cmp(pow10[-exp])
}
