package javascript

import (
	"github.com/dop251/goja"

	"github.com/mayflydb/mayfly/internal/bson"
)

// dbPointer is DBPointer("namespace", ObjectId("…")), a retired type.
var dbPointer = class{
	name: "DBPointer", types: []bson.Type{bson.TypeDBPointer},
	make: func(c *scope, args arguments) bson.Value {
		id := unbox(args.at(1))
		if len(args) != 2 || id.Type != bson.TypeObjectID {
			c.reject("DBPointer needs 2 arguments, a namespace and an ObjectId")
		}
		return bson.DBPointer(args.text(0), id.ObjectID())
	},
	fields: func(c *scope, v bson.Value) []field {
		ns, id := v.DBPointer()
		return []field{{"ns", c.text(ns)}, {"id", c.box(bson.ObjectID(id))}}
	},
	methods: map[string]method{
		"toString": dbPointerText, "tojson": dbPointerText,
		"getCollection": func(c *scope, v bson.Value, _ arguments) goja.Value {
			ns, _ := v.DBPointer()
			return c.text(ns)
		},
		"getId": func(c *scope, v bson.Value, _ arguments) goja.Value {
			_, id := v.DBPointer()
			return c.box(bson.ObjectID(id))
		},
	},
}

func dbPointerText(c *scope, v bson.Value, _ arguments) goja.Value {
	ns, id := v.DBPointer()
	return c.text(`DBPointer("` + ns + `", ObjectId("` + bson.FormatObjectID(id) + `"))`)
}

// addDBRef defines DBRef(collection, id, database): a document {$ref, $id, $db}
// with methods, which prelude.js adds.
func (c *scope) addDBRef() {
	constructor := c.define("DBRef", func(args arguments) *goja.Object {
		if len(args) < 2 || len(args) > 3 {
			c.reject("DBRef needs 2 or 3 arguments")
		}
		o := c.vm.CreateObject(c.types.dbRef)
		for i, name := range []string{"$ref", "$id", "$db"} {
			if i < len(args) {
				c.rejectOn(o.Set(name, args[i]))
			}
		}
		return o
	})
	c.types.dbRef = constructor.Get("prototype").ToObject(c.vm)
}
