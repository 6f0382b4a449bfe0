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
	// ofDecimal is the function of a number that is in the interval.
	ofDecimal func(bson.Decimal128) bson.Decimal128
	// quick, if not nil, is fn for doubles of at most quickAngle in size.
	quick func(float64) float64
	// steps, if not nil, is fn for doubles, as the C library rounds it.
	steps func(float64) float64
	// ofZero and ofInf are the values at zero and at infinity. A function that is
	// odd is 0 at -0 and has the other sign at -infinity.
	ofZero, ofInf float64
	odd           bool
	// The interval; open is true if its ends do not belong to it.
	from, to float64
	open     bool
}

var inf = math.Inf(1)

func init() {
	for _, f := range []angleFunction{
		{name: "$sin", fn: bigSin, ofDecimal: sinDecimal, quick: sinDouble, odd: true, from: -inf, to: inf, open: true},
		{name: "$cos", fn: bigCos, ofDecimal: cosDecimal, quick: cosDouble, ofZero: 1, from: -inf, to: inf, open: true},
		{name: "$tan", fn: bigTan, ofDecimal: tanDecimal, quick: tanDouble, odd: true, from: -inf, to: inf, open: true},
		{name: "$asin", fn: bigArcsin, ofDecimal: arcsinDecimal, odd: true, from: -1, to: 1},
		{name: "$acos", fn: bigArccos, ofDecimal: arccosDecimal, ofZero: math.Pi / 2, from: -1, to: 1},
		{name: "$atan", fn: bigArctan, ofDecimal: arctanDecimal, odd: true, ofInf: math.Pi / 2, from: -inf, to: inf},
		{name: "$sinh", fn: bigSinh, ofDecimal: sinhDecimal, steps: sinhDouble, odd: true, ofInf: inf, from: -inf, to: inf},
		{name: "$cosh", fn: bigCosh, ofDecimal: coshDecimal, steps: coshDouble, ofZero: 1, ofInf: inf, from: -inf, to: inf},
		{name: "$tanh", fn: bigTanh, ofDecimal: tanhDecimal, steps: tanhDouble, odd: true, ofInf: 1, from: -inf, to: inf},
		{name: "$asinh", fn: bigArsinh, ofDecimal: arsinhDecimal, quick: arsinhDouble, odd: true, ofInf: inf, from: -inf, to: inf},
		{name: "$acosh", fn: bigArcosh, ofDecimal: arcoshDecimal, quick: arcoshDouble, ofInf: inf, from: 1, to: inf},
		{name: "$atanh", fn: bigArtanh, ofDecimal: artanhDecimal, quick: math.Atanh, odd: true, from: -1, to: 1},
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
	if f.steps != nil {
		return f.steps(x)
	}
	if f.quick != nil && math.Abs(x) <= quickAngle && math.Abs(x) > smallestNormal {
		return f.quick(x)
	}
	r, _ := f.fn(newFloat().SetFloat64(x)).Float64()
	return r
}

// grows reports whether a function grows as the exponential does.
func (f angleFunction) grows() bool { return f.name == "$sinh" || f.name == "$cosh" }

func signed(d bson.Decimal128, negative bool) bson.Decimal128 {
	if negative {
		return d.Neg()
	}
	return d
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
