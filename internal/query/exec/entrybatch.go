package exec

import (
	"bytes"
	"context"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/storage"
)

// entryBatch is a run of entries of an index, in memory and in their order.
type entryBatch struct {
	rows    []batchEntry
	entries []byte // keys, records and type bits of rows, one behind the other
	costs   []cost // of rows; empty where each cost one key and its works
	end     cost   // from the last row to the end of the scan, if that was reached
	rising  bool   // records are in rising order
}

// batchGrowth is the factor by which memory for rows grows, up to their bounds: to
// copy rows costs as much as to read them.
const batchGrowth = 4

// batchEntry is one entry of a batch. It is small because it may travel from one
// processor's caches to another's.
type batchEntry struct {
	record, bits, end uint32 // in entries: where the key ends, the record, and the type bits
	works             uint32 // units of work of the scan to find it
}

func (g *entryBatch) entry(i int) (key, record, bits []byte) {
	r, at := &g.rows[i], uint32(0)
	if i > 0 {
		at = g.rows[i-1].end
	}
	return g.entries[at:r.record:r.record], g.entries[r.record:r.bits:r.bits], g.entries[r.bits:r.end:r.end]
}

func (g *entryBatch) record(i int) []byte {
	r := &g.rows[i]
	return g.entries[r.record:r.bits:r.bits]
}

// clear forgets all.
func (g *entryBatch) clear() {
	g.rows, g.entries, g.costs, g.end, g.rising = g.rows[:0], g.entries[:0], g.costs[:0], cost{}, true
}

// readPlain reads entries until there are n, or size bytes of them, or no more, from
// a plain scan (indexScan.isPlain). It skips dead entries, which gone tells.
func (g *entryBatch) readPlain(ctx context.Context, s *indexScan, gone catalog.Gone, n, size int) error {
	ix, works := s.index.Handle.(*catalog.Index), uint32(0)
	for i := 1; len(g.rows) < n && len(g.entries) < size; i++ {
		if i%ctxEvery == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		ok, err := s.step()
		if err != nil {
			return err
		}
		if !ok {
			g.end.works = works + 1
			return s.it.Err()
		}
		value, err := s.it.Value()
		if err != nil {
			return err
		}
		key, record, bits := s.split(ix, value)
		if record == nil {
			return storage.ErrCorruption
		}
		if works++; !gone.Dead(record) {
			g.add(key, record, bits, works)
			works = 0
		}
	}
	return nil
}

// split takes the entry that the scan stands on apart.
func (s *indexScan) split(ix *catalog.Index, value []byte) (key, record, bits []byte) {
	if s.it.Joined() {
		key, record, bits, doc := s.source.coll.SplitID(s.record[:0], s.it, value)
		if doc == nil {
			s.record = record
		}
		return key, record, bits
	}
	key, record, bits = ix.Split(s.record[:0], s.it.Key(), value)
	if ix.ByWindow {
		s.record = record
	}
	return key, record, bits
}

// add keeps an entry and the units of work it took to find it.
func (g *entryBatch) add(key, record, bits []byte, works uint32) {
	n := len(g.rows)
	g.rising = g.rising && (n == 0 || bytes.Compare(record, g.record(n-1)) > 0)
	if n == cap(g.rows) {
		g.rows = append(make([]batchEntry, 0, max(n+1, min(batchGrowth*n, maxPrefetchRows), prefetchAfter)), g.rows...)
	}
	at, size := len(g.entries), len(key)+len(record)+len(bits)
	if at+size > cap(g.entries) {
		g.entries = append(make([]byte, 0, max(at+size, min(batchGrowth*(at+size), maxPrefetchBytes))), g.entries...)
	}
	g.entries = append(append(append(g.entries, key...), record...), bits...)
	at += len(key)
	g.rows = append(g.rows, batchEntry{
		record: uint32(at), bits: uint32(at + len(record)), end: uint32(len(g.entries)), works: works,
	})
}
