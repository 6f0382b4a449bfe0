package exec

import (
	"context"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// TestScanWithoutMemory holds that a scan of an index over arrays answers each
// document once, also where it cannot remember any.
func TestScanWithoutMemory(t *testing.T) {
	h := openHouse(t, storage.NewMemFS())
	defer func() { h.close(t) }()
	ctx := context.Background()
	ns := schema.Namespace{DB: "d", Coll: "arrays"}
	c, err := h.catalog.Create(ctx, ns, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := h.exec.NewWriter(storage.Buffered)
	for i := range int32(200) {
		d := new(bson.Builder).Int32("_id", i).OpenArray("k").Int32("0", i%7).Int32("1", i%11+3).Int32("2", i%3).Close().Finish()
		if err := w.Insert(ctx, c, d); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	h.index(t, ns, []string{`{"key": {"k": 1, "_id": -1}, "name": "k"}`})
	for _, text := range []string{
		`{"k": {"$gte": 2}}`, `{"k": {"$in": [1, 4, 9]}}`, `{"k": {"$lt": 6}, "_id": {"$gt": 50}}`, `{"k": {"$gt": 100}}`,
	} {
		for _, sort := range []string{`{}`, `{"k": -1}`} {
			var counts []int
			for _, limit := range []int{maxSeen, 40 * 20, 0} {
				q := &Query{}
				q.Env = expr.NewEnv(0)
				q.Hint = bson.String("k")
				if q.Filter, err = match.Parse(bson.MustParseValue(text).Doc(), nil); err != nil {
					t.Fatal(err)
				}
				if q.Sort, err = sortkey.Parse(bson.MustParseValue(sort).Doc()); err != nil {
					t.Fatal(err)
				}
				r, err := h.exec.prepare(ctx, h.catalog.Lookup(ns), q, nil)
				if err != nil {
					t.Fatal(err)
				}
				limitSeen(r.winner.stage, limit)
				seen := map[int32]bool{}
				var row stage.Row
				for n := 0; ; n++ {
					ok, err := r.next(ctx, &row)
					if err != nil {
						t.Fatal(err)
					}
					if !ok {
						counts = append(counts, len(seen))
						if n != len(seen) {
							t.Errorf("%s sorted by %s, %d bytes: %d rows of %d documents", text, sort, limit, n, len(seen))
						}
						break
					}
					seen[row.Doc.Lookup("_id").Int32()] = true
				}
				r.close()
			}
			if counts[0] != counts[1] || counts[0] != counts[2] {
				t.Errorf("%s sorted by %s: %d documents", text, sort, counts)
			}
		}
	}
}

// limitSeen sets what the scans of a plan may remember.
func limitSeen(s stage.Stage, limit int) {
	if scan, ok := s.(*indexScan); ok && scan.seen != nil {
		scan.seen.limit = limit
	}
	for _, in := range s.Inputs() {
		limitSeen(in, limit)
	}
}
