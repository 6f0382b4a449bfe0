package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// TestSetWindowFields runs testdata/setwindowfields: the first line of a case is
// the stage's argument, the others are the documents it runs over.
func TestSetWindowFields(t *testing.T) {
	datadriven.Walk(t, "testdata/setwindowfields", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, c *datadriven.TestData) string {
			spec, rest, _ := strings.Cut(c.Input, "\n")
			var docs []bson.Doc
			for line := range strings.SplitSeq(rest, "\n") {
				if line != "" {
					docs = append(docs, bson.MustParse(line))
				}
			}
			out, err := windows(spec, docs)
			if err != nil {
				e := mongoerr.From(err)
				return fmt.Sprintf("%d: %s\n", e.Code, e.Message)
			}
			var b strings.Builder
			for _, d := range out {
				fmt.Fprintln(&b, d)
			}
			return b.String()
		})
	})
}

func windows(spec string, docs []bson.Doc) ([]bson.Doc, error) {
	stage := new(bson.Builder).Value("$setWindowFields", bson.MustParseValue(spec)).Finish()
	p, err := Parse([]bson.Value{bson.Document(stage)}, &Options{Expr: &expr.Options{}})
	if err != nil {
		return nil, err
	}
	it, err := p.Open(&List{Docs: docs}, &Run{Env: expr.NewEnv(1)})
	if err != nil {
		return nil, err
	}
	defer it.Close()
	var out []bson.Doc
	for {
		d, err := it.Next(context.Background())
		if err != nil || d == nil {
			return out, err
		}
		out = append(out, bson.Document(d).Clone().Doc())
	}
}

// slidingFunctions are functions whose results do not depend on how the window
// was reached.
var slidingFunctions = []string{
	`$sum: "$v"`, `$avg: "$v"`, `$min: "$v"`, `$max: "$v"`, `$push: "$v"`, `$first: "$v"`, `$last: "$v"`, `$count: {}`,
	`$addToSet: {$mod: ["$v", 3]}`, `$firstN: {n: 2, input: "$v"}`, `$lastN: {n: 2, input: "$v"}`,
	`$minN: {n: 2, input: "$v"}`, `$maxN: {n: 2, input: "$v"}`, `$median: {input: "$v", method: "approximate"}`,
	`$percentile: {input: "$v", p: [0, 0.3, 1], method: "approximate"}`,
	`$top: {output: "$_id", sortBy: {v: 1}}`, `$bottomN: {n: 2, output: "$_id", sortBy: {v: 1}}`,
	`$topN: {n: 3, output: "$v", sortBy: {v: -1, _id: 1}}`, `$setUnion: ["$v"]`, `$concatArrays: [["$v"]]`,
}

// TestSlidingAgainstTwin compares sliding windows with windows that are each
// gathered anew: the whole of a partition that holds just those documents.
func TestSlidingAgainstTwin(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := rapid.SampledFrom(slidingFunctions).Draw(rt, "function")
		values := rapid.SliceOfN(rapid.IntRange(-4, 4), 1, 20).Draw(rt, "values")
		lower := rapid.IntRange(-5, 5).Draw(rt, "lower")
		upper := rapid.IntRange(lower, 7).Draw(rt, "upper")
		var docs []bson.Doc
		for i, v := range values {
			d := fmt.Sprintf(`{_id: %d, v: %d}`, i, v)
			if v == 4 {
				d = fmt.Sprintf(`{_id: %d}`, i)
			}
			docs = append(docs, bson.MustParse(d))
		}
		if strings.HasPrefix(f, "$setUnion") || strings.HasPrefix(f, "$concat") {
			f = strings.NewReplacer(`["$v"]`, `[{$ifNull: ["$v", 0]}]`, `[["$v"]]`, `["$v", 1]`).Replace(f)
		}
		got, err := windows(fmt.Sprintf(`{sortBy: {_id: 1}, output: {r: {%s, window: {documents: [%d, %d]}}}}`, f, lower, upper), docs)
		if err != nil {
			rt.Fatal(err)
		}
		for i, d := range got {
			from, to := max(0, i+lower), min(len(docs), i+upper+1)
			twin := emptyWindow(rt, f)
			if from < to {
				rows, err := windows(fmt.Sprintf(`{sortBy: {_id: 1}, output: {r: {%s}}}`, f), docs[from:to])
				if err != nil {
					rt.Fatal(err)
				}
				twin = rows[0].Lookup("r")
			}
			if a, b := d.Lookup("r"), twin; asSet(f, a) != asSet(f, b) {
				rt.Fatalf("%s over %v, document %d [%d, %d]: %s, twin %s", f, values, i, lower, upper, a, b)
			}
		}
	})
}

// asSet is the text of a result, of a set with its members in order.
func asSet(f string, v bson.Value) string {
	if !strings.HasPrefix(f, "$addToSet") && !strings.HasPrefix(f, "$setUnion") {
		return v.String()
	}
	return bson.Array(slices.SortedFunc(v.Doc().Values(), bson.Compare)...).String()
}

// emptyWindow is the result of a function over a window without documents.
func emptyWindow(t *rapid.T, f string) bson.Value {
	rows, err := windows(fmt.Sprintf(`{sortBy: {_id: 1}, output: {r: {%s, window: {documents: [5, 6]}}}}`, f), []bson.Doc{bson.MustParse("{_id: 1}")})
	if err != nil {
		t.Fatal(err)
	}
	return rows[0].Lookup("r")
}

func BenchmarkSlidingSum(b *testing.B) {
	var docs []bson.Doc
	for i := range 10000 {
		docs = append(docs, bson.MustParse(fmt.Sprintf(`{_id: %d, v: %d, s: "%0100d"}`, i, i%17, i)))
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := windows(`{sortBy: {_id: 1}, output: {r: {$sum: "$v", window: {documents: [-100, 100]}}}}`, docs); err != nil {
			b.Fatal(err)
		}
	}
}
