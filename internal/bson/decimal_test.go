package bson

import (
	"fmt"
	"math"
	"math/big"
	"testing"

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
		text := driver.NewDecimal128(d.H, d.L).String()
		if _, hi, lo := d.parts(); finite(d) && (hi|lo != 0 || d.H<<1>>50 == 0) && text != d.String() {
			t.Fatalf("%x %x prints as %s, not %s", d.H, d.L, d, text)
		}
		back, ok := ParseDecimal(d.String())
		if !ok || back.String() != d.String() {
			t.Fatalf("%s reads back as %s", d, back)
		}
	})
}
