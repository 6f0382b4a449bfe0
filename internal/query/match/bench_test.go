package match

import (
	"testing"

	driver "go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mayflydb/mayfly/internal/bson"
)

// sample is a document of about 300 bytes.
var sample = bson.MustParse(`{
	_id: ObjectId("0123456789abcdef01234567"), user: "somebody@example.org", score: 42, active: true,
	created: ISODate("2024-05-06T07:08:09Z"), address: {street: "1, Long Street", city: "Somewhere", zip: "12345"},
	tags: ["red", "green", "blue"], items: [{sku: "a1", qty: 2}, {sku: "b2", qty: 7}], ratio: 0.75, note: null,
	text: "a somewhat longer text that makes the document as long as the ones of the benchmarks are"
}`)

func BenchmarkMatch(b *testing.B) {
	for _, c := range []struct{ name, filter string }{
		{"eq", `{score: 42}`},
		{"eqString", `{user: "somebody@example.org"}`},
		{"range", `{score: {$gte: 10, $lt: 100}}`},
		{"in", `{score: {$in: [1, 2, 3, 42, 50]}}`},
		{"inMany", `{score: {$in: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 42, 99]}}`},
		{"dotted", `{"address.city": "Somewhere"}`},
		{"array", `{"items.qty": {$gt: 5}}`},
		{"and3", `{score: 42, active: true, ratio: {$gt: 0.5}}`},
		{"miss", `{nothing: 1}`},
		{"regex", `{user: /^some/}`},
		{"elemMatch", `{items: {$elemMatch: {sku: "b2", qty: {$gt: 5}}}}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			f, err := Parse(bson.MustParse(c.filter), nil)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := f.Match(sample); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkDecode is what matching on decoded documents would cost before it
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

func BenchmarkParse(b *testing.B) {
	filter := bson.MustParse(`{score: {$gte: 10, $lt: 100}, active: true, "address.city": {$in: ["x", "y"]}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(filter, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// TestMatchAllocatesNothing holds what the common paths cost.
func TestMatchAllocatesNothing(t *testing.T) {
	for _, filter := range []string{
		`{score: 42}`, `{score: {$gte: 10, $lt: 100}}`, `{score: {$in: [1, 2, 42]}}`, `{"address.city": "Somewhere"}`,
		`{"items.qty": {$gt: 5}}`, `{score: 42, active: true, ratio: {$gt: 0.5}}`, `{$or: [{score: 1}, {active: true}]}`,
		`{user: /^some/}`, `{items: {$elemMatch: {sku: "b2"}}}`, `{tags: {$size: 3}, note: {$type: "null"}}`,
		`{$jsonSchema: {required: ["user"], properties: {score: {enum: [1, 42]}, user: {enum: ["somebody@example.org"]}}}}`,
	} {
		f, err := Parse(bson.MustParse(filter), nil)
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(100, func() { _, _ = f.Match(sample) }); n != 0 {
			t.Errorf("%s: %v allocations", filter, n)
		}
	}
}
