package expr

import (
	"bytes"
	"math/big"
	"strconv"

	"github.com/mayflydb/mayfly/internal/bson"
)

// The server computes elementary functions of decimals in the binary format of
// 113 bits: it converts, computes, and converts back, and in some functions does
// steps more in that format or in decimals. Each step rounds, which shows in the
// last of the 34 digits and in the trailing zeros, so the functions here take
// the same steps (decimal_exp.go, decimal_power.go, decimal_angle.go,
// decimal_hyperbolic.go). A quad is a *big.Float of 113 bits; elementary
// functions of quads are rounded from 200 bits, so that they are correct but for
// hopeless cases.

// decimalDigits is the precision of a decimal.
const decimalDigits = 34

// quadBits is the precision of the binary format.
const quadBits = 113

// exactBits is more than the difference of a decimal and its quad takes.
const exactBits = 2*quadBits + 64

// quad rounds to 113 bits.
func quad(f *big.Float) *big.Float { return new(big.Float).SetPrec(quadBits).Set(f) }

func quadOfInt(i int64) *big.Float { return new(big.Float).SetPrec(quadBits).SetInt64(i) }

// newQuad takes the result of a step; the middle between two quads
// becomes the larger one in size.
func newQuad() *big.Float {
	return new(big.Float).SetPrec(quadBits).SetMode(big.ToNearestAway)
}

func quadSum(a, b *big.Float) *big.Float { return newQuad().Add(a, b) }

func quadDifference(a, b *big.Float) *big.Float { return newQuad().Sub(a, b) }

func quadProduct(a, b *big.Float) *big.Float { return newQuad().Mul(a, b) }

// quadQuotient rounds twice, as the server's division does.
func quadQuotient(a, b *big.Float) *big.Float {
	const quotientBits = 128
	return newQuad().Set(new(big.Float).SetPrec(quotientBits).Quo(a, b))
}

// quadFunction is a function of quads from one that is more precise.
func quadFunction(fn func(*big.Float) *big.Float) func(*big.Float) *big.Float {
	return func(q *big.Float) *big.Float { return quad(fn(newFloat().Set(q))) }
}

var (
	quadExp    = quadFunction(bigExp)
	quadLog    = quadFunction(bigLog)
	quadLog1p  = quadFunction(bigLog1p)
	quadSin    = quadFunction(bigSin)
	quadCos    = quadFunction(bigCos)
	quadTan    = quadFunction(bigTan)
	quadArcsin = quadFunction(bigArcsin)
	quadArccos = quadFunction(bigArccos)
	quadArctan = quadFunction(bigArctan)
	quadSinh   = quadFunction(bigSinh)
	quadCosh   = quadFunction(bigCosh)
	quadTanh   = quadFunction(bigTanh)
	quadArsinh = quadFunction(bigArsinh)
	quadArcosh = quadFunction(bigArcosh)

	quadHalf = quad(shift(bigOne, -1))
	quadOne  = quad(bigOne)
	quadLn10 = quad(bigLn10)
	quadPi   = quad(bigPi(workBits))
)

// inBits converts a finite number to prec bits.
func inBits(d bson.Decimal128, prec uint) *big.Float {
	f, _, err := big.ParseFloat(d.String(), 10, prec, big.ToNearestEven)
	if err != nil {
		return new(big.Float).SetPrec(prec)
	}
	return f
}

// toQuad converts a finite number.
func toQuad(d bson.Decimal128) *big.Float { return inBits(d, quadBits) }

// toQuads converts a finite number to the sum of two quads, of which the first
// one is cut off.
func toQuads(d bson.Decimal128) (high, low *big.Float) {
	exact := inBits(d, exactBits)
	high = new(big.Float).SetPrec(quadBits).SetMode(big.ToZero).Set(exact)
	high.SetMode(big.ToNearestEven)
	return high, quadDifference(exact, high)
}

// fromQuad rounds q to 34 digits and keeps all of them, unless q is exactly a
// number that a decimal has with no more digits than needed and with an exponent
// of at most zero.
func fromQuad(q *big.Float) bson.Decimal128 {
	if q.Sign() == 0 {
		return signed(decimalZero, q.Signbit())
	}
	var buf [64]byte
	s := q.Append(buf[:0], 'e', decimalDigits-1)
	negative := s[0] == '-'
	if negative {
		s = s[1:]
	}
	e := bytes.IndexByte(s, 'e')
	ten, _ := strconv.Atoi(string(s[e+1:]))
	s[1] = s[0] // the point makes room
	digits, exp := s[1:e], ten-(decimalDigits-1)
	if exp < 0 && exp > -quadBits {
		for n := len(digits); n > 1 && digits[n-1] == '0' && exp < 0; n-- {
			digits, exp = digits[:n-1], exp+1
		}
		if len(digits) < decimalDigits && toQuadExactly(digits, exp, negative).Cmp(q) != 0 {
			digits, exp = s[1:e], ten-(decimalDigits-1)
		}
	}
	return bson.NewDecimal(negative, digits, exp)
}

// toQuadExactly is a number of at most 33 digits and an exponent of -112 to 0
// with enough bits to tell it from every quad that it does not equal.
func toQuadExactly(digits []byte, exp int, negative bool) *big.Float {
	n, _ := new(big.Int).SetString(string(digits), 10)
	if negative {
		n.Neg(n)
	}
	ten := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-exp)), nil)
	wide := func(i *big.Int) *big.Float { return new(big.Float).SetPrec(4 * quadBits).SetInt(i) }
	return new(big.Float).SetPrec(4*quadBits).Quo(wide(n), wide(ten))
}
