package catalog

import (
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/storage"
)

// BenchmarkRemoval removes a million documents of 300 bytes as ranges, and before that reads
// what the oplog could tell of each: its _id, out of the record. ms are per million
// documents: of the list, of the drop, of the sweep of two indexes.
func BenchmarkRemoval(b *testing.B) {
	const docs = 1_000_000
	for range b.N {
		c, coll := benchOpen(b, docs)
		if err := c.Run(b.Context(), storage.Buffered, func(u *Unit) error { return u.Insert(b.Context(), coll, benchDoc(1<<40)) }); err != nil {
			b.Fatal(err) // what is not due keeps the indexes
		}
		coll = coll.Latest()
		for _, name := range []string{"list-cold-ms", "list-warm-ms"} {
			began := time.Now()
			list := listIDs(b, c, coll)
			b.ReportMetric(float64(time.Since(began).Microseconds())/1000, name)
			b.ReportMetric(float64(len(list))/docs, "bytes/id")
		}
		rule := coll.Latest().Rules()[0]
		began := time.Now()
		d, err := c.DropWindows(b.Context(), coll, Drop{Rule: rule, Now: 1_700_000_000_000 + docs + 3_600_000 + 2000})
		if err != nil || d.Docs != docs {
			b.Fatalf("%+v: %v", d, err)
		}
		b.ReportMetric(float64(time.Since(began).Microseconds())/1000, "drop-ms")
		began = time.Now()
		if _, err := c.Sweep(b.Context(), coll, func(time.Duration) error { return nil }); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(time.Since(began).Microseconds())/1000, "sweep-ms")
	}
}

// listIDs is the type and the bytes of each _id, behind their length.
func listIDs(b *testing.B, c *Catalog, coll *Collection) (list []byte) {
	s := c.engine.NewSnapshot()
	defer s.Close()
	it, err := s.NewIter(coll.Ident, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			b.Fatal(err)
		}
		id := bson.Doc(v).Lookup("_id")
		list = append(append(list, byte(id.Type)), id.Data...)
	}
	if err := it.Close(); err != nil {
		b.Fatal(err)
	}
	return list
}
