package storage

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// TestPacing holds that who writes tables rests after ranges were dropped, for a while, and
// not where writers or reads would wait for it, nor while the engine closes.
func TestPacing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const work = time.Millisecond // of each write of a table
		fs := NewMemFS()
		e, err := Open(Options{Dir: "db", FS: fs, CacheBytes: 1 << 20, MemtableBytes: 8 << 20, Compression: CompressionNone, byHand: true})
		if err != nil {
			t.Fatal(err)
		}
		writes := 0
		fs.SetFault(func(op, path string) error {
			if op == "write" && strings.HasSuffix(path, ".sst") {
				writes++
				time.Sleep(work)
			}
			return nil
		})
		fill := func() {
			u := e.Begin()
			v := make([]byte, 1000)
			for i := range 1000 {
				for k := range v {
					v[k] = byte(rand.Uint32())
				}
				if err := u.Set(FirstIdent, fmt.Appendf(nil, "%04d", i), v); err != nil {
					t.Fatal(err)
				}
			}
			if err := u.Commit(t.Context(), Buffered); err != nil {
				t.Fatal(err)
			}
		}
		// rests returns how many times as long as it worked a step took.
		rests := func(step func() error) float64 {
			begun, before := time.Now(), writes
			if err := step(); err != nil {
				t.Fatal(err)
			}
			if writes-before < 20 {
				t.Fatalf("%d writes", writes-before)
			}
			return float64(time.Since(begun)) / float64(time.Duration(writes-before)*work)
		}
		expect := func(what string, got float64, paced bool) {
			t.Helper()
			if paced && got < pacedRest || !paced && got > 1.1 {
				t.Errorf("%s takes %.1f times as long as it works, paced: %t", what, got, paced)
			}
		}
		compact := func() error { return e.db.Compact(t.Context(), []byte{0}, []byte{255}, false) }
		fill()
		expect("a flush", rests(e.db.Flush), false)
		fill()
		e.RangesDropped()
		expect("a flush after a drop", rests(e.db.Flush), true)
		expect("a compaction after a drop", rests(compact), true)
		fill()
		time.Sleep(pacedFor)
		expect("a flush long after a drop", rests(e.db.Flush), false)

		e.RangesDropped()
		metrics := e.pacing.metrics
		for name, urgent := range map[string]func(m *pebble.Metrics){
			"memtables": func(m *pebble.Metrics) { m.MemTable.Count = pacedMemtables + 1 },
			"levels":    func(m *pebble.Metrics) { m.Levels[0].Sublevels = pacedDepth + 1 },
			"debt":      func(m *pebble.Metrics) { m.Compact.EstimatedDebt = pacedDebt + 1 },
		} {
			fill()
			e.pacing.metrics = func() *pebble.Metrics { m := metrics(); urgent(m); return m }
			time.Sleep(pacedLook)
			expect("a flush with many "+name, rests(e.db.Flush), false)
		}
		e.pacing.metrics = metrics
		time.Sleep(pacedLook)
		fill()
		expect("a flush when there is time again", rests(e.db.Flush), true)
		fill()
		e.pacing.over.Store(true)
		expect("a flush of an engine that closes", rests(e.db.Flush), false)
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}
