package bson

import (
	"math"
	"math/bits"
)

// The functions below calculate with two numbers of any types. The result has
// the wider type of the two: int, long, double, decimal. A result that no int
// holds is a long; a result that no long holds is a double and overflow is true
// (expressions go on with the double, updates fail). A double next to a decimal
// counts with 15 digits, as in the server.

// widest is the type of a result.
func widest(a, b Type) Type {
	for _, t := range [...]Type{TypeDecimal, TypeDouble, TypeInt64} {
		if a == t || b == t {
			return t
		}
	}
	return TypeInt32
}

// narrow makes an int where t says so and i fits, else a long.
func narrow(t Type, i int64) Value {
	if t == TypeInt32 {
		return Int(i)
	}
	return Int64(i)
}

// Add is a+b.
func Add(a, b Value) (sum Value, overflow bool) {
	switch t := widest(a.Type, b.Type); t {
	case TypeDecimal:
		return Decimal(ToDecimal(a).Add(ToDecimal(b))), false
	case TypeDouble:
		return Double(ToDouble(a) + ToDouble(b)), false
	default:
		x, y := integer(a), integer(b)
		s := x + y
		if x >= 0 == (y >= 0) && s >= 0 != (x >= 0) {
			return Double(float64(x) + float64(y)), true
		}
		return narrow(t, s), false
	}
}

// Subtract is a-b.
func Subtract(a, b Value) (difference Value, overflow bool) {
	switch t := widest(a.Type, b.Type); t {
	case TypeDecimal:
		return Decimal(ToDecimal(a).Subtract(ToDecimal(b))), false
	case TypeDouble:
		return Double(ToDouble(a) - ToDouble(b)), false
	default:
		x, y := integer(a), integer(b)
		d := x - y
		if x >= 0 != (y >= 0) && d >= 0 != (x >= 0) {
			return Double(float64(x) - float64(y)), true
		}
		return narrow(t, d), false
	}
}

// Multiply is a·b.
func Multiply(a, b Value) (product Value, overflow bool) {
	switch t := widest(a.Type, b.Type); t {
	case TypeDecimal:
		return Decimal(ToDecimal(a).Multiply(ToDecimal(b))), false
	case TypeDouble:
		return Double(ToDouble(a) * ToDouble(b)), false
	default:
		x, y := integer(a), integer(b)
		hi, lo := bits.Mul64(magnitude(x), magnitude(y))
		negative := x < 0 != (y < 0)
		if hi != 0 || lo > 1<<63 || lo == 1<<63 && !negative {
			return Double(float64(x) * float64(y)), true
		}
		if negative {
			lo = -lo
		}
		return narrow(t, int64(lo)), false
	}
}

func magnitude(i int64) uint64 {
	if i < 0 {
		return -uint64(i)
	}
	return uint64(i)
}

// Divide is a/b, a decimal where one of them is, else a double. Dividing by
// zero gives what IEEE 754 says; the server refuses it before (IsZero).
func Divide(a, b Value) Value {
	if widest(a.Type, b.Type) == TypeDecimal {
		return Decimal(ToDecimal(a).Divide(ToDecimal(b)))
	}
	return Double(ToDouble(a) / ToDouble(b))
}

// Mod is the rest of a/b with the sign of a; whole numbers stay whole. By zero
// it is NaN; the server refuses that before (IsZero).
func Mod(a, b Value) Value {
	switch t := widest(a.Type, b.Type); t {
	case TypeDecimal:
		return Decimal(ToDecimal(a).Mod(ToDecimal(b)))
	case TypeDouble:
		return Double(math.Mod(ToDouble(a), ToDouble(b)))
	default:
		y := integer(b)
		switch y {
		case 0:
			return Double(math.NaN())
		case -1:
			return narrow(t, 0) // the smallest long has no counterpart
		}
		return narrow(t, integer(a)%y)
	}
}
