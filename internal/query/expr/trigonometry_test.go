package expr

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// TestQuickAngles compares the functions of doubles with those of big floats.
func TestQuickAngles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(-quickAngle, quickAngle).Draw(t, "x")
		if rapid.Bool().Draw(t, "near a quarter") {
			x = math.Round(x) * math.Pi / 2
		}
		if math.Abs(x) < 1e-300 {
			return
		}
		for _, f := range []struct {
			quick func(float64) float64
			exact func(*big.Float) *big.Float
		}{{sinDouble, bigSin}, {cosDouble, bigCos}, {tanDouble, bigTan}} {
			if math.Abs(x) > quickAngle {
				continue
			}
			want, _ := f.exact(newFloat().SetFloat64(x)).Float64()
			if got := f.quick(x); got != want {
				t.Fatalf("of %v: %v instead of %v", x, got, want)
			}
		}
	})
}

func TestPi(t *testing.T) {
	want, _ := new(big.Float).SetPrec(300).SetString(
		"3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798")
	if d := new(big.Float).Sub(bigPi(300), want); d.MantExp(nil) > -295 {
		t.Errorf("π is off by %v", d)
	}
}
