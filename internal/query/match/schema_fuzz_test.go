package match

import (
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/bson/bsontest"
)

// No schema makes the parser panic; what it accepts says yes or no about any
// document, the same in all the ways of checkFilter, the opposite below not, and
// the same below the quantifiers; where it says no it says why.
func FuzzSchema(f *testing.F) {
	doc := `{a: 1, b: "text", c: [1, "x", {d: null}], e: {f: 2.5}}`
	for _, s := range []string{
		`{bsonType: "object", required: ["a", "z"], properties: {a: {bsonType: "int", minimum: 0, maximum: 5, multipleOf: 2}}}`,
		`{properties: {b: {type: "string", minLength: 1, maxLength: 3, pattern: "^t(e+)x"}}}`,
		`{properties: {c: {items: [{type: "number"}, {enum: ["x", 1]}], additionalItems: false, uniqueItems: true, minItems: 1, maxItems: 2}}}`,
		`{patternProperties: {"^e": {minProperties: 1, maxProperties: 1, additionalProperties: {type: "integer"}}}}`,
		`{dependencies: {a: ["b"], b: {required: ["c"]}}, anyOf: [{required: ["q"]}], oneOf: [{}, {}], allOf: [{}], not: {required: ["a"]}}`,
		`{title: "t", description: "d", properties: {a: {exclusiveMinimum: true, minimum: 1}}}`,
	} {
		f.Add([]byte(bson.MustParse(s)), []byte(bson.MustParse(doc)))
	}
	f.Fuzz(func(t *testing.T, text, document []byte) {
		schema, data := bsontest.Repair(text), bsontest.Repair(document)
		filter := schemaFilter(schema)
		checkFilter(t, filter, data)
		parsed, err := Parse(filter, nil)
		if err != nil {
			return
		}
		want := judge(parsed.root, data)
		for name, inverse := range map[string]bool{"allOf": false, "anyOf": false, "oneOf": false, "not": true} {
			var b bson.Builder
			if name == "not" {
				b.Doc(name, schema)
			} else {
				b.OpenArray(name).Doc("0", schema).Close()
			}
			wrapped, err := Parse(schemaFilter(b.Finish()), nil)
			if err != nil { // nested too deeply now
				continue
			}
			if got := judge(wrapped.root, data); !want.agrees(verdict{got.ok != inverse, got.known}) {
				t.Fatalf("%s of %s says %v of %s", name, schema, got.ok, data)
			}
		}
	})
}

func schemaFilter(schema bson.Doc) bson.Doc {
	return new(bson.Builder).Doc("$jsonSchema", schema).Finish()
}
