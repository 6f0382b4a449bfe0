package exec

import (
	"bytes"
	"context"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/storage"
)

// gathered are entries of an index in memory, in their order.
type gathered struct {
	rows    []gatheredRow
	entries []byte // keys, records and type bits of rows, one behind the other
	costs   []cost // of rows; none where a key each was all besides the work
	end     cost   // from the last row to the end of the scan, if that was reached
	rising  bool   // records come in rising order
}

// gatheredGrowth is by how much memory for rows grows, as a factor, up to the
// bounds on them: to copy them costs as much as to gather them.
const gatheredGrowth = 4

// gatheredRow is an entry. It is small, since it may go from one processor's caches
// to another's.
type gatheredRow struct {
	record, bits, end uint32 // in entries: where the key ends, the record, and the type bits
	works             uint32 // that the scan did to find it
}

func (g *gathered) entry(i int) (key, record, bits []byte) {
	r, at := &g.rows[i], uint32(0)
	if i > 0 {
		at = g.rows[i-1].end
	}
	return g.entries[at:r.record:r.record], g.entries[r.record:r.bits:r.bits], g.entries[r.bits:r.end:r.end]
}

func (g *gathered) record(i int) []byte {
	r := &g.rows[i]
	return g.entries[r.record:r.bits:r.bits]
}

// clear forgets all.
func (g *gathered) clear() {
	g.rows, g.entries, g.costs, g.end, g.rising = g.rows[:0], g.entries[:0], g.costs[:0], cost{}, true
}

// plain gathers entries until there are n, or no more, or they are size bytes, of a
// scan that passes every entry that is not dead; low tells which are.
func (g *gathered) plain(ctx context.Context, s *indexScan, low catalog.LowWater, n, size int) error {
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
		key, record, bits := ix.Split(s.record[:0], s.it.Key(), value)
		if record == nil {
			return storage.ErrCorruption
		}
		if ix.ByWindow {
			s.record = record
		}
		if works++; !low.Dead(record) {
			g.add(key, record, bits, works)
			works = 0
		}
	}
	return nil
}

// add keeps an entry, and the work it took to find it.
func (g *gathered) add(key, record, bits []byte, works uint32) {
	n := len(g.rows)
	g.rising = g.rising && (n == 0 || bytes.Compare(record, g.record(n-1)) > 0)
	if n == cap(g.rows) {
		g.rows = append(make([]gatheredRow, 0, max(n+1, min(gatheredGrowth*n, maxPrefetchRows), prefetchAfter)), g.rows...)
	}
	at, size := len(g.entries), len(key)+len(record)+len(bits)
	if at+size > cap(g.entries) {
		g.entries = append(make([]byte, 0, max(at+size, min(gatheredGrowth*(at+size), maxPrefetchBytes))), g.entries...)
	}
	g.entries = append(append(append(g.entries, key...), record...), bits...)
	at += len(key)
	g.rows = append(g.rows, gatheredRow{
		record: uint32(at), bits: uint32(at + len(record)), end: uint32(len(g.entries)), works: works,
	})
}
