package match

import (
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
)

// No schema makes the parser panic; what it accepts says yes or no about any
// document, and where it says no it says why.
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
	f.Fuzz(func(t *testing.T, schema, data []byte) {
		if bson.Validate(schema, 100) != nil || bson.Validate(data, 100) != nil {
			return
		}
		filter, err := Parse(new(bson.Builder).Doc("$jsonSchema", schema).Finish(), nil)
		if err != nil {
			return
		}
		ok, err := filter.Match(data)
		if err != nil || ok {
			return
		}
		if why, err := filter.ExplainFailure(data, nil); err == nil && why.IsEmpty() {
			t.Fatalf("no reason why %s fails %s", bson.Doc(data), bson.Doc(schema))
		}
		Serialize(filter.Root())
	})
}
