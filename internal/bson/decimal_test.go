package bson

import (
	"fmt"
	"math"
	"math/big"
	"testing"

	"github.com/cockroachdb/apd/v3"

	driver "go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"
)

// genDecimal draws decimals of all sizes, among them ones close to doubles.
func genDecimal(t *rapid.T) Decimal128 {
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		return DecimalFromDouble(genDouble(t), rapid.SampledFrom([]int{15, 17, 34}).Draw(t, "digits"))
	case 1:
		return Decimal128{rapid.Uint64().Draw(t, "high"), rapid.Uint64().Draw(t, "low")}
	}
	digits := rapid.StringMatching(`[0-9]{1,34}`).Draw(t, "coefficient")
	exp := rapid.OneOf(rapid.IntRange(-40, 10), rapid.IntRange(-6200, 6200)).Draw(t, "exponent")
	d, _ := ParseDecimal(rapid.SampledFrom([]string{"", "-"}).Draw(t, "sign") + digits + fmt.Sprintf("E%d", exp))
	return d
}

func genDouble(t *rapid.T) float64 {
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		return math.Float64frombits(rapid.Uint64().Draw(t, "bits"))
	case 1:
		return float64(rapid.Int64().Draw(t, "integer"))
	case 2:
		return float64(rapid.IntRange(-1000, 1000).Draw(t, "hundredths")) / 100
	}
	return rapid.SampledFrom([]float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(),
		math.MaxFloat64, math.SmallestNonzeroFloat64, 1 << 53, 1 << 63, -1 << 63, 0x1p-1022}).Draw(t, "special")
}

func ratOf(d Decimal128) *big.Rat {
	exp, hi, lo := d.parts()
	r := new(big.Rat).SetInt(uint128{hi, lo}.big())
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(exp, -exp))), nil)
	if exp >= 0 {
		r.Mul(r, new(big.Rat).SetInt(scale))
	} else {
		r.Quo(r, new(big.Rat).SetInt(scale))
	}
	if d.Negative() {
		r.Neg(r)
	}
	return r
}

func finite(d Decimal128) bool { return !d.IsNaN() && d.IsInf() == 0 }

func TestDecimalComparisonsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, f := genDecimal(t), genDecimal(t), genDouble(t)
		if !finite(a) || !finite(b) {
			return
		}
		if got, want := CompareDecimals(a, b), ratOf(a).Cmp(ratOf(b)); got != want {
			t.Fatalf("%s against %s: %d, not %d", a, b, got, want)
		}
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return
		}
		if got, want := CompareNumbers(Decimal(a), Double(f)), ratOf(a).Cmp(new(big.Rat).SetFloat64(f)); got != want {
			t.Fatalf("%s against %g: %d, not %d", a, f, got, want)
		}
		if d, inexact := a.TruncateToDouble(); inexact && math.IsInf(d, 0) {
			t.Fatalf("%s became infinite", a)
		}
		i, exact, ok := a.TruncateToInt64()
		whole := new(big.Int).Quo(ratOf(a).Num(), ratOf(a).Denom())
		if ok != whole.IsInt64() || ok && (i != whole.Int64() || exact != ratOf(a).IsInt()) {
			t.Fatalf("%s truncates to %d %v %v", a, i, exact, ok)
		}
	})
}

func TestDecimalTextAgainstDriver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := genDecimal(t)
		back, ok := ParseDecimal(d.String())
		if !ok || back.String() != d.String() {
			t.Fatalf("%s reads back as %s", d, back)
		}
		// Other encodings of the same number the driver does not know.
		if text := driver.NewDecimal128(d.H, d.L).String(); back == d && text != d.String() {
			t.Fatalf("%x %x prints as %s, not %s", d.H, d.L, d, text)
		}
	})
}

// TestDecimalArithmetic compares with exact fractions, rounded to 34 digits by
// another library.
func TestDecimalArithmetic(t *testing.T) {
	small := rapid.Custom(func(t *rapid.T) Decimal128 {
		digits := rapid.OneOf(rapid.StringMatching(`[0-9]{1,34}`), rapid.StringMatching(`[1-9]0{0,33}`)).Draw(t, "coefficient")
		exp := rapid.OneOf(rapid.IntRange(-3, 3), rapid.IntRange(-80, 80)).Draw(t, "exponent")
		d, _ := ParseDecimal(rapid.SampledFrom([]string{"", "-"}).Draw(t, "sign") + digits + fmt.Sprintf("E%d", exp))
		return d
	})
	ctx := apd.BaseContext.WithPrecision(decimalDigits)
	ctx.Rounding = apd.RoundHalfEven
	rapid.Check(t, func(t *rapid.T) {
		a, b := small.Draw(t, "a"), small.Draw(t, "b")
		check := func(name string, got Decimal128, oracle func(d, x, y *apd.Decimal) (apd.Condition, error), exponent int) {
			var want apd.Decimal
			cond, err := oracle(&want, a.APD(), b.APD())
			if err != nil {
				return // by zero
			}
			if got.APD().Cmp(&want) != 0 {
				t.Fatalf("%s %s %s is %s, not %s", a, name, b, got, &want)
			}
			if _, fits := got.WithExponent(exponent); !cond.Inexact() && fits && got.Exponent() != exponent {
				t.Fatalf("%s %s %s is %s: not with exponent %d", a, name, b, got, exponent)
			}
			if cond.Inexact() && got.APD().NumDigits() != decimalDigits {
				t.Fatalf("%s %s %s is %s: less than %d digits", a, name, b, got, decimalDigits)
			}
		}
		check("+", a.Add(b), ctx.Add, min(a.Exponent(), b.Exponent()))
		check("-", a.Subtract(b), ctx.Sub, min(a.Exponent(), b.Exponent()))
		check("*", a.Multiply(b), ctx.Mul, a.Exponent()+b.Exponent())
		check("/", a.Divide(b), ctx.Quo, a.Exponent()-b.Exponent())
		c := small.Draw(t, "c")
		check("*"+c.String()+"+", a.MultiplyAdd(c, b), func(d, x, y *apd.Decimal) (apd.Condition, error) {
			var product apd.Decimal
			if _, err := apd.BaseContext.WithPrecision(2*decimalDigits).Mul(&product, x, c.APD()); err != nil {
				return 0, err
			}
			return ctx.Add(d, &product, y)
		}, min(a.Exponent()+c.Exponent(), b.Exponent()))
		if b.IsZero() {
			return
		}
		quotient := new(big.Rat).Quo(ratOf(a), ratOf(b))
		whole := new(big.Rat).SetInt(new(big.Int).Quo(quotient.Num(), quotient.Denom()))
		rest := new(big.Rat).Sub(ratOf(a), whole.Mul(whole, ratOf(b)))
		if got := a.Mod(b); ratOf(got).Cmp(rest) != 0 {
			t.Fatalf("%s mod %s is %s, not %s", a, b, got, rest)
		}
	})
}

func TestIntegerArithmetic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64, -1, 0})).Draw(t, "x")
		y := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-9, 9), rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64})).Draw(t, "y")
		for name, op := range map[string]struct {
			f func(a, b Value) (Value, bool)
			g func(z, x, y *big.Int) *big.Int
		}{"+": {Add, (*big.Int).Add}, "-": {Subtract, (*big.Int).Sub}, "*": {Multiply, (*big.Int).Mul}} {
			want := op.g(new(big.Int), big.NewInt(x), big.NewInt(y))
			got, overflow := op.f(Int64(x), Int64(y))
			if overflow == want.IsInt64() || !overflow && got.Int64() != want.Int64() {
				t.Fatalf("%d %s %d is %s, overflow %v", x, name, y, got, overflow)
			}
		}
	})
}
