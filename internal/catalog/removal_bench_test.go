package catalog

import (
	"context"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/storage"
)

// encoding is a Committer that encodes each effect, as a member of a set does.
type encoding struct {
	engineCommitter
	bytes, most int
}

func (k *encoding) Commit(ctx context.Context, e *Effect, d storage.Durability) error {
	n := len(e.AppendEncoded(nil))
	k.bytes += n
	k.most = max(k.most, n)
	return k.engineCommitter.Commit(ctx, e, d)
}

// BenchmarkRemoval removes a million documents of 300 bytes as ranges, told by their
// bounds and told one by one. ms are per million documents: of the drop, and of the sweep
// of two indexes that follows; log-bytes are those of the effects per document, and
// entry-bytes those of the largest.
func BenchmarkRemoval(b *testing.B) {
	const docs = 1_000_000
	for _, told := range []bool{false, true} {
		b.Run(map[bool]string{false: "bounds", true: "documents"}[told], func(b *testing.B) {
			for range b.N {
				c, coll := benchOpen(b, docs)
				if err := c.Run(b.Context(), storage.Buffered, func(u *Unit) error { return u.Insert(b.Context(), coll, benchDoc(1<<40)) }); err != nil {
					b.Fatal(err) // what is not due keeps the indexes
				}
				coll = coll.Latest()
				k := new(encoding)
				c.operations, c.committer = true, k
				c.NoExpiredList.Store(!told)
				rule := coll.Latest().Rules()[0]
				began := time.Now()
				d, err := c.DropWindows(b.Context(), coll, Drop{Rule: rule, Now: 1_700_000_000_000 + docs + 3_600_000 + 2000})
				if err != nil || d.Docs != docs {
					b.Fatalf("%+v: %v", d, err)
				}
				b.ReportMetric(float64(time.Since(began).Microseconds())/1000, "drop-ms")
				b.ReportMetric(float64(k.bytes)/docs, "log-bytes/doc")
				b.ReportMetric(float64(k.most), "entry-bytes")
				began = time.Now()
				if _, err := c.Sweep(b.Context(), coll, func(time.Duration) error { return nil }); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(time.Since(began).Microseconds())/1000, "sweep-ms")
			}
		})
	}
}
