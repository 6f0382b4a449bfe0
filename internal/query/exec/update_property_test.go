package exec

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/querytest"
	"github.com/mayflydb/mayfly/internal/query/update"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// change is a statement as it is written; by "" it deletes.
type change struct {
	filter, by, collation string
	multi                 bool
}

func changes() *rapid.Generator[change] {
	return rapid.Custom(func(t *rapid.T) change {
		s := change{filter: querytest.Filters(1).Draw(t, "filter"), multi: true}
		if rapid.IntRange(0, 5).Draw(t, "delete") > 0 {
			s.by = querytest.Updates().Draw(t, "update")
		}
		if rapid.IntRange(0, 4).Draw(t, "collated") == 0 {
			s.collation = querytest.Caseless
		}
		return s
	})
}

// run applies a statement to a collection.
func (h *house) run(t asker, ns schema.Namespace, s change) (*Written, error) {
	t.Helper()
	ctx := context.Background()
	c, q := h.catalog.Lookup(ns), asked{filter: s.filter, collation: s.collation}.query(t)
	w := h.exec.NewWriter(storage.Buffered)
	defer w.Abort()
	var out *Written
	var err error
	if s.by == "" {
		out, err = w.Delete(ctx, c, &Delete{Query: q, Multi: s.multi})
	} else {
		v, perr := bson.ParseJSONValue(s.by)
		if perr != nil {
			t.Fatalf("%s: %v", s.by, perr)
		}
		u, perr := update.Parse(v, &update.Options{Collator: q.Collator})
		if perr != nil {
			return nil, perr
		}
		out, err = w.Update(ctx, c, &Update{Query: q, Update: u, Multi: s.multi})
	}
	if err != nil {
		return nil, err
	}
	return out, w.Commit(ctx)
}

// all are the documents of a collection, in order.
func (h *house) all(t asker, ns schema.Namespace) []string {
	a, err := h.ask(t, h.catalog.Lookup(ns), asked{filter: "{}", hint: `{"$natural": 1}`})
	if err != nil {
		t.Fatalf("%v", err)
	}
	var docs []string
	for _, d := range a.docs {
		docs = append(docs, d.String())
	}
	return docs
}

// TestSameUpdate makes the same random changes to a collection with indexes and
// to one without: they count the same and leave the same documents, which
// every index finds, also after the store was closed and opened again.
func TestSameUpdate(t *testing.T) {
	fs := storage.NewMemFS()
	h := openHouse(t, fs)
	defer func() { h.close(t) }()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		ctx := context.Background()
		indexed, plain := schema.Namespace{DB: "d", Coll: fmt.Sprintf("i%d", n)}, schema.Namespace{DB: "d", Coll: fmt.Sprintf("p%d", n)}
		for _, ns := range []schema.Namespace{indexed, plain} {
			h.create(rt, ns)
		}
		var specs []string
		for i := range rapid.IntRange(1, 3).Draw(rt, "indexes") {
			specs = append(specs, indexes(i).Draw(rt, "index"))
		}
		h.index(rt, indexed, append(specs, onShardKey(rt, h.catalog.Lookup(indexed))...))
		w := h.exec.NewWriter(storage.Buffered)
		for i, d := range rapid.SliceOfN(querytest.Fields([]string{"a", "b", "c"}, 2), 0, 20).Draw(rt, "documents") {
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
			s := changes().Draw(rt, "change")
			want, werr := h.run(rt, plain, s)
			got, gerr := h.run(rt, indexed, s)
			if werr != nil || gerr != nil {
				break // an index may refuse a document, or documents come in another order to the one that fails
			}
			if want.Matched != got.Matched || want.Modified != got.Modified || want.Deleted != got.Deleted {
				rt.Fatalf("%+v: %+v (%s), not %+v\nindexes %s", s, got, got.Summary, want, describeIndexes(h.catalog.Lookup(indexed)))
			}
			if a, b := h.all(rt, plain), h.all(rt, indexed); !slices.Equal(a, b) {
				rt.Fatalf("%+v by %s left\n%s, not\n%s", s, got.Summary, strings.Join(b, "\n"), strings.Join(a, "\n"))
			}
		}
		if n%10 == 0 {
			h.close(t)
			h = openHouse(t, fs)
		}
		for range 2 {
			h.compare(rt, indexed, questions().Draw(rt, "question"))
		}
		for _, ns := range []schema.Namespace{indexed, plain} {
			if _, err := h.catalog.Drop(ctx, ns); err != nil {
				rt.Fatalf("%v", err)
			}
		}
	})
}
