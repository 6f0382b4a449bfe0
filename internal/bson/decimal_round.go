package bson

// Rounding says which neighbour a number goes to that has too many digits.
type Rounding int

// The ways to round.
const (
	RoundHalfEven   Rounding = iota // the nearest one, the even one of two
	RoundHalfAway                   // the nearest one, the one away from zero of two
	RoundTowardZero                 // $trunc
	RoundFloor                      // $floor
	RoundCeiling                    // $ceil
)

// Quantize is d with the exponent exp, padded with zeros or rounded: with the
// exponent -2, 1.005 becomes 1.00 and 2 becomes 2.00. ok is false if that
// takes more than 34 digits. NaN and infinities stay.
func (d Decimal128) Quantize(exp int, mode Rounding) (r Decimal128, ok bool) {
	if d.IsNaN() || d.IsInf() != 0 {
		return d, true
	}
	from, c := d.coefficientOf()
	if exp <= from {
		return d.WithExponent(exp)
	}
	drop := min(exp-from, decimalDigits+1)
	q, exact := c.divPow10(drop)
	if !exact && roundsAway(mode, d.Negative(), q, c.sub(q.mulPow10(drop)).shl(1).cmp(pow10[drop])) {
		lo := q.lo + 1
		q = uint128{q.hi + uint64(b2i(lo == 0)), lo}
	}
	return decimalFrom(d.Negative(), q, exp), exp <= decimalExpMax
}

// roundsAway reports whether the whole part grows; half is the order of the rest
// against a half.
func roundsAway(mode Rounding, negative bool, whole uint128, half int) bool {
	switch mode {
	case RoundHalfEven:
		return half > 0 || half == 0 && whole.lo&1 != 0
	case RoundHalfAway:
		return half >= 0
	case RoundFloor:
		return negative
	case RoundCeiling:
		return !negative
	}
	return false
}
