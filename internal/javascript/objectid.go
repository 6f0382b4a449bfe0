package javascript

import (
	"encoding/binary"

	"github.com/dop251/goja"

	"github.com/mayflydb/mayfly/internal/bson"
)

// objectID is ObjectId("24 hexadecimal digits"), or ObjectId() for a new one.
var objectID = class{
	name: "ObjectId", types: []bson.Type{bson.TypeObjectID},
	make: func(c *scope, args arguments) bson.Value {
		if len(args) == 0 {
			return bson.ObjectID(bson.NewObjectID())
		}
		if v := unbox(args[0]); v.Type == bson.TypeObjectID {
			return v
		}
		s, ok := args[0].(goja.String)
		if !ok || s.Length() != 24 {
			c.reject("invalid object id: length")
		}
		id, ok := bson.ParseObjectID(s.String())
		if !ok {
			c.reject("invalid object id: not hex")
		}
		return bson.ObjectID(id)
	},
	fields: func(c *scope, v bson.Value) []field {
		return []field{{"str", c.text(bson.FormatObjectID(v.ObjectID()))}}
	},
	methods: map[string]method{
		"toString": objectIDText,
		"tojson":   objectIDText,
		"valueOf": func(c *scope, v bson.Value, _ arguments) goja.Value {
			return c.text(bson.FormatObjectID(v.ObjectID()))
		},
		"toJSON": func(c *scope, v bson.Value, _ arguments) goja.Value {
			return c.object("$oid", bson.FormatObjectID(v.ObjectID()))
		},
		"getTimestamp": func(c *scope, v bson.Value, _ arguments) goja.Value {
			return c.construct(c.types.date, c.vm.ToValue(bson.ObjectIDSeconds(v.ObjectID())*1000))
		},
		"equals": func(c *scope, v bson.Value, args arguments) goja.Value {
			other := unbox(args.at(0))
			return c.vm.ToValue(other.Type == bson.TypeObjectID && other.ObjectID() == v.ObjectID())
		},
	},
}

func objectIDText(c *scope, v bson.Value, _ arguments) goja.Value {
	return c.text(`ObjectId("` + bson.FormatObjectID(v.ObjectID()) + `")`)
}

// addObjectIDFunctions defines what hangs on ObjectId itself.
func (c *scope) addObjectIDFunctions(constructor, prototype *goja.Object) {
	c.hide(prototype, "isObjectId", c.vm.ToValue(true))
	c.function(constructor, "fromDate", func(call goja.FunctionCall) goja.Value {
		o, ok := call.Argument(0).(*goja.Object)
		if !ok || o.ClassName() != "Date" {
			c.reject("Cannot create ObjectId from %s", printable(call.Argument(0)))
		}
		var id [12]byte
		binary.BigEndian.PutUint32(id[:], uint32(dateOf(o, bson.Value{})/1000))
		return c.box(bson.ObjectID(id))
	})
}
