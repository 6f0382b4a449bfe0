package exec

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/replay"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/storage"
)

// hidingBench is a collection of n documents with a TTL index that was there
// before them, none due, seen as it is and as one that hides what is due.
func hidingBench(b *testing.B, n int) (h *house, deferred, immediate *catalog.Collection) {
	b.Helper()
	e, err := storage.Open(storage.Options{Dir: b.TempDir(), CacheBytes: 1 << 30})
	if err != nil {
		b.Fatal(err)
	}
	c, err := catalog.Open(e, catalog.Options{})
	if err != nil {
		b.Fatal(err)
	}
	h = &house{e, c, &Executor{Catalog: c}}
	b.Cleanup(func() { h.close(b) })
	ctx := context.Background()
	if _, err := c.Create(ctx, benchNS, nil); err != nil {
		b.Fatal(err)
	}
	h.index(b, benchNS, []string{`{"key": {"at": 1}, "name": "at", "expireAfterSeconds": 3600}`, `{"key": {"k": 1}, "name": "k"}`})
	pad, now := strings.Repeat("x", 220), c.Clock.ExpiryTime()
	w := h.exec.NewWriter(storage.Buffered)
	for i := range n {
		doc := new(bson.Builder).Int32("_id", int32(i)).Int32("k", int32(i*7919%n)).Int32("n", 0).Date("at", now+int64(i)).String("pad", pad).Finish()
		if err := w.Insert(ctx, c.Lookup(benchNS), doc); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Commit(ctx); err != nil {
		b.Fatal(err)
	}
	deferred = c.Lookup(benchNS)
	for _, ix := range deferred.Indexes() {
		if _, err := e.Compact(ctx, ix.Ident); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := e.Compact(ctx, deferred.Ident); err != nil {
		b.Fatal(err)
	}
	options := parseDoc(b, `{"storageEngine": {"mayfly": {"expiry": {"visibility": "immediate"}}}}`)
	immediate, err = c.Modify(ctx, benchNS, func(*catalog.Collection) (catalog.Modification, error) {
		return catalog.Modification{Options: options}, nil
	})
	if err != nil || immediate.Hiding() == nil || deferred.Hiding() != nil {
		b.Fatal(err)
	}
	err = c.RaiseWatermark(immediate, func(r *catalog.Rule) (int64, error) {
		return h.firstDue(ctx, immediate, r)
	})
	if err != nil {
		b.Fatal(err)
	}
	return h, deferred, immediate
}

// BenchmarkVisibility answers the same questions by the same documents, none of
// which is due, where rules hide what is due and where they do not: nanoseconds
// for each document, and how many hundredths more it takes.
func BenchmarkVisibility(b *testing.B) {
	const size, width = 100_000, 1_000
	h, deferred, immediate := hidingBench(b, size)
	within := func(field string, at int) string {
		return fmt.Sprintf(`{%q: {"$gte": %d, "$lt": %d}}`, field, at, at+width)
	}
	for _, q := range []struct {
		name string
		docs int
		ask  func(at int) asked
	}{
		{"_id", 1, func(at int) asked { return asked{filter: fmt.Sprintf(`{"_id": %d}`, at)} }},
		{"byIDs100", 100, func(at int) asked {
			return asked{filter: fmt.Sprintf(`{"_id": {"$gte": %d, "$lt": %d}}`, at, at+100)}
		}},
		{"byIDs", width, func(at int) asked { return asked{filter: within("_id", at)} }},
		{"byIndex", width, func(at int) asked { return asked{filter: within("k", at)} }},
		{"covered", width, func(at int) asked { return asked{filter: within("k", at), projection: `{"_id": 0, "k": 1}`} }},
		{"scan", size, func(at int) asked { return asked{filter: `{"n": 0}`} }},
		{"sorted", size, func(at int) asked { return asked{filter: `{"n": 0}`, sort: `{"n": 1}`} }},
	} {
		b.Run(q.name, func(b *testing.B) {
			// In turns, so that what else the machine does meets both.
			var took [2]time.Duration
			n, at := 0, 0
			for b.Loop() {
				for i := range took {
					i = (i + n/q.docs) % 2
					begun := time.Now()
					if got := h.drain(b, []*catalog.Collection{deferred, immediate}[i], q.ask(at)); got != q.docs {
						b.Fatalf("%d documents", got)
					}
					took[i] += time.Since(begun)
				}
				n, at = n+q.docs, (at+width*7)%(size-width)
			}
			b.ReportMetric(float64(took[0].Nanoseconds())/float64(n), "ns/deferred")
			b.ReportMetric(float64(took[1].Nanoseconds())/float64(n), "ns/immediate")
			b.ReportMetric(100*(float64(took[1])/float64(took[0])-1), "%")
		})
	}
}

// TestVisibilityMany asks for so many documents that what is hidden is learned from
// the indexes: among them none, few and many that are due, some of them written
// after the watermark of the collection said that none is.
func TestVisibilityMany(t *testing.T) {
	const size = 700
	for _, due := range []int{0, 1, 5, 40, 400} {
		for _, windows := range []bool{true, false} {
			t.Run(fmt.Sprint(due, windows), func(t *testing.T) {
				h := openHouse(t, storage.NewMemFS())
				defer h.close(t)
				h.catalog.NoWindows.Store(!windows)
				ctx := t.Context()
				if _, err := h.catalog.Create(ctx, benchNS, parseDoc(t, `{"storageEngine": {"mayfly": {"expiry": {"visibility": "immediate"}}}}`)); err != nil {
					t.Fatal(err)
				}
				h.index(t, benchNS, []string{`{"key": {"at": 1}, "name": "at", "expireAfterSeconds": 0}`, `{"key": {"k": 1}, "name": "k"}`})
				c := h.catalog.Lookup(benchNS)
				raise := func() {
					t.Helper()
					err := h.catalog.RaiseWatermark(c, func(r *catalog.Rule) (int64, error) { return h.firstDue(ctx, c, r) })
					if err != nil {
						t.Fatal(err)
					}
				}
				insert := func(from, to int, date func(i int) int64) {
					t.Helper()
					w := h.exec.NewWriter(storage.Buffered)
					for i := from; i < to; i++ {
						doc := new(bson.Builder).Int32("_id", int32(i)).Int32("k", int32(i*37%size)).Date("at", date(i)).Finish()
						if err := w.Insert(ctx, c, doc); err != nil {
							t.Fatal(err)
						}
					}
					if err := w.Commit(ctx); err != nil {
						t.Fatal(err)
					}
				}
				raise()
				insert(0, size-due, func(i int) int64 { return 1<<42 + int64(i)*1000 })
				raise()
				h.counts(t, c, size-due)
				insert(size-due, size, func(i int) int64 { return int64(i) })
				h.counts(t, c, size-due)
				raise()
				h.counts(t, c, size-due)
			})
		}
	}
}

// counts asks for all documents of a collection in several ways, and wants so
// many.
func (h *house) counts(t *testing.T, c *catalog.Collection, want int) {
	t.Helper()
	for _, a := range []asked{
		{filter: `{}`},
		{filter: `{}`, hint: `{"$natural": -1}`},
		{filter: `{"_id": {"$gte": 0}}`},
		{filter: `{"k": {"$gte": 0}}`, hint: "k"},
		{filter: `{"k": {"$gte": 0}}`, hint: "k", projection: `{"_id": 0, "k": 1}`},
		{filter: `{"$or": [{"k": {"$gte": 300}}, {"_id": {"$gte": 0}}]}`},
		{filter: `{}`, sort: `{"k": -1}`},
		{filter: `{}`, sort: `{"x": 1}`},
	} {
		got, err := h.ask(t, c, a)
		if err != nil || len(got.docs) != want {
			t.Fatalf("%s: %d documents instead of %d, %v", a, len(got.docs), want, err)
		}
		n, err := h.exec.Count(t.Context(), c, a.query(t))
		if err != nil || n.N != int64(want) {
			t.Fatalf("count %s: %d instead of %d, %v", a, n.N, want, err)
		}
	}
}

// TestVisibilityAfterTrial sorts documents of which a trial has taken in a part, and
// asks for the rest when all have come due: they are hidden, whether they were
// taken in by the trial or after it.
func TestVisibilityAfterTrial(t *testing.T) {
	const size = trialWorks + 2000
	early := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	now := early.Add(1000 * time.Hour) // from which a clock follows back at once, and forward again
	e, c := replay.Open(t, storage.Options{Dir: "db", FS: storage.NewMemFS(), CacheBytes: 8 << 20}, catalog.Options{Clock: catalog.NewClock(func() time.Time { return now })})
	h := &house{e, c, &Executor{Catalog: c}}
	defer h.close(t)
	now = early
	ctx := t.Context()
	if _, err := c.Create(ctx, benchNS, parseDoc(t, `{"storageEngine": {"mayfly": {"expiry": {"visibility": "immediate"}}}}`)); err != nil {
		t.Fatal(err)
	}
	h.index(t, benchNS, []string{
		`{"key": {"at": 1}, "name": "at", "expireAfterSeconds": 0}`, `{"key": {"a": 1}, "name": "a"}`, `{"key": {"a": 1, "b": 1}, "name": "ab"}`,
	})
	coll := c.Lookup(benchNS)
	w := h.exec.NewWriter(storage.Buffered)
	for i := range size {
		doc := new(bson.Builder).Int32("_id", int32(i)).Int32("a", 1).Int32("b", 1).Int32("c", int32(i)).Date("at", now.Add(time.Second).UnixMilli()).Finish()
		if err := w.Insert(ctx, coll, doc); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	cur, err := h.exec.Find(ctx, coll, asked{filter: `{"a": 1, "b": 1}`, sort: `{"c": -1}`}.query(t))
	if err != nil {
		t.Fatal(err)
	}
	defer cur.Close()
	if !cur.FromTrial() {
		t.Fatal("there was no trial")
	}
	if _, err := cur.Next(ctx); err != nil {
		t.Fatal(err)
	}
	if err := cur.Park(); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute)
	if err := cur.Unpark(ctx); err != nil {
		t.Fatal(err)
	}
	if d, err := cur.Next(ctx); d != nil || err != nil {
		t.Fatalf("%s is due, %v", d, err)
	}
}

// TestHiddenBeforeDrop reads a document that is due, and finds it hidden although
// its collection is dropped in between.
func TestHiddenBeforeDrop(t *testing.T) {
	h := openHouse(t, storage.NewMemFS())
	defer h.close(t)
	ctx := t.Context()
	if _, err := h.catalog.Create(ctx, benchNS, parseDoc(t, `{"storageEngine": {"mayfly": {"expiry": {"visibility": "immediate"}}}}`)); err != nil {
		t.Fatal(err)
	}
	h.index(t, benchNS, []string{`{"key": {"at": 1}, "name": "at", "expireAfterSeconds": 0}`})
	c := h.catalog.Lookup(benchNS)
	w := h.exec.NewWriter(storage.Buffered)
	if err := w.Insert(ctx, c, new(bson.Builder).Int32("_id", 1).Date("at", 0).Finish()); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	s := source{coll: c, reader: h.engine}
	s.prepareVisibility(h.catalog, c.Watermark(), false, &plan.IDHack{})
	record, doc, closer, err := c.FindID(nil, h.engine, bson.Int32(1))
	if err != nil || doc == nil {
		t.Fatal(err)
	}
	defer closer.Close()
	if _, err := h.catalog.Drop(ctx, benchNS); err != nil {
		t.Fatal(err)
	}
	if !s.isExpired(record, doc) {
		t.Error("a document that was due when it was read is shown")
	}
}
