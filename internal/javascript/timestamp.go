package javascript

import (
	"fmt"
	"math"

	"github.com/dop251/goja"

	"github.com/mayflydb/mayfly/internal/bson"
)

// timestamp is Timestamp(seconds, increment).
var timestamp = class{
	name: "Timestamp", types: []bson.Type{bson.TypeTimestamp},
	make: func(c *scope, args arguments) bson.Value {
		if len(args) == 0 {
			return bson.Timestamp(0)
		}
		if len(args) != 2 {
			c.reject("Timestamp needs 0 or 2 arguments")
		}
		var parts [2]uint64
		for i, what := range []string{"time", "increment"} {
			f := args[i].ToFloat()
			if !(f >= 0 && f <= math.MaxUint32) {
				c.reject("Timestamp %s must be a number between 0 and %d", what, uint32(math.MaxUint32))
			}
			parts[i] = uint64(f)
		}
		return bson.Timestamp(parts[0]<<32 | parts[1])
	},
	fields: func(c *scope, v bson.Value) []field {
		t := v.Timestamp()
		return []field{{"t", c.vm.ToValue(t >> 32)}, {"i", c.vm.ToValue(t & math.MaxUint32)}}
	},
	methods: map[string]method{
		"toString": timestampText, "tojson": timestampText,
		"getTime": func(c *scope, v bson.Value, _ arguments) goja.Value { return c.vm.ToValue(v.Timestamp() >> 32) },
		"getInc": func(c *scope, v bson.Value, _ arguments) goja.Value {
			return c.vm.ToValue(v.Timestamp() & math.MaxUint32)
		},
		"toJSON": func(c *scope, v bson.Value, _ arguments) goja.Value {
			o := c.object("t", v.Timestamp()>>32)
			c.rejectOn(o.Set("i", v.Timestamp()&math.MaxUint32))
			return c.object("$timestamp", o)
		},
	},
}

func timestampText(c *scope, v bson.Value, _ arguments) goja.Value {
	t := v.Timestamp()
	return c.text(fmt.Sprintf("Timestamp(%d, %d)", t>>32, t&math.MaxUint32))
}
