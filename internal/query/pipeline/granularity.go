package pipeline

import (
	"math"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// granularity rounds the boundaries of a $bucketAuto to a series of preferred numbers,
// which repeats in every power of ten, or to powers of two if the series is empty.
// (Manual: $bucketAuto, "Granularity"; the series are those of
// ISO 3 and IEC 60063.)
type granularity struct {
	name   string
	series []float64
}

var (
	renard40 = []float64{100, 106, 112, 118, 125, 132, 140, 150, 160, 170, 180, 190, 200, 212, 224, 236, 250, 265, 280, 300,
		315, 335, 355, 375, 400, 425, 450, 475, 500, 530, 560, 600, 630, 670, 710, 750, 800, 850, 900, 950}
	renard80 = []float64{103, 109, 115, 122, 128, 136, 145, 155, 165, 175, 185, 195, 206, 218, 230, 243, 258, 272, 290, 307,
		325, 345, 365, 387, 412, 437, 462, 487, 515, 545, 575, 615, 650, 690, 730, 775, 825, 875, 925, 975}
	e24 = []float64{10, 11, 12, 13, 15, 16, 18, 20, 22, 24, 27, 30, 33, 36, 39, 43, 47, 51, 56, 62, 68, 75, 82, 91}
)

// granularities are the series by name.
var granularities = map[string]*granularity{
	"POWERSOF2": {name: "POWERSOF2"},
	"R5":        {"R5", []float64{10, 16, 25, 40, 63}},
	"R10":       {"R10", []float64{100, 125, 160, 200, 250, 315, 400, 500, 630, 800}},
	"R20":       {"R20", every(renard40, 2)},
	"R40":       {"R40", renard40},
	"R80":       {"R80", slices.Sorted(slices.Values(append(slices.Clone(renard40), renard80...)))},
	"1-2-5":     {"1-2-5", []float64{10, 20, 50}},
	"E6":        {"E6", every(e24, 4)},
	"E12":       {"E12", every(e24, 2)},
	"E24":       {"E24", e24},
	"E48":       {"E48", every(eSeries(), 4)},
	"E96":       {"E96", every(eSeries(), 2)},
	"E192":      {"E192", eSeries()},
}

// every takes each n-th number.
func every(series []float64, n int) []float64 {
	var out []float64
	for i := 0; i < len(series); i += n {
		out = append(out, series[i])
	}
	return out
}

// eSeries is E192: a geometric series rounded to three digits, except one number that
// the standard defines differently.
func eSeries() []float64 {
	out := make([]float64, 192)
	for i := range out {
		out[i] = math.Round(100 * math.Pow(10, float64(i)/192))
		if out[i] == 919 {
			out[i] = 920
		}
	}
	return out
}

// check rejects values that cannot be rounded: 40258, 40259, 40260.
func (g *granularity) check(v bson.Value) error {
	switch {
	case !v.IsNumber():
		return mongoerr.New(40258, "$bucketAuto can specify a 'granularity' with numeric boundaries only, but found a value with type: %s", v.Type)
	case v.IsNaN():
		return mongoerr.New(40259, "$bucketAuto can specify a 'granularity' with numeric boundaries only, but found a NaN")
	case bson.NumberSign(v) < 0:
		return mongoerr.New(40260, "$bucketAuto can specify a 'granularity' with non-negative numbers only, but found a negative number: %s", v)
	}
	return nil
}

// up returns the least number of the series above v. Zero and infinity do not change.
func (g *granularity) up(v bson.Value) bson.Value {
	switch {
	case bson.IsZero(v) || v.IsInf() != 0:
		return v
	case v.Type == bson.TypeDecimal:
		return bson.Decimal(g.decimal(v.Decimal(), true))
	case g.series == nil:
		return power(int(math.Floor(math.Log2(bson.ToDouble(v)))) + 1)
	}
	x, m := bson.ToDouble(v), 1.0
	last := len(g.series) - 1
	for x >= g.series[last]*m {
		m *= 10
	}
	for x < g.series[0]*m {
		least := g.series[0] * m
		m /= 10
		if x >= g.series[last]*m {
			return bson.Double(least)
		}
	}
	i := slices.IndexFunc(g.series, func(s float64) bool { return s*m > x })
	return bson.Double(g.series[i] * m)
}

// down returns the greatest number of the series below v. Zero and infinity do not change.
func (g *granularity) down(v bson.Value) bson.Value {
	switch {
	case bson.IsZero(v) || v.IsInf() != 0:
		return v
	case v.Type == bson.TypeDecimal:
		return bson.Decimal(g.decimal(v.Decimal(), false))
	case g.series == nil:
		return power(int(math.Ceil(math.Log2(bson.ToDouble(v)))) - 1)
	}
	x, m := bson.ToDouble(v), 1.0
	last := len(g.series) - 1
	for x <= g.series[0]*m {
		m /= 10
	}
	for x > g.series[last]*m {
		greatest := g.series[last] * m
		m *= 10
		if x <= g.series[0]*m {
			return bson.Double(greatest)
		}
	}
	i := slices.IndexFunc(g.series, func(s float64) bool { return s*m >= x })
	return bson.Double(g.series[i-1] * m)
}

// power is 2 to the n, a whole number where it is one and fits.
func power(n int) bson.Value {
	if n < 0 || n > 62 {
		return bson.Double(math.Ldexp(1, n))
	}
	return bson.Int(1 << n)
}

// decimal walks the series around x, up or down.
func (g *granularity) decimal(x bson.Decimal128, up bool) bson.Decimal128 {
	if g.series == nil {
		return power2(x, up)
	}
	ten, m := bson.DecimalFromInt64(10), bson.DecimalFromInt64(1)
	at := func(i int) bson.Decimal128 { return bson.DecimalFromInt64(int64(g.series[i])).Multiply(m) }
	for bson.CompareDecimals(x, at(len(g.series)-1)) > 0 {
		m = m.Multiply(ten)
	}
	for bson.CompareDecimals(x, at(0)) < 0 {
		m = m.Divide(ten)
	}
	// Here the first number of the series is at most x; the last may be below.
	below, exact := at(0), false
	for i := range g.series {
		switch c := bson.CompareDecimals(at(i), x); {
		case c < 0:
			below = at(i)
		case c == 0:
			exact = true
		case up:
			return at(i)
		default:
			return below
		}
	}
	if up {
		m = m.Multiply(ten)
		return at(0)
	}
	if exact && bson.CompareDecimals(below, x) == 0 {
		m = m.Divide(ten)
		return at(len(g.series) - 1)
	}
	return below
}

// power2 is the next power of two above or below x.
func power2(x bson.Decimal128, up bool) bson.Decimal128 {
	two, p := bson.DecimalFromInt64(2), bson.DecimalFromInt64(1)
	for bson.CompareDecimals(p, x) <= 0 {
		p = p.Multiply(two)
	}
	for bson.CompareDecimals(p.Divide(two), x) > 0 {
		p = p.Divide(two)
	}
	// p is the least power above x.
	if up {
		return p
	}
	p = p.Divide(two)
	if bson.CompareDecimals(p, x) == 0 {
		p = p.Divide(two)
	}
	return p
}
