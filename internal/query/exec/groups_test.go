package exec

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
	"github.com/mayflydb/mayfly/internal/query/querytest"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// groups are pipelines of a $group that one document of each group may answer.
func groups() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		var stages []string
		if rapid.IntRange(0, 2).Draw(t, "matching") == 0 {
			stages = append(stages, fmt.Sprintf(`{"$match": %s}`, querytest.Filters(1).Draw(t, "filter")))
		}
		by := rapid.SampledFrom([]string{"a", "b", "a.x"}).Draw(t, "by")
		pick := rapid.SampledFrom([]string{"", "$first", "$last"}).Draw(t, "pick")
		if pick == "" {
			return fmt.Sprintf("[%s]", strings.Join(append(stages, fmt.Sprintf(`{"$group": {"_id": %q}}`, "$"+by)), ","))
		}
		// With _id in the sort there is one right answer.
		stages = append(stages, fmt.Sprintf(`{"$sort": {%q: 1, "c": %d, "_id": 1}}`, by, rapid.SampledFrom([]int{1, -1}).Draw(t, "direction")))
		return fmt.Sprintf("[%s]", strings.Join(append(stages, fmt.Sprintf(`{"$group": {"_id": %q, "n": {%q: "$_id"}, "c": {%q: "$c"}}}`, "$"+by, pick, pick)), ","))
	})
}

// answers runs a pipeline and returns its results, sorted.
func (h *house) answers(t asker, ns schema.Namespace, text string) ([]bson.Doc, bool) {
	ctx := context.Background()
	list, err := bson.ParseJSONValue(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	p, err := pipeline.Parse(list.Doc().Slice(), &pipeline.Options{Expr: &expr.Options{}})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	q := &Query{}
	q.Env = expr.NewEnv(0)
	a, err := h.exec.Aggregate(ctx, h.catalog.Lookup(ns), q, p.Optimize(), &pipeline.Run{Env: q.Env})
	if err != nil {
		return nil, false
	}
	defer a.Close()
	var out []bson.Doc
	for {
		d, err := a.Next(ctx)
		if err != nil { // parallel arrays have no order
			return nil, false
		}
		if d == nil {
			slices.SortFunc(out, func(a, b bson.Doc) int { return strings.Compare(a.String(), b.String()) })
			return out, true
		}
		out = append(out, d.Clone())
	}
}

// aggregate is answers as text.
func (h *house) aggregate(t asker, ns schema.Namespace, text string) ([]string, bool) {
	t.Helper()
	docs, ok := h.answers(t, ns, text)
	out := make([]string, len(docs))
	for i, d := range docs {
		out[i] = d.String()
	}
	return out, ok
}

// TestSameGroups groups the same documents with and without indexes.
func TestSameGroups(t *testing.T) {
	h := openHouse(t, storage.NewMemFS())
	defer func() { h.close(t) }()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		ctx := context.Background()
		indexed, plain := schema.Namespace{DB: "d", Coll: fmt.Sprintf("i%d", n)}, schema.Namespace{DB: "d", Coll: fmt.Sprintf("p%d", n)}
		for _, ns := range []schema.Namespace{indexed, plain} {
			h.create(rt, ns)
		}
		option := rapid.SampledFrom([]string{"", "", `, "sparse": true`, `, "collation": ` + querytest.Caseless}).Draw(rt, "option")
		h.index(rt, indexed, []string{
			fmt.Sprintf(`{"key": {"a": 1, "c": 1, "_id": 1}, "name": "a"%s}`, option), `{"key": {"a": 1, "c": -1, "_id": 1}, "name": "r"}`,
			`{"key": {"b": -1, "c": -1, "_id": -1}, "name": "b"}`, fmt.Sprintf(`{"key": {"a.x": 1}, "name": "x"%s}`, option),
		})
		depth := rapid.IntRange(0, 2).Draw(rt, "depth")
		w := h.exec.NewWriter(storage.Buffered)
		for i, d := range rapid.SliceOfN(querytest.Fields([]string{"a", "b", "c"}, depth), 0, 20).Draw(rt, "documents") {
			doc := new(bson.Builder).Int32("_id", int32(i)).Fields(parseDoc(rt, d)).Finish()
			if w.Insert(ctx, h.catalog.Lookup(indexed), doc) == nil {
				if err := w.Insert(ctx, h.catalog.Lookup(plain), doc); err != nil {
					rt.Fatalf("%v", err)
				}
			}
		}
		if err := w.Commit(ctx); err != nil {
			rt.Fatalf("%v", err)
		}
		for range 4 {
			text := groups().Draw(rt, "pipeline")
			want, ok := h.answers(rt, plain, text)
			got, gok := h.answers(rt, indexed, text)
			if ok && gok && !slices.EqualFunc(got, want, sameGroup) {
				rt.Fatalf("%s: %v, not %v\nindexes %s", text, got, want, describeIndexes(h.catalog.Lookup(indexed)))
			}
		}
		for _, ns := range []schema.Namespace{indexed, plain} {
			if _, err := h.catalog.Drop(ctx, ns); err != nil {
				rt.Fatalf("%v", err)
			}
		}
	})
}

// sameGroup compares groups; which of 1 and 1.0 stands for a group depends on
// the document that came first.
func sameGroup(a, b bson.Doc) bool { return bson.Equal(bson.Document(a), bson.Document(b)) }
