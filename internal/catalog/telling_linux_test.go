package catalog

import (
	"syscall"
	"testing"

	"github.com/mayflydb/mayfly/internal/storage"
)

// BenchmarkTelling is the least that telling of a million documents that expire can take on
// one member: their _ids are read, and written into a log in entries of a unit, each of
// which is synced. ms are processor time of the process; nothing is removed.
func BenchmarkTelling(b *testing.B) {
	const docs = 1_000_000
	for range b.N {
		c, coll := benchOpen(b, docs)
		coll = coll.Latest()
		low, due := coll.live.lowWater.Load(), coll.sections.Due(coll.Rules()[0].Rule, 1_700_000_000_000+docs+3_600_000+2000)
		var lists []*idList
		reading := used(b, func() error {
			for at, n := low, 0; at != due; n++ {
				upTo, err := coll.part(c.engine, at, due, listedDocs)
				if err != nil {
					return err
				}
				list, err := coll.listSpans(c.engine, at, upTo, nil)
				if err != nil {
					return err
				}
				lists, at = append(lists, list), upTo
			}
			return nil
		})
		told := 0
		writing := used(b, func() error {
			for i, list := range lists {
				told += list.n
				u := c.engine.Begin()
				if err := u.Set(storage.IdentSessions, []byte{byte(i >> 8), byte(i)}, list.bytes); err != nil {
					return err
				}
				if err := u.Commit(b.Context(), storage.Journaled); err != nil {
					return err
				}
			}
			return nil
		})
		if told != docs {
			b.Fatalf("%d documents", told)
		}
		b.ReportMetric(reading, "read-ms")
		b.ReportMetric(writing, "write-ms")
	}
}

// used is the processor time that f takes, in milliseconds.
func used(b *testing.B, f func() error) float64 {
	time := func() (ms float64) {
		var r syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
			b.Fatal(err)
		}
		for _, t := range []syscall.Timeval{r.Utime, r.Stime} {
			ms += float64(t.Sec)*1000 + float64(t.Usec)/1000
		}
		return ms
	}
	before := time()
	if err := f(); err != nil {
		b.Fatal(err)
	}
	return time() - before
}
