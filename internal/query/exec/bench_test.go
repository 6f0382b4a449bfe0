package exec

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

var benchNS = schema.Namespace{DB: "d", Coll: "c"}

// openBench is a house on disk with n documents of 300 bytes, numbered in a and,
// in another order, in b, which are indexed, and compacted.
func openBench(b *testing.B, n int) (*house, *catalog.Collection) {
	b.Helper()
	e, err := storage.Open(storage.Options{Dir: b.TempDir(), CacheBytes: 1 << 30})
	if err != nil {
		b.Fatal(err)
	}
	c, err := catalog.Open(e, catalog.Options{})
	if err != nil {
		b.Fatal(err)
	}
	h := &house{e, c, &Executor{Catalog: c}}
	b.Cleanup(func() { h.close(b) })
	ctx := context.Background()
	if _, err := c.Create(ctx, benchNS, nil); err != nil {
		b.Fatal(err)
	}
	h.index(b, benchNS, []string{`{"key": {"a": 1}, "name": "a"}`, `{"key": {"b": 1}, "name": "b"}`})
	pad := strings.Repeat("x", 250)
	for at := 0; at < n; at += 1000 {
		w := h.exec.NewWriter(storage.Buffered)
		for i := at; i < min(at+1000, n); i++ {
			if err := w.Insert(ctx, c.Lookup(benchNS), benchDoc(i, n, pad)); err != nil {
				b.Fatal(err)
			}
		}
		if err := w.Commit(ctx); err != nil {
			b.Fatal(err)
		}
	}
	coll := c.Lookup(benchNS)
	for _, id := range []storage.Ident{coll.Ident, coll.Indexes()[1].Ident, coll.Indexes()[2].Ident} {
		if _, err := e.Compact(ctx, id); err != nil {
			b.Fatal(err)
		}
	}
	return h, coll
}

// scatter is a prime, and no factor of the numbers of documents.
const scatter = 611_953

func benchDoc(i, n int, pad string) bson.Doc {
	return new(bson.Builder).Int32("_id", int32(i)).Int32("a", int32(i)).Int32("b", int32(i*scatter%n)).String("pad", pad).Finish()
}

// drain runs a query and counts its documents.
func (h *house) drain(b *testing.B, c *catalog.Collection, a asked) (n int) {
	cur, err := h.exec.Find(context.Background(), c, a.query(b))
	if err != nil {
		b.Fatal(err)
	}
	defer cur.Close()
	for {
		d, err := cur.Next(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		if d == nil {
			return n
		}
		n++
	}
}

// rawScan counts what a scan with a filter does, without anything between the
// store and the field that the filter looks at.
func (h *house) rawScan(b *testing.B, c *catalog.Collection) (n int) {
	it, err := h.engine.NewIter(c.Ident, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			b.Fatal(err)
		}
		if bson.Doc(v).Lookup("a").Int32() >= 0 {
			n++
		}
	}
	return n
}

// BenchmarkRange reads ranges of 10,000 documents of 100,000: through an index
// in whose order they lie, through another one, from the index alone, by a scan with a filter, and from the store without
// anything above it. Times are of one document.
func BenchmarkRange(b *testing.B) {
	const size, width = 100_000, 10_000
	h, c := openBench(b, size)
	per := func(b *testing.B, docs int, f func(at int) int) {
		n, at := 0, 0
		for b.Loop() {
			if got := f(at); got != docs {
				b.Fatalf("%d documents", got)
			}
			n, at = n+docs, (at+width)%size
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/doc")
	}
	raw := func(id storage.Ident, from, to int) (n int) {
		it, err := h.engine.NewIter(id, c.AppendIDKey(nil, bson.Int32(int32(from))), c.AppendIDKey(nil, bson.Int32(int32(to))))
		if err != nil {
			b.Fatal(err)
		}
		defer it.Close()
		for ok := it.First(); ok; ok = it.Next() {
			if _, err := it.Value(); err != nil {
				b.Fatal(err)
			}
			n++
		}
		return n
	}
	filter := func(at int) string { return fmt.Sprintf(`{"a": {"$gte": %d, "$lt": %d}}`, at, at+width) }
	b.Run("index", func(b *testing.B) {
		per(b, width, func(at int) int { return h.drain(b, c, asked{filter: filter(at)}) })
	})
	b.Run("indexAll", func(b *testing.B) { // what a range costs once is little in it
		per(b, size, func(int) int { return h.drain(b, c, asked{filter: `{"a": {"$gte": 0}}`, hint: "a"}) })
	})
	b.Run("scattered", func(b *testing.B) {
		per(b, width, func(at int) int {
			return h.drain(b, c, asked{filter: strings.Replace(filter(at), `"a"`, `"b"`, 1)})
		})
	})
	b.Run("covered", func(b *testing.B) {
		per(b, width, func(at int) int {
			return h.drain(b, c, asked{filter: filter(at), projection: `{"_id": 0, "a": 1}`})
		})
	})
	b.Run("_id", func(b *testing.B) {
		per(b, width, func(at int) int {
			return h.drain(b, c, asked{filter: strings.Replace(filter(at), `"a"`, `"_id"`, 1)})
		})
	})
	b.Run("scan", func(b *testing.B) {
		per(b, size, func(int) int { return h.drain(b, c, asked{filter: `{"a": {"$gte": 0}}`, hint: `{"$natural": 1}`}) })
	})
	b.Run("storeScan", func(b *testing.B) { per(b, size, func(int) int { return h.rawScan(b, c) }) })
	entries := c.Indexes()[1].Ident
	b.Run("store", func(b *testing.B) { per(b, width, func(at int) int { return raw(c.Ident, at, at+width) }) })
	b.Run("storeEntries", func(b *testing.B) { per(b, width, func(at int) int { return raw(entries, at, at+width) }) })
}

// BenchmarkOrder reads the first 100,000 of 1,000,000 documents in the order of
// an index that is not theirs, as a whole and for one field. Times are of one
// document.
func BenchmarkOrder(b *testing.B) {
	const size, first = 1_000_000, 100_000
	h, c := openBench(b, size)
	h.drain(b, c, asked{filter: "{}", hint: `{"$natural": 1}`}) // into the cache, which holds it all
	for _, projection := range []string{"", `{"a": 1}`} {
		b.Run("fields"+projection, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if n := h.drain(b, c, asked{filter: "{}", sort: `{"b": 1}`, projection: projection, limit: first}); n != first {
					b.Fatalf("%d documents", n)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*first), "ns/doc")
		})
	}
}

// BenchmarkPoint finds one document by its index among few and among many.
func BenchmarkPoint(b *testing.B) {
	for _, size := range []int{10_000, 1_000_000} {
		h, c := openBench(b, size)
		h.drain(b, c, asked{filter: "{}", hint: "a"}) // into the cache, which holds it all
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.ReportAllocs()
			at := 0
			for b.Loop() {
				at = (at + 7919) % size
				if n := h.drain(b, c, asked{filter: fmt.Sprintf(`{"a": %d}`, at)}); n != 1 {
					b.Fatalf("%d documents", n)
				}
			}
		})
	}
}
