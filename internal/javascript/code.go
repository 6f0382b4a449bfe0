package javascript

import (
	"github.com/dop251/goja"

	"github.com/mayflydb/mayfly/internal/bson"
)

// code is Code("text") or Code("text", scope). Code of a document is a function.
var code = class{
	name: "Code", types: []bson.Type{bson.TypeCode, bson.TypeCodeScope},
	make: func(c *scope, args arguments) bson.Value {
		if len(args) == 0 || len(args) > 2 {
			c.reject("Code needs 0, 1 or 2 arguments")
		}
		text := args.text(0)
		if len(args) == 1 {
			return bson.Code(text)
		}
		v, err := c.write(args[1])
		if err != nil {
			c.throw(err)
		}
		if v.Type != bson.TypeDocument {
			c.reject("the scope of Code must be an object")
		}
		return bson.CodeScope(text, v.Doc())
	},
	fields: func(c *scope, v bson.Value) []field {
		if v.Type == bson.TypeCode {
			return []field{{"code", c.text(v.Str())}}
		}
		text, scope := v.CodeScope()
		return []field{{"code", c.text(text)}, {"scope", c.newDocument(scope, true)}}
	},
	methods: map[string]method{"toString": codeText, "tojson": codeText},
}

func codeText(c *scope, v bson.Value, _ arguments) goja.Value {
	if v.Type == bson.TypeCode {
		return c.text("Code(" + bson.String(v.Str()).String() + ")")
	}
	text, scope := v.CodeScope()
	return c.text("Code(" + bson.String(text).String() + ", " + scope.String() + ")")
}
