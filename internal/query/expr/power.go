package expr

import (
	"math"
	"math/big"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() {
	registerNumeric("$sqrt", evalSqrt)
	registerNumeric("$exp", evalExp)
	registerBinary("$pow", evalPow)
}

func evalSqrt(env *Env, v bson.Value) (bson.Value, error) {
	if v.Type != bson.TypeDecimal {
		if f := bson.ToDouble(v); !(f < 0) {
			return env.Double(math.Sqrt(f)), nil
		}
	} else if d := v.Decimal(); d.Sign() >= 0 {
		return env.Decimal(sqrtDecimal(d)), nil
	}
	return bson.Value{}, mongoerr.New(mongoerr.Code(28714), "$sqrt's argument must be greater than or equal to 0")
}

// sqrtDecimal rounds once; if the root is exact, it has half the exponent or
// the nearest one that its digits allow.
func sqrtDecimal(d bson.Decimal128) bson.Decimal128 {
	if d.IsNaN() || d.IsInf() != 0 {
		return d
	}
	digits, exp := d.Digits(nil)
	half := exp >> 1
	if d.IsZero() {
		return signed(bson.NewDecimal(false, digits, half), d.Negative())
	}
	// The root of the coefficient with an even exponent and with more digits
	// than a decimal has, and one digit that stands for what remains.
	square, _ := new(big.Int).SetString(string(digits), 10)
	even := exp - 2*(decimalDigits+1) - exp&1
	square.Mul(square, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(exp-even)), nil))
	root := new(big.Int).Sqrt(square)
	if new(big.Int).Mul(root, root).Cmp(square) == 0 {
		return exactRoot(root, even/2, half)
	}
	return bson.NewDecimal(false, append(root.Append(nil, 10), '1'), even/2-1)
}

// exactRoot is root·10^exp with the exponent half if there is one.
func exactRoot(root *big.Int, exp, half int) bson.Decimal128 {
	r := bson.NewDecimal(false, root.Append(nil, 10), exp)
	for e := half; e > r.Exponent(); e-- {
		if shorter, ok := r.WithExponent(e); ok {
			return shorter
		}
	}
	return r
}

func evalExp(env *Env, v bson.Value) (bson.Value, error) {
	if v.Type == bson.TypeDecimal {
		return env.Decimal(expDecimal(v.Decimal())), nil
	}
	return env.Double(expDouble(bson.ToDouble(v))), nil
}

func evalPow(env *Env, base, exponent bson.Value) (bson.Value, error) {
	if base.IsNullish() || exponent.IsNullish() {
		return bson.Null, nil
	}
	if !base.IsNumber() {
		return bson.Value{}, mongoerr.New(mongoerr.Code(28762), "$pow's base must be numeric, not %s", base.Type)
	}
	if !exponent.IsNumber() {
		return bson.Value{}, mongoerr.New(mongoerr.Code(28763), "$pow's exponent must be numeric, not %s", exponent.Type)
	}
	zero := mongoerr.New(mongoerr.Code(28764), "$pow cannot take a base of 0 and a negative exponent")
	widest := wider(base.Type, exponent.Type)
	if widest == bson.TypeDecimal {
		b, e := bson.ToDecimal(base), bson.ToDecimal(exponent)
		if b.IsZero() && e.Sign() < 0 {
			return bson.Value{}, zero
		}
		return env.Decimal(powDecimals(b, e)), nil
	}
	b, e := bson.ToDouble(base), bson.ToDouble(exponent)
	if b == 0 && e < 0 {
		return bson.Value{}, zero
	}
	if widest == bson.TypeDouble {
		return env.Double(powDouble(b, e)), nil
	}
	p, ok := powLong(long(base), long(exponent))
	switch {
	case !ok:
		return env.Double(powDouble(b, e)), nil
	case widest == bson.TypeInt64:
		return env.Int64(p), nil
	}
	return env.Int(p), nil
}

// powLong computes the power exactly, or reports that it is no long. A base of zero has
// no negative exponent.
func powLong(base, exponent int64) (power int64, ok bool) {
	switch {
	case base == 1 || exponent == 0:
		return 1, true
	case base == 0:
		return 0, true
	case base == -1:
		return 1 - 2*(exponent&1), true
	case exponent < 0 || exponent > 63:
		return 0, false
	}
	power, ok = 1, true
	for i := int64(0); i < exponent && ok; i++ {
		power, ok = multiplyLongs(power, base)
	}
	return power, ok
}
