package exec

import (
	"slices"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/query/update"
	"github.com/mayflydb/mayfly/internal/storage"
)

// TestSortsEntries sorts entries by their keys and reads none but the documents of
// the answer, which while the cursor was parked may have left it.
func TestSortsEntries(t *testing.T) {
	var docs []bson.Doc
	for i := range 200 {
		b := new(bson.Builder).Int32("_id", int32(i)).Int32("a", 1).Int32("b", int32(i*7%200))
		if i%10 != 0 { // what is missing sorts as null
			b.Int32("c", int32(i))
		}
		docs = append(docs, b.Finish())
	}
	w := newGeoWorld(t, newExecutor(t), `{key: {a: 1, b: 1, c: 1}, name: "abc"}`, docs)
	cur, err := w.x.Find(t.Context(), w.coll, asked{filter: `{"a": 1}`, sort: `{"c": -1}`, skip: 1, limit: 10}.query(t))
	must(t, err)
	defer cur.Close()
	if got, want := plan.Signature(cur.r.winner.node), "FETCH (SKIP (SORT (IXSCAN abc false 0 = * *)))"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	var ids []int64
	next := func() bool {
		d, err := cur.Next(t.Context())
		must(t, err)
		if d != nil {
			ids = append(ids, bson.ClampToInt64(d.Lookup("_id")))
		}
		return d != nil
	}
	for range 2 {
		next()
	}
	must(t, cur.Park())
	writer := w.x.NewWriter(storage.Buffered)
	spec, err := bson.ParseJSONValue(`{"$set": {"a": 2}}`)
	must(t, err)
	set, err := update.Parse(spec, &update.Options{})
	must(t, err)
	_, err = writer.Update(t.Context(), w.coll, &Update{Query: asked{filter: `{"_id": 195}`}.query(t), Update: set})
	must(t, err)
	_, err = writer.Delete(t.Context(), w.coll, &Delete{Query: asked{filter: `{"_id": 193}`}.query(t)})
	must(t, err)
	must(t, writer.Commit(t.Context()))
	must(t, cur.Unpark(t.Context()))
	for next() {
	}
	if want := []int64{198, 197, 196, 194, 192, 191, 189, 188}; !slices.Equal(ids, want) {
		t.Errorf("%v, want %v", ids, want)
	}
	keys, read := totals(cur.r.winner.stage)
	if keys < 200 || read > 10 {
		t.Errorf("%d keys and %d documents read, want 200 or 201 and at most 10", keys, read)
	}
	if s := cur.Summary(); !strings.HasPrefix(s, "IXSCAN") {
		t.Errorf("summary %q", s)
	}
}
