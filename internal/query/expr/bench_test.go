package expr

import (
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
)

// BenchmarkEval evaluates the commonest operators for one document.
func BenchmarkEval(b *testing.B) {
	doc := bson.MustParse(`{_id: 7, a: 3, b: 4.5, n: {x: 1, y: {z: 2}}, s: "the quick brown fox", t: "42",
		d: {$date: "2024-02-29T12:34:56.789Z"}, list: [3, 1, 2, 5, 4], items: [{p: 2, q: 3}, {p: 4, q: 5}, {p: 6, q: 7}]}`)
	for _, c := range []struct{ name, source string }{
		{"path", `"$n.y.z"`},
		{"arrayPath", `"$items.p"`},
		{"add", `{$add: ["$a", "$b", 1]}`},
		{"multiply", `{$multiply: ["$a", "$b"]}`},
		{"divide", `{$divide: ["$a", 2]}`},
		{"compare", `{$gt: ["$a", 2]}`},
		{"and", `{$and: [{$gt: ["$a", 2]}, {$lt: ["$b", 9]}, {$eq: ["$s", "the quick brown fox"]}]}`},
		{"cond", `{$cond: [{$gte: ["$a", 3]}, "$b", 0]}`},
		{"ifNull", `{$ifNull: ["$missing", "$a"]}`},
		{"switch", `{$switch: {branches: [{case: {$eq: ["$a", 1]}, then: 1}, {case: {$eq: ["$a", 3]}, then: 2}], default: 3}}`},
		{"concat", `{$concat: ["$s", "-", "$t"]}`},
		{"toUpper", `{$toUpper: "$s"}`},
		{"substr", `{$substrCP: ["$s", 4, 5]}`},
		{"regexMatch", `{$regexMatch: {input: "$s", regex: "quick"}}`},
		{"split", `{$split: ["$s", " "]}`},
		{"toInt", `{$toInt: "$t"}`},
		{"toString", `{$toString: "$b"}`},
		{"toDate", `{$toDate: {$dateToString: {date: "$d"}}}`},
		{"year", `{$year: "$d"}`},
		{"yearInZone", `{$year: {date: "$d", timezone: "Europe/Paris"}}`},
		{"dateToString", `{$dateToString: {date: "$d", format: "%Y-%m-%d"}}`},
		{"dateTrunc", `{$dateTrunc: {date: "$d", unit: "hour"}}`},
		{"dateTruncInZone", `{$dateTrunc: {date: "$d", unit: "day", timezone: "America/New_York"}}`},
		{"dateAdd", `{$dateAdd: {startDate: "$d", unit: "month", amount: 1}}`},
		{"dateDiff", `{$dateDiff: {startDate: "$d", endDate: {$date: 0}, unit: "day"}}`},
		{"arrayElemAt", `{$arrayElemAt: ["$list", 2]}`},
		{"size", `{$size: "$list"}`},
		{"in", `{$in: [5, "$list"]}`},
		{"map", `{$map: {input: "$items", in: {$multiply: ["$$this.p", "$$this.q"]}}}`},
		{"filter", `{$filter: {input: "$list", cond: {$gt: ["$$this", 2]}}}`},
		{"reduce", `{$reduce: {input: "$list", initialValue: 0, in: {$add: ["$$value", "$$this"]}}}`},
		{"sum", `{$sum: "$items.p"}`},
		{"object", `{a: "$a", b: {c: "$b"}}`},
		{"mergeObjects", `{$mergeObjects: ["$n", {w: "$a"}]}`},
		{"let", `{$let: {vars: {x: "$a"}, in: {$add: ["$$x", "$$x"]}}}`},
		{"sin", `{$sin: "$b"}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			e, err := Parse(bson.MustParseValue(c.source), nil)
			if err != nil {
				b.Fatal(err)
			}
			env := NewEnv(0)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Eval(env.WithRoot(doc)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkParse parses and folds an expression of some size.
func BenchmarkParse(b *testing.B) {
	v := bson.MustParseValue(`{$cond: [{$and: [{$gt: ["$a", {$add: [1, 2]}]}, {$in: ["$s", ["x", "y"]]}]},
		{$map: {input: "$list", as: "i", in: {$multiply: ["$$i", 2]}}}, {$concat: ["$s", "!"]}]}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(v, nil); err != nil {
			b.Fatal(err)
		}
	}
}
