package bson

import (
	"math/big"
	"math/bits"
)

// Arithmetic on decimals is IEEE 754-2008's: results are rounded once, half to
// even, to 34 digits; an exact result has the exponent that the standard calls
// preferred (the smaller one of a sum, the sum of a product's), so that trailing
// zeros come out as they do from the server.

// exactDigits is how many digits a uint128 takes without doubt, and one digit
// more is still fit for coefficientDigits.
const exactDigits = 37

// coefficientOf is the exponent and the coefficient of a finite number.
func (d Decimal128) coefficientOf() (exp int, c uint128) {
	exp, hi, lo := d.parts()
	return exp, uint128{hi, lo}
}

// Neg is d with the other sign; NaN has none.
func (d Decimal128) Neg() Decimal128 {
	if d.IsNaN() {
		return DecimalNaN
	}
	return Decimal128{d.H ^ decimalSignBit, d.L}
}

// Abs is d without a sign.
func (d Decimal128) Abs() Decimal128 {
	if d.IsNaN() {
		return DecimalNaN
	}
	return Decimal128{d.H &^ decimalSignBit, d.L}
}

// decimalFrom makes ±c·10^exp; c has at most exactDigits+1 digits.
func decimalFrom(negative bool, c uint128, exp int) Decimal128 {
	if c.digits() > decimalDigits || exp < decimalExpMin || exp > decimalExpMax {
		var buf [decimalDigits + 8]byte
		return NewDecimal(negative, coefficientDigits(buf[:0], c.hi, c.lo), exp)
	}
	d := Decimal128{uint64(exp+decimalBias)<<49 | c.hi, c.lo}
	if negative {
		d.H |= decimalSignBit
	}
	return d
}

// firstNaN is what an operation yields of whose operands one at least is NaN:
// the first of those, with its sign.
func firstNaN(d, e Decimal128) Decimal128 {
	if !d.IsNaN() {
		d = e
	}
	return Decimal128{H: decimalNaN | d.H&decimalSignBit}
}

// Add is d+e.
func (d Decimal128) Add(e Decimal128) Decimal128 {
	di, ei := d.IsInf(), e.IsInf()
	switch {
	case d.IsNaN() || e.IsNaN():
		return firstNaN(d, e)
	case di*ei < 0:
		return DecimalNaN
	case di != 0:
		return decimalInfinity(di < 0)
	case ei != 0:
		return decimalInfinity(ei < 0)
	}
	if d.Exponent() < e.Exponent() {
		d, e = e, d
	}
	dx, dc := d.coefficientOf()
	ex, ec := e.coefficientOf()
	if !dc.isZero() && dc.digits()+dx-ex > exactDigits {
		return addFar(d.Negative(), dc, dx, e.Negative(), ec, ex)
	}
	if dc.isZero() {
		dx = ex
	}
	sum, negative := addSigned(d.Negative(), dc.mulPow10(dx-ex), e.Negative(), ec)
	return decimalFrom(negative, sum, ex)
}

// addFar adds numbers of which the second one has, next to the first one with
// all digits that matter, no or some digits, and an unimportant rest.
func addFar(dneg bool, dc uint128, dx int, eneg bool, ec uint128, ex int) Decimal128 {
	extend := exactDigits - 1 - dc.digits()
	dc, dx = dc.mulPow10(extend), dx-extend
	var exact bool
	if dx-ex > maxPow10 {
		ec, exact = uint128{}, ec.isZero()
	} else {
		ec, exact = ec.divPow10(dx - ex)
	}
	// One more digit stands for the rest: it tells a half from more or less.
	dc, ec = dc.mulPow10(1), ec.mulPow10(1)
	if !exact {
		ec.lo |= 1
	}
	sum, negative := addSigned(dneg, dc, eneg, ec)
	return decimalFrom(negative, sum, dx-1)
}

// addSigned adds; a sum of zero is negative where both are.
func addSigned(aneg bool, a uint128, bneg bool, b uint128) (sum uint128, negative bool) {
	if aneg == bneg {
		lo, carry := bits.Add64(a.lo, b.lo, 0)
		hi, _ := bits.Add64(a.hi, b.hi, carry)
		return uint128{hi, lo}, aneg
	}
	switch c := a.cmp(b); {
	case c > 0:
		return a.sub(b), aneg
	case c < 0:
		return b.sub(a), bneg
	}
	return uint128{}, false
}

// Subtract is d-e.
func (d Decimal128) Subtract(e Decimal128) Decimal128 { return d.Add(e.Neg()) }

// Multiply is d·e.
func (d Decimal128) Multiply(e Decimal128) Decimal128 {
	negative := d.Negative() != e.Negative()
	switch {
	case d.IsNaN() || e.IsNaN():
		return firstNaN(d, e)
	case d.IsInf() != 0 || e.IsInf() != 0:
		if d.IsZero() || e.IsZero() {
			return DecimalNaN
		}
		return decimalInfinity(negative)
	}
	dx, dc := d.coefficientOf()
	ex, ec := e.coefficientOf()
	if dc.digits()+ec.digits() <= exactDigits {
		hi, lo := bits.Mul64(dc.lo, ec.lo)
		return decimalFrom(negative, uint128{hi + dc.hi*ec.lo + dc.lo*ec.hi, lo}, dx+ex)
	}
	var buf [2*decimalDigits + 4]byte
	product := dc.big()
	return NewDecimal(negative, product.Mul(product, ec.big()).Append(buf[:0], 10), dx+ex)
}

// MultiplyAdd is d·e+f, rounded once; an exact result has the smaller one of the
// exponents of product and summand, as far as the digits last.
func (d Decimal128) MultiplyAdd(e, f Decimal128) Decimal128 {
	for _, x := range [...]Decimal128{d, e, f} {
		if x.IsNaN() || x.IsInf() != 0 {
			return d.Multiply(e).Add(f)
		}
	}
	dx, dc := d.coefficientOf()
	ex, ec := e.coefficientOf()
	fx, fc := f.coefficientOf()
	px, sum, summand := dx+ex, dc.big(), fc.big()
	sum.Mul(sum, ec.big())
	ten := func(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }
	if px > fx {
		sum.Mul(sum, ten(px-fx))
	} else {
		summand.Mul(summand, ten(fx-px))
	}
	negative := d.Negative() != e.Negative()
	if negative != f.Negative() {
		sum.Sub(sum, summand)
		negative = sum.Sign() != 0 && negative == (sum.Sign() > 0)
	} else {
		sum.Add(sum, summand)
	}
	return NewDecimal(negative, sum.Abs(sum).Append(nil, 10), min(px, fx))
}

// Divide is d/e: infinite where only e is zero, NaN where both are.
func (d Decimal128) Divide(e Decimal128) Decimal128 {
	negative := d.Negative() != e.Negative()
	switch {
	case d.IsNaN() || e.IsNaN():
		return firstNaN(d, e)
	case d.IsInf() != 0 && e.IsInf() != 0 || d.IsZero() && e.IsZero():
		return DecimalNaN
	case d.IsInf() != 0 || e.IsZero():
		return decimalInfinity(negative)
	case e.IsInf() != 0:
		return NewDecimal(negative, []byte{'0'}, decimalExpMin)
	}
	dx, dc := d.coefficientOf()
	ex, ec := e.coefficientOf()
	preferred := dx - ex
	if dc.isZero() {
		return NewDecimal(negative, []byte{'0'}, preferred)
	}
	extend := max(decimalDigits+2+ec.digits()-dc.digits(), 0)
	quotient := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(extend)), nil)
	quotient.Mul(quotient, dc.big())
	quotient, rest := quotient.QuoRem(quotient, ec.big(), new(big.Int))
	var buf [2*decimalDigits + 8]byte
	digits, exp := quotient.Append(buf[:0], 10), preferred-extend
	if rest.Sign() != 0 {
		digits, exp = append(digits, '1'), exp-1
	}
	for exp < preferred && digits[len(digits)-1] == '0' {
		digits, exp = digits[:len(digits)-1], exp+1
	}
	return NewDecimal(negative, digits, exp)
}

// Mod is what is left of d after taking away the largest multiple of e towards
// zero: it has the sign of d. It is NaN for an infinite d and for e of zero.
func (d Decimal128) Mod(e Decimal128) Decimal128 {
	switch {
	case d.IsNaN() || e.IsNaN():
		return firstNaN(d, e)
	case d.IsInf() != 0 || e.IsZero():
		return DecimalNaN
	case e.IsInf() != 0:
		return d
	}
	dx, dc := d.coefficientOf()
	ex, ec := e.coefficientOf()
	if ex-dx > decimalDigits {
		return d // e is larger
	}
	rest, divisor := dc.big(), ec.big()
	scale := big.NewInt(int64(max(dx-ex, ex-dx)))
	if dx >= ex {
		rest.Mul(rest, scale.Exp(big.NewInt(10), scale, divisor))
	} else {
		divisor.Mul(divisor, scale.Exp(big.NewInt(10), scale, nil))
	}
	var buf [2*decimalDigits + 8]byte
	return NewDecimal(d.Negative(), rest.Rem(rest, divisor).Append(buf[:0], 10), min(dx, ex))
}
