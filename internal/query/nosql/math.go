package nosql

import (
	"math"
	"math/rand/v2"

	"github.com/mayflydb/mayfly/internal/bson"
)

func init() {
	for name, f := range map[string]func(float64) float64{
		"ABS": math.Abs, "ACOS": math.Acos, "ASIN": math.Asin, "ATAN": math.Atan, "CEILING": math.Ceil, "COS": math.Cos, "EXP": math.Exp,
		"FLOOR": math.Floor, "LOG10": math.Log10, "SIN": math.Sin, "SQRT": math.Sqrt, "TAN": math.Tan, "TRUNC": math.Trunc,
		"SQUARE": func(x float64) float64 { return x * x }, "COT": func(x float64) float64 { return 1 / math.Tan(x) },
		"DEGREES": func(x float64) float64 { return x * 180 / math.Pi }, "RADIANS": func(x float64) float64 { return x * math.Pi / 180 },
	} {
		registerPure(name, 1, 1, func(args []bson.Value) bson.Value {
			if !args[0].IsNumber() {
				return bson.Value{}
			}
			return finite(f(bson.ToDouble(args[0])))
		})
	}
	for name, f := range map[string]func(a, b float64) float64{"POWER": math.Pow, "ATN2": math.Atan2} {
		registerPure(name, 2, 2, func(args []bson.Value) bson.Value {
			if !args[0].IsNumber() || !args[1].IsNumber() {
				return bson.Value{}
			}
			return finite(f(bson.ToDouble(args[0]), bson.ToDouble(args[1])))
		})
	}
	registerPure("LOG", 1, 2, logarithm)
	registerPure("ROUND", 1, 2, round)
	registerPure("SIGN", 1, 1, func(args []bson.Value) bson.Value {
		if !args[0].IsNumber() {
			return bson.Value{}
		}
		return bson.Int(int64(bson.NumberSign(args[0])))
	})
	registerPure("PI", 0, 0, func([]bson.Value) bson.Value { return bson.Double(math.Pi) })
	registerPure("RAND", 0, 0, func([]bson.Value) bson.Value { return bson.Double(rand.Float64()) })
	registerPure("NUMBERBIN", 1, 2, numberBin)
	for name, f := range map[string]func(a, b int64) (int64, bool){
		"INTADD":           func(a, b int64) (int64, bool) { return a + b, true },
		"INTSUB":           func(a, b int64) (int64, bool) { return a - b, true },
		"INTMUL":           func(a, b int64) (int64, bool) { return a * b, true },
		"INTDIV":           func(a, b int64) (int64, bool) { return divide(a, b, func() int64 { return a / b }) },
		"INTMOD":           func(a, b int64) (int64, bool) { return divide(a, b, func() int64 { return a % b }) },
		"INTBITAND":        func(a, b int64) (int64, bool) { return a & b, true },
		"INTBITOR":         func(a, b int64) (int64, bool) { return a | b, true },
		"INTBITXOR":        func(a, b int64) (int64, bool) { return a ^ b, true },
		"INTBITLEFTSHIFT":  func(a, b int64) (int64, bool) { return a << (uint64(b) & 63), true },
		"INTBITRIGHTSHIFT": func(a, b int64) (int64, bool) { return a >> (uint64(b) & 63), true },
	} {
		registerPure(name, 2, 2, func(args []bson.Value) bson.Value {
			a, ok1 := integer(args[0])
			b, ok2 := integer(args[1])
			if !ok1 || !ok2 {
				return bson.Value{}
			}
			n, ok := f(a, b)
			if !ok {
				return bson.Value{}
			}
			return bson.Int(n)
		})
	}
	registerPure("INTBITNOT", 1, 1, func(args []bson.Value) bson.Value {
		a, ok := integer(args[0])
		if !ok {
			return bson.Value{}
		}
		return bson.Int(^a)
	})
}

// divide guards against division of integers by zero and overflow.
func divide(a, b int64, f func() int64) (int64, bool) {
	if b == 0 || a == math.MinInt64 && b == -1 {
		return 0, false
	}
	return f(), true
}

func logarithm(args []bson.Value) bson.Value {
	if !args[0].IsNumber() {
		return bson.Value{}
	}
	x := math.Log(bson.ToDouble(args[0]))
	if len(args) == 2 {
		if !args[1].IsNumber() {
			return bson.Value{}
		}
		x /= math.Log(bson.ToDouble(args[1]))
	}
	return finite(x)
}

// round rounds half away from zero, to decimal places if a second argument
// says how many.
func round(args []bson.Value) bson.Value {
	if !args[0].IsNumber() {
		return bson.Value{}
	}
	x := bson.ToDouble(args[0])
	if len(args) == 1 {
		return finite(math.Round(x))
	}
	places, ok := integer(args[1])
	if !ok {
		return bson.Value{}
	}
	scale := math.Pow(10, float64(places))
	if scaled := x * scale; !math.IsInf(scaled, 0) && scale != 0 {
		return finite(math.Round(scaled) / scale)
	}
	return args[0]
}

// numberBin rounds down to a multiple of the bin's size, 1 if none is given.
func numberBin(args []bson.Value) bson.Value {
	size := 1.0
	if len(args) == 2 {
		if !args[1].IsNumber() {
			return bson.Value{}
		}
		size = bson.ToDouble(args[1])
	}
	if !args[0].IsNumber() || size == 0 {
		return bson.Value{}
	}
	return finite(math.Floor(bson.ToDouble(args[0])/size) * size)
}
