package javascript

import (
	"github.com/dop251/goja"

	"github.com/mayflydb/mayfly/internal/bson"
)

// minKey and maxKey are MinKey() and MaxKey(); the constructors themselves stand
// for the values too.
var (
	minKey = end("MinKey", bson.MinKey, "$minKey")
	maxKey = end("MaxKey", bson.MaxKey, "$maxKey")
)

func end(name string, v bson.Value, key string) class {
	text := func(c *scope, _ bson.Value, _ arguments) goja.Value { return c.text(`{ "` + key + `" : 1 }`) }
	return class{
		name: name, types: []bson.Type{v.Type},
		make: func(*scope, arguments) bson.Value { return v },
		methods: map[string]method{
			"toString": func(c *scope, _ bson.Value, _ arguments) goja.Value { return c.text("[object " + name + "]") },
			"tojson":   text,
			"toJSON":   func(c *scope, _ bson.Value, _ arguments) goja.Value { return c.object(key, 1) },
		},
	}
}
