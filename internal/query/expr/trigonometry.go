package expr

import (
	"math"
	"math/big"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// angleFunction is an operator of one number from an interval.
type angleFunction struct {
	name string
	fn   func(x *big.Float) *big.Float
	// quick, where not nil, is fn for doubles of at most quickAngle in size.
	quick func(float64) float64
	// ofZero and ofInf are the values at zero and at infinity. A function that is
	// odd is 0 at -0 and has the other sign at -infinity.
	ofZero, ofInf float64
	odd           bool
	// The interval; open says that its ends do not belong to it.
	from, to float64
	open     bool
}

var inf = math.Inf(1)

func init() {
	for _, f := range []angleFunction{
		{name: "$sin", fn: bigSin, quick: sinDouble, odd: true, from: -inf, to: inf, open: true},
		{name: "$cos", fn: bigCos, quick: cosDouble, ofZero: 1, from: -inf, to: inf, open: true},
		{name: "$tan", fn: bigTan, quick: tanDouble, odd: true, from: -inf, to: inf, open: true},
		{name: "$asin", fn: bigArcsin, odd: true, from: -1, to: 1},
		{name: "$acos", fn: bigArccos, ofZero: math.Pi / 2, from: -1, to: 1},
		{name: "$atan", fn: bigArctan, odd: true, ofInf: math.Pi / 2, from: -inf, to: inf},
		{name: "$sinh", fn: bigSinh, odd: true, ofInf: inf, from: -inf, to: inf},
		{name: "$cosh", fn: bigCosh, ofZero: 1, ofInf: inf, from: -inf, to: inf},
		{name: "$tanh", fn: bigTanh, odd: true, ofInf: 1, from: -inf, to: inf},
		{name: "$asinh", fn: bigArsinh, quick: arsinhDouble, odd: true, ofInf: inf, from: -inf, to: inf},
		{name: "$acosh", fn: bigArcosh, quick: arcoshDouble, ofInf: inf, from: 1, to: inf},
		{name: "$atanh", fn: bigArtanh, quick: math.Atanh, odd: true, from: -1, to: 1},
	} {
		registerNumeric(f.name, f.eval)
	}
	registerNary("$atan2", 2, 2, evalArctan2)
	registerTurn("$degreesToRadians", math.Pi/180, mustDecimal("0.01745329251994329576923690768488613"))
	registerTurn("$radiansToDegrees", 180/math.Pi, mustDecimal("57.29577951308232087679815481410517"))
}

func mustDecimal(s string) bson.Decimal128 {
	d, ok := bson.ParseDecimal(s)
	if !ok {
		panic("expr: bad constant " + s)
	}
	return d
}

// registerTurn registers an operator that multiplies by a constant.
func registerTurn(name string, f float64, d bson.Decimal128) {
	registerNumeric(name, func(env *Env, v bson.Value) (bson.Value, error) {
		if v.Type == bson.TypeDecimal {
			return env.Decimal(v.Decimal().Multiply(d)), nil
		}
		return env.Double(bson.ToDouble(v) * f), nil
	})
}

func (f angleFunction) eval(env *Env, v bson.Value) (bson.Value, error) {
	if v.IsNaN() {
		return v, nil
	}
	if !f.within(v) {
		left, right := "[", "]"
		if f.open {
			left, right = "(", ")"
		}
		return bson.Value{}, mongoerr.New(mongoerr.Code(50989), "cannot apply %s to %s, value must be in %s%s,%s%s",
			f.name, plainText(v), left, shortDouble(f.from), shortDouble(f.to), right)
	}
	if v.Type == bson.TypeDecimal {
		return env.Decimal(f.ofDecimal(v.Decimal())), nil
	}
	return env.Double(f.ofDouble(bson.ToDouble(v))), nil
}

// plainText is a number without the point that tells doubles from ints.
func plainText(v bson.Value) string {
	if v.Type == bson.TypeDouble {
		return shortDouble(v.Double())
	}
	return text(v)
}

func (f angleFunction) within(v bson.Value) bool {
	low := bson.CompareNumbers(v, bson.Double(f.from))
	high := bson.CompareNumbers(v, bson.Double(f.to))
	if f.open {
		return low > 0 && high < 0
	}
	return low >= 0 && high <= 0
}

func (f angleFunction) ofDouble(x float64) float64 {
	switch {
	case x == 0 && f.odd:
		return x
	case x == 0:
		return f.ofZero
	case math.IsInf(x, 0):
		if f.odd {
			return math.Copysign(f.ofInf, x)
		}
		return f.ofInf
	case f.name == "$atanh" && math.Abs(x) == 1:
		return math.Copysign(inf, x)
	case f.ofInf == inf && f.grows() && math.Abs(x) > expLimit:
		return f.ofDouble(math.Copysign(inf, x))
	}
	if f.quick != nil && math.Abs(x) <= quickAngle && math.Abs(x) > smallestNormal {
		return f.quick(x)
	}
	r, _ := f.fn(newFloat().SetFloat64(x)).Float64()
	return r
}

// grows says whether a function grows as the exponential does.
func (f angleFunction) grows() bool { return f.name == "$sinh" || f.name == "$cosh" }

// tinyDecimal is the exponent below which the value of an odd function cannot
// be told from its argument.
const tinyDecimal = -60

func (f angleFunction) ofDecimal(d bson.Decimal128) bson.Decimal128 {
	digits, exp := d.Digits(nil)
	size := exp + len(digits)
	switch {
	case d.IsInf() != 0:
		return signed(f.atInfinity(), f.odd && d.Negative())
	case d.IsZero() && f.odd:
		return d
	case d.IsZero() && f.ofZero == 1:
		return decimalOne
	case size < tinyDecimal && f.odd:
		return d
	case size < tinyDecimal && f.ofZero == 1:
		return decimalOne
	case f.name == "$atanh" && bson.CompareDecimals(d.Abs(), decimalOne) == 0:
		return signed(decimalInfinity, d.Negative())
	case f.grows() && bson.CompareDecimals(d.Abs(), bson.DecimalFromInt64(hyperbolicLimit)) > 0:
		return signed(decimalInfinity, f.odd && d.Negative())
	}
	q, exp := toQuad(d)
	if exp != 0 {
		q = exactFloat(d)
	}
	return fromQuad(f.fn(q), 0)
}

// atInfinity is the value at infinity, exactly.
func (f angleFunction) atInfinity() bson.Decimal128 {
	switch f.ofInf {
	case inf:
		return decimalInfinity
	case 1:
		return decimalOne
	}
	half := newFloat().Set(bigPi(workBits))
	return fromQuad(half.SetMantExp(half, -1), 0)
}

func signed(d bson.Decimal128, negative bool) bson.Decimal128 {
	if negative {
		return d.Neg()
	}
	return d
}

// exactFloat is a finite number without rounding.
func exactFloat(d bson.Decimal128) *big.Float {
	digits, exp := d.Digits(nil)
	n, _ := new(big.Int).SetString(string(digits), 10)
	if d.Negative() {
		n.Neg(n)
	}
	if exp < 0 { // it is small
		q, e := toQuad(d)
		return q.Mul(q, bigExp(newFloat().Mul(bigLn10, newFloat().SetInt64(int64(e)))))
	}
	n.Mul(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(exp)), nil))
	return new(big.Float).SetPrec(uint(max(n.BitLen(), workBits))).SetInt(n)
}

func evalArctan2(env *Env, args []Expr) (bson.Value, error) {
	var vs [2]bson.Value
	for i, code := range []mongoerr.Code{51044, 51045} {
		v, err := args[i].Eval(env)
		if err != nil || v.IsNullish() {
			return bson.Null, err
		}
		if !v.IsNumber() {
			return bson.Value{}, mongoerr.New(code, "$atan2 only supports numeric types, not %s", v.Type)
		}
		vs[i] = v
	}
	y, x := vs[0], vs[1]
	if wider(y.Type, x.Type) == bson.TypeDecimal {
		return env.Decimal(arctan2Decimal(bson.ToDecimal(y), bson.ToDecimal(x))), nil
	}
	return env.Double(arctan2Double(bson.ToDouble(y), bson.ToDouble(x))), nil
}

func arctan2Double(y, x float64) float64 {
	special := func(f float64) bool { return f == 0 || math.IsNaN(f) || math.IsInf(f, 0) }
	if special(y) || special(x) {
		return math.Atan2(y, x)
	}
	r, _ := bigArctan2(newFloat().SetFloat64(y), newFloat().SetFloat64(x)).Float64()
	return r
}

func arctan2Decimal(y, x bson.Decimal128) bson.Decimal128 {
	switch {
	case y.IsNaN() || x.IsNaN():
		return bson.DecimalNaN
	case y.IsZero() && !x.Negative():
		return signed(decimalZero, y.Negative())
	}
	// What is infinite or zero stands for an angle of a multiple of π/4.
	yf, xf := angleLeg(y, x), angleLeg(x, y)
	r := bigArctan2(yf, xf)
	if y.IsZero() && y.Negative() && r.Sign() > 0 {
		r.Neg(r)
	}
	return fromQuad(r, 0)
}

// angleLeg is one coordinate of a point in the direction of (a, other): an
// infinite one is 1, and beside it a finite one is 0.
func angleLeg(a, other bson.Decimal128) *big.Float {
	switch {
	case a.IsInf() != 0:
		return newFloat().SetInt64(int64(a.IsInf()))
	case other.IsInf() != 0 || a.IsZero():
		f := newFloat()
		if a.Negative() {
			f.Neg(f)
		}
		return f
	}
	q, exp := toQuad(a)
	if exp != 0 {
		return exactFloat(a)
	}
	return q
}
