package project

import (
	"testing"

	driver "go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// sample is a document of about 300 bytes.
var sample = bson.MustParse(`{
	_id: ObjectId("0123456789abcdef01234567"), user: "somebody@example.org", score: 42, active: true,
	created: ISODate("2024-05-06T07:08:09Z"), address: {street: "1, Long Street", city: "Somewhere", zip: "12345"},
	tags: ["red", "green", "blue"], items: [{sku: "a1", qty: 2}, {sku: "b2", qty: 7}], ratio: 0.75, note: null,
	text: "a somewhat longer text that makes the document as long as the ones of the benchmarks are"
}`)

func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct{ name, spec string }{
		{"include", `{user: 1, score: 1}`},
		{"exclude", `{text: 0, items: 0}`},
		{"dotted", `{"address.city": 1, "items.qty": 1}`},
		{"slice", `{tags: {$slice: 2}}`},
		{"elemMatch", `{items: {$elemMatch: {qty: {$gt: 5}}}}`},
		{"computed", `{user: 1, double: {$multiply: ["$score", 2]}}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			p, err := ParseFind(bson.MustParse(c.spec), &Options{})
			if err != nil {
				b.Fatal(err)
			}
			env, buf := expr.NewEnv(0), []byte(nil)
			b.ReportAllocs()
			for b.Loop() {
				if buf, err = p.Append(buf[:0], env, sample); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkDecode is what projecting decoded documents would cost before it
// starts.
func BenchmarkDecode(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		var d driver.D
		if err := driver.Unmarshal(sample, &d); err != nil {
			b.Fatal(err)
		}
	}
}
