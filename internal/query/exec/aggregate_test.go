package exec

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// numbers makes a collection of documents {_id, k: _id % 3}.
func (h *house) numbers(t *testing.T, n int) schema.Namespace {
	ctx := context.Background()
	ns := schema.Namespace{DB: "d", Coll: fmt.Sprintf("n%d", n)}
	c, err := h.catalog.Create(ctx, ns, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := h.exec.NewWriter(storage.Buffered)
	for i := range int32(n) {
		if err := w.Insert(ctx, c, new(bson.Builder).Int32("_id", i).Int32("k", i%3).Finish()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	return ns
}

// TestAggregateAhead reads more documents than are read without a goroutine.
func TestAggregateAhead(t *testing.T) {
	h := openHouse(t, storage.NewMemFS())
	defer func() { h.close(t) }()
	const n = 1500
	ns := h.numbers(t, n)
	half := n / 2
	got, ok := h.aggregate(t, ns, fmt.Sprintf(`[{"$match": {"_id": {"$gte": %d}}}, {"$set": {"x": 2}}, {"$group": {"_id": "$k", "n": {"$sum": "$x"}}}]`, half))
	want := []string{"{ _id: 0, n: 500 }", "{ _id: 1, n: 500 }", "{ _id: 2, n: 500 }"}
	if !ok || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, ok, want)
	}
	// One that fails on its way.
	if got, ok := h.aggregate(t, ns, `[{"$group": {"_id": {"$divide": [1, {"$subtract": ["$_id", 1400]}]}}}]`); ok {
		t.Errorf("%d groups, no error", len(got))
	}
}

// TestExplainFacet holds that explain shows what each pipeline of a $facet did.
func TestExplainFacet(t *testing.T) {
	h := openHouse(t, storage.NewMemFS())
	defer func() { h.close(t) }()
	c := h.catalog.Lookup(h.numbers(t, 10))
	list := bson.MustParseValue(`[{"$facet": {"x": [{"$match": {"k": 1}}, {"$limit": 2}], "y": []}}]`)
	for v, want := range map[Verbosity]string{
		QueryPlanner: `{ $facet: { x: [ { $internalFacetTeeConsumer: {} }, { $match: { k: { $eq: 1 } } }, { $limit: 2 } ], y: [ { $internalFacetTeeConsumer: {} } ] } }`,
		ExecutionStats: `{ $facet: { x: [ { $internalFacetTeeConsumer: {}, nReturned: 5 }, { $match: { k: { $eq: 1 } }, nReturned: 2 }, { $limit: 2, nReturned: 2 } ], ` +
			`y: [ { $internalFacetTeeConsumer: {}, nReturned: 10 } ] }, nReturned: 1 }`,
	} {
		stages := h.explain(t, c, list, v)
		if got := stages[len(stages)-1]; got != want {
			t.Errorf("verbosity %d:\n%s\nwant\n%s", v, got, want)
		}
	}
}

// explain is the stages of the explain of a pipeline, without times.
func (h *house) explain(t *testing.T, c *catalog.Collection, list bson.Value, v Verbosity) (stages []string) {
	t.Helper()
	p, err := pipeline.Parse(list.Doc().Slice(), &pipeline.Options{Expr: &expr.Options{}})
	if err != nil {
		t.Fatal(err)
	}
	q := &Query{}
	q.Env = expr.NewEnv(0)
	var b bson.Builder
	if err := h.exec.ExplainAggregate(context.Background(), c, c.Namespace.String(), q, p.Optimize(), &pipeline.Run{Env: q.Env}, v, &b); err != nil {
		t.Fatal(err)
	}
	times := regexp.MustCompile(`, executionTimeMillisEstimate: \d+`)
	for s := range b.Finish().Lookup("stages").Doc().Values() {
		stages = append(stages, times.ReplaceAllString(s.Doc().String(), ""))
	}
	return stages
}

// TestExplainWindows holds that explain shows the sort that a $setWindowFields
// begins with, and what its functions held.
func TestExplainWindows(t *testing.T) {
	h := openHouse(t, storage.NewMemFS())
	defer func() { h.close(t) }()
	c := h.catalog.Lookup(h.numbers(t, 10))
	list := bson.MustParseValue(`[{"$setWindowFields": {"partitionBy": "$k", "sortBy": {"_id": 1}, "output": {"n": {"$push": "$_id"}}}}]`)
	stages := h.explain(t, c, list, ExecutionStats)
	for i, want := range []string{
		`{ $sort: { sortKey: { k: 1, _id: 1 } }, totalDataSizeSortedBytesEstimate: `,
		`{ $_internalSetWindowFields: { partitionBy: "$k", sortBy: { _id: 1 }, output: { n: { $push: "$_id", window: { documents: [ "unbounded", "unbounded" ] } } } }, maxFunctionMemoryUsageBytes: { n: `,
	} {
		if got := stages[1+i]; !strings.HasPrefix(got, want) || !strings.HasSuffix(got, ", nReturned: 10 }") {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
}

// TestCountScan holds that pipelines which read nothing of their documents count
// the entries of one range of an index, and no other documents than that.
func TestCountScan(t *testing.T) {
	h := openHouse(t, storage.NewMemFS())
	defer func() { h.close(t) }()
	ns := h.numbers(t, 30)
	h.index(t, ns, []string{`{"key": {"k": 1, "_id": -1}, "name": "k"}`})
	for _, tc := range []struct{ pipeline, plan, want string }{
		{`[{"$match": {"k": 1}}, {"$count": "n"}]`, "COUNT_SCAN", "{ n: 10 }"},
		{`[{"$match": {"k": {"$gt": 0}}}, {"$group": {"_id": null, "n": {"$sum": 1}}}]`, "COUNT_SCAN", "{ _id: null, n: 20 }"},
		{`[{"$sort": {"k": -1}}, {"$count": "n"}]`, "COUNT_SCAN", "{ n: 30 }"},
		{`[{"$match": {"k": 2}}, {"$project": {"_id": 0, "x": {"$literal": 7}}}, {"$limit": 1}]`, "LIMIT", "{ x: 7 }"},
		{`[{"$match": {"k": {"$in": [0, 1]}}}, {"$count": "n"}]`, "IXSCAN", "{ n: 20 }"},
		{`[{"$match": {"k": 1}}, {"$limit": 3}, {"$count": "n"}]`, "LIMIT", "{ n: 3 }"},
		{`[{"$count": "n"}]`, "COLLSCAN", "{ n: 30 }"},
		{`[{"$match": {"k": 2}}, {"$project": {"_id": 0, "x": {"$literal": 7}}}, {"$group": {"_id": "$x"}}]`, "COUNT_SCAN", "{ _id: 7 }"},
		{`[{"$match": {"k": null}}, {"$count": "n"}]`, "COUNT_SCAN", ""},
		{`[{"$match": {"k": {"$exists": true}}}, {"$count": "n"}]`, "FETCH", "{ n: 30 }"},
	} {
		got, ok := h.aggregate(t, ns, tc.pipeline)
		if !ok || strings.Join(got, " ") != tc.want {
			t.Errorf("%s: %v, %v; want %s", tc.pipeline, got, ok, tc.want)
		}
		p, err := pipeline.Parse(bson.MustParseValue(tc.pipeline).Doc().Slice(), &pipeline.Options{Expr: &expr.Options{}})
		if err != nil {
			t.Fatal(err)
		}
		q := &Query{}
		q.Env = expr.NewEnv(0)
		var b bson.Builder
		if err := h.exec.ExplainAggregate(context.Background(), h.catalog.Lookup(ns), ns.String(), q, p.Optimize(), &pipeline.Run{Env: q.Env}, QueryPlanner, &b); err != nil {
			t.Fatal(err)
		}
		cursor := b.Finish().Lookup("stages").Doc().Slice()[0].Doc().Lookup("$cursor").Doc()
		if stage := cursor.Lookup("queryPlanner").Doc().Lookup("winningPlan").Doc().Lookup("stage").Str(); stage != tc.plan {
			t.Errorf("%s: %s, want %s", tc.pipeline, stage, tc.plan)
		}
	}
}
