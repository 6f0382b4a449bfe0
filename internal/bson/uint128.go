package bson

import (
	"cmp"
	"math/bits"
)

// uint128 is an unsigned integer: the coefficient of a decimal, or a power of
// ten it is scaled by.
type uint128 struct{ hi, lo uint64 }

// maxPow10 is the largest power of ten in a uint128 that can be doubled
// without overflow.
const maxPow10 = 38

var pow10 = func() (t [maxPow10 + 1]uint128) {
	t[0].lo = 1
	for i := 1; i <= maxPow10; i++ {
		t[i].hi, t[i].lo = mulAdd10(t[i-1].hi, t[i-1].lo, 0)
	}
	return
}()

func (a uint128) isZero() bool { return a.hi|a.lo == 0 }

func (a uint128) cmp(b uint128) int {
	return cmp.Or(cmp.Compare(a.hi, b.hi), cmp.Compare(a.lo, b.lo))
}

func (a uint128) sub(b uint128) uint128 {
	lo, borrow := bits.Sub64(a.lo, b.lo, 0)
	hi, _ := bits.Sub64(a.hi, b.hi, borrow)
	return uint128{hi, lo}
}

func (a uint128) shl(n int) uint128 {
	if n >= 64 {
		return uint128{a.lo << (n - 64), 0}
	}
	return uint128{a.hi<<n | a.lo>>(64-n), a.lo << n}
}

func (a uint128) shr(n int) uint128 {
	if n >= 64 {
		return uint128{0, a.hi >> (n - 64)}
	}
	return uint128{a.hi >> n, a.lo>>n | a.hi<<(64-n)}
}

func (a uint128) bitLen() int {
	if a.hi != 0 {
		return 64 + bits.Len64(a.hi)
	}
	return bits.Len64(a.lo)
}

// digits is the number of decimal digits of a, 0 for zero.
func (a uint128) digits() int {
	n := (a.bitLen()*1233 + 4095) >> 12 // ·log10(2), at most one too large
	if n > 0 && n <= maxPow10+1 && a.cmp(pow10[n-1]) < 0 {
		n--
	}
	return n
}

// mulPow10 is a·10^n; the product must fit.
func (a uint128) mulPow10(n int) uint128 {
	p := pow10[n]
	hi, lo := bits.Mul64(a.lo, p.lo)
	return uint128{hi + a.hi*p.lo + a.lo*p.hi, lo}
}

// divPow10 is a/10^n and whether that leaves no rest.
func (a uint128) divPow10(n int) (q uint128, exact bool) {
	q, exact = a, true
	for n > 0 {
		step := min(n, 19)
		d := pow10[step].lo
		lo, rest := bits.Div64(q.hi%d, q.lo, d)
		q = uint128{q.hi / d, lo}
		exact = exact && rest == 0
		n -= step
	}
	return q, exact
}
