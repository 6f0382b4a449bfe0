package catalog

import (
	"context"
	"fmt"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// What there are many of: the time of one must not grow with their number.

// BenchmarkTTLIndexAmongMany makes a TTL index and drops it, among so many
// collections.
func BenchmarkTTLIndexAmongMany(b *testing.B) {
	for _, others := range []int{100, 10_000} {
		b.Run(fmt.Sprint(others), func(b *testing.B) {
			c, _ := benchOpen(b, 0)
			for i := range others {
				if _, err := c.Create(b.Context(), schema.Namespace{DB: "d", Coll: fmt.Sprintf("other%d", i)}, nil); err != nil {
					b.Fatal(err)
				}
			}
			ns := schema.Namespace{DB: "d", Coll: "mine"}
			if _, err := c.Create(b.Context(), ns, nil); err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			for b.Loop() {
				if _, _, err := c.CreateIndexes(b.Context(), ns, specs(b, ns, `{"key": {"t": 1}, "name": "t", "expireAfterSeconds": 5}`)); err != nil {
					b.Fatal(err)
				}
				if _, err := c.DropIndexes(b.Context(), ns, func(c *Collection) ([]*Index, error) { return c.Indexes()[1:], nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkInsertWindows inserts documents in one unit, each in a window of its
// own; ns/doc is the time of one.
func BenchmarkInsertWindows(b *testing.B) {
	for _, docs := range []int{100, 10_000} {
		b.Run(fmt.Sprint(docs), func(b *testing.B) {
			c, coll := benchOpen(b, 0, `{"key": {"at": 1}, "name": "at", "expireAfterSeconds": 3600}`)
			id := 0
			for b.Loop() {
				u := c.Begin()
				for i := range docs {
					id++
					d := new(bson.Builder).ObjectID("_id", objectID(id)).Date("at", 1_700_000_000_000+int64(i)*3_600_000).Finish()
					if err := u.Insert(context.Background(), coll, d); err != nil {
						b.Fatal(err)
					}
				}
				if err := u.Commit(context.Background(), storage.Buffered); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*docs), "ns/doc")
		})
	}
}
