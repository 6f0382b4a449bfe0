package javascript

import (
	"math"
	"strconv"
	"strings"

	"github.com/dop251/goja"

	"github.com/mayflydb/mayfly/internal/bson"
)

// maxExact is the largest integer up to which every integer is a double.
const maxExact = 1 << 53

// numberLong is NumberLong(number), NumberLong("digits"), or the three numbers
// that NumberLong objects consist of: the nearest double, and both halves.
var numberLong = class{
	name: "NumberLong", types: []bson.Type{bson.TypeInt64}, make: makeLong,
	fields: func(c *scope, v bson.Value) []field {
		i := v.Int64()
		fields := []field{{"floatApprox", c.vm.ToValue(float64(i))}}
		if i >= maxExact || i <= -maxExact {
			fields = append(fields, field{"top", c.vm.ToValue(uint64(i) >> 32)}, field{"bottom", c.vm.ToValue(uint64(i) & math.MaxUint32)})
		}
		return fields
	},
	methods: map[string]method{
		"toNumber": numberValue, "valueOf": numberValue, "toString": longText, "tojson": longText,
		"toJSON": func(c *scope, v bson.Value, _ arguments) goja.Value {
			return c.object("$numberLong", strconv.FormatInt(v.Int64(), 10))
		},
	},
}

// numberInt is NumberInt(number) or NumberInt("digits"). An int of a document is
// a number.
var numberInt = class{
	name: "NumberInt", types: []bson.Type{bson.TypeInt32},
	make: func(c *scope, args arguments) bson.Value {
		if len(args) == 0 {
			return bson.Int32(0)
		}
		return bson.Int32(int32(c.integer("NumberInt", args[0])))
	},
	methods: map[string]method{
		"toNumber": numberValue, "valueOf": numberValue, "toJSON": numberValue, "toString": intText, "tojson": intText,
	},
}

// numberDecimal is NumberDecimal("text") or NumberDecimal(number).
var numberDecimal = class{
	name: "NumberDecimal", types: []bson.Type{bson.TypeDecimal},
	make: func(c *scope, args arguments) bson.Value {
		if len(args) == 0 {
			return bson.Decimal(bson.DecimalFromInt64(0))
		}
		return bson.Decimal(c.decimal(args[0]))
	},
	methods: map[string]method{
		"toString": decimalText, "tojson": decimalText,
		"toJSON": func(c *scope, v bson.Value, _ arguments) goja.Value {
			return c.object("$numberDecimal", v.Decimal().String())
		},
		"equals": func(c *scope, v bson.Value, args arguments) goja.Value {
			return c.vm.ToValue(bson.CompareDecimals(v.Decimal(), c.decimal(args.at(0))) == 0)
		},
	},
}

func makeLong(c *scope, args arguments) bson.Value {
	switch len(args) {
	case 0:
		return bson.Int64(0)
	case 1:
		return bson.Int64(c.integer("NumberLong", args[0]))
	}
	if len(args) < 3 {
		c.reject("NumberLong needs 0, 1 or 3 arguments")
	}
	return bson.Int64(int64(uint64(uint32(args[1].ToInteger()))<<32 | uint64(uint32(args[2].ToInteger()))))
}

// integer is the integer that an argument means.
func (c *scope) integer(name string, v goja.Value) int64 {
	if n := unbox(v); n.Type == bson.TypeInt64 || n.Type == bson.TypeInt32 {
		return bson.ClampToInt64(n)
	}
	if s, ok := v.(goja.String); ok {
		i, err := strconv.ParseInt(strings.TrimSpace(s.String()), 10, 64)
		if err != nil {
			c.reject("could not convert string to %s", map[string]string{"NumberLong": "long long", "NumberInt": "integer"}[name])
		}
		return i
	}
	f := v.ToFloat()
	if f != f || f >= 1<<63 || f < -1<<63 {
		c.reject("number passed to %s must be representable as an integer", name)
	}
	return int64(f)
}

// decimal is the decimal that an argument means.
func (c *scope) decimal(v goja.Value) bson.Decimal128 {
	if n := unbox(v); n.IsNumber() {
		return bson.ToDecimal(n)
	}
	if s, ok := v.(goja.String); ok {
		d, ok := bson.ParseDecimal(s.String())
		if !ok {
			c.reject("Input is not a valid Decimal128 value.")
		}
		return d
	}
	return bson.ToDecimal(bson.Double(v.ToFloat()))
}

func numberValue(c *scope, v bson.Value, _ arguments) goja.Value {
	return c.vm.ToValue(bson.ToDouble(v))
}

func longText(c *scope, v bson.Value, _ arguments) goja.Value {
	i := v.Int64()
	if i > math.MinInt32 && i <= math.MaxInt32 {
		return c.text("NumberLong(" + strconv.FormatInt(i, 10) + ")")
	}
	return c.text(`NumberLong("` + strconv.FormatInt(i, 10) + `")`)
}

func intText(c *scope, v bson.Value, _ arguments) goja.Value {
	return c.text("NumberInt(" + strconv.Itoa(int(v.Int32())) + ")")
}

func decimalText(c *scope, v bson.Value, _ arguments) goja.Value {
	return c.text(`NumberDecimal("` + v.Decimal().String() + `")`)
}

// addNumberFunctions defines the functions about numbers.
func (c *scope) addNumberFunctions() {
	c.helper("numberDecimalsEqual", func(args arguments) goja.Value {
		return c.vm.ToValue(bson.CompareDecimals(c.decimal(args.at(0)), c.decimal(args.at(1))) == 0)
	})
	long := c.vm.Get("NumberLong").ToObject(c.vm)
	c.function(long, "compare", func(call goja.FunctionCall) goja.Value {
		a, b := bson.Int64(c.integer("NumberLong", call.Argument(0))), bson.Int64(c.integer("NumberLong", call.Argument(1)))
		return c.vm.ToValue(bson.Compare(a, b))
	})
}
