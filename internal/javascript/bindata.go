package javascript

import (
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/dop251/goja"

	"github.com/mayflydb/mayfly/internal/bson"
)

const (
	subtypeUUID = 4
	subtypeMD5  = 5
)

// binData is BinData(subtype, "base64").
var binData = class{
	name: "BinData", types: []bson.Type{bson.TypeBinary},
	make: func(c *scope, args arguments) bson.Value {
		if len(args) != 2 {
			c.reject("BinData takes 2 arguments -- BinData(subtype,data)")
		}
		content, err := base64.StdEncoding.DecodeString(args.text(1))
		if err != nil {
			c.reject("BinData's data is no base64")
		}
		return bson.Binary(c.subtype(args[0]), content)
	},
	fields: func(c *scope, v bson.Value) []field {
		subtype, content := v.Binary()
		return []field{{"len", c.vm.ToValue(len(content))}, {"type", c.vm.ToValue(int64(subtype))}}
	},
	methods: map[string]method{
		"toString": binDataText, "tojson": binDataText,
		"toJSON": func(c *scope, v bson.Value, _ arguments) goja.Value {
			subtype, content := v.Binary()
			o := c.object("$binary", base64.StdEncoding.EncodeToString(content))
			c.rejectOn(o.Set("$type", hex.EncodeToString([]byte{subtype})))
			return o
		},
		"base64": func(c *scope, v bson.Value, _ arguments) goja.Value {
			_, content := v.Binary()
			return c.text(base64.StdEncoding.EncodeToString(content))
		},
		"hex": func(c *scope, v bson.Value, _ arguments) goja.Value {
			_, content := v.Binary()
			return c.text(hex.EncodeToString(content))
		},
		"length": func(c *scope, v bson.Value, _ arguments) goja.Value {
			_, content := v.Binary()
			return c.vm.ToValue(len(content))
		},
		"subtype": func(c *scope, v bson.Value, _ arguments) goja.Value {
			subtype, _ := v.Binary()
			return c.vm.ToValue(int64(subtype))
		},
	},
}

func (c *scope) subtype(v goja.Value) byte {
	n := v.ToInteger()
	if n < 0 || n > 255 || n == 2 {
		c.reject("invalid BinData subtype -- must be between 0 and 255, and not 2")
	}
	return byte(n)
}

func binDataText(c *scope, v bson.Value, _ arguments) goja.Value {
	subtype, content := v.Binary()
	if subtype == subtypeUUID && len(content) == 16 {
		h := hex.EncodeToString(content)
		return c.text(`UUID("` + strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-") + `")`)
	}
	return c.text("BinData(" + strconv.Itoa(int(subtype)) + `,"` + base64.StdEncoding.EncodeToString(content) + `")`)
}

// addBinDataFunctions defines the other ways to make binary values: UUID("…"),
// MD5("…") and HexData(subtype, "…"), all of hexadecimal digits.
func (c *scope) addBinDataFunctions() {
	fromHex := func(name string, subtype byte, digits string, size int) goja.Value {
		content, err := hex.DecodeString(digits)
		if err != nil || size > 0 && len(content) != size {
			c.reject("%s string must have %d characters, all hexadecimal", name, 2*size)
		}
		return c.box(bson.Binary(subtype, content))
	}
	c.helper("UUID", func(args arguments) goja.Value {
		if len(args) == 0 {
			id := bson.NewUUID()
			return c.box(bson.Binary(subtypeUUID, id[:]))
		}
		return fromHex("UUID", subtypeUUID, strings.ReplaceAll(args.text(0), "-", ""), 16)
	})
	c.helper("MD5", func(args arguments) goja.Value { return fromHex("MD5", subtypeMD5, args.text(0), 16) })
	c.helper("HexData", func(args arguments) goja.Value {
		return fromHex("HexData", c.subtype(args.at(0)), args.text(1), 0)
	})
}
