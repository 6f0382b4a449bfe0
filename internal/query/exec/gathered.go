package exec

import (
	"bytes"
	"context"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/storage"
)

// gathered are entries of an index in memory, in their order.
type gathered struct {
	rows    []fetchedRow
	entries []byte // keys, records and type bits of rows
	end     cost   // from the last row to the end of the scan, if that was reached
	rising  bool   // records come in rising order
}

// gatheredGrowth is by how much memory for rows grows, as a factor, up to the
// bounds on them: to copy them costs as much as to gather them.
const gatheredGrowth = 4

// fetchedRow is an entry that was read ahead. Its key, record and type bits are
// in entries one behind the other.
type fetchedRow struct {
	at                uint32
	key, record, bits uint32 // lengths
	cost              cost
	state             fetchedState
	part              uint8 // where doc is
	doc               spot
	due               int64 // see hiding
}

// fetchedState tells where the document of a row is.
type fetchedState uint8

const (
	unread fetchedState = iota // in the store
	gone                       // nowhere, or hidden
	read                       // in a part
)

func (g *gathered) entry(r *fetchedRow) (key, record, bits []byte) {
	record0, bits0 := r.at+r.key, r.at+r.key+r.record
	return g.entries[r.at:record0:record0], g.entries[record0:bits0:bits0], g.entries[bits0 : bits0+r.bits : bits0+r.bits]
}

func (g *gathered) record(r *fetchedRow) []byte {
	at := r.at + r.key
	return g.entries[at : at+r.record : at+r.record]
}

// clear forgets all.
func (g *gathered) clear() {
	g.rows, g.entries, g.end, g.rising = g.rows[:0], g.entries[:0], cost{}, true
}

// plain gathers n entries, or as many as there are and as fit, of a scan that
// passes every entry that is not dead; low tells which are.
func (g *gathered) plain(ctx context.Context, s *indexScan, low catalog.LowWater, n int) error {
	ix, works := s.index.Handle.(*catalog.Index), uint32(0)
	for i := 1; len(g.rows) < n && len(g.entries) < maxPrefetchBytes; i++ {
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
			g.add(key, record, bits, cost{works: works, examined: 1})
			works = 0
		}
	}
	return nil
}

// add keeps an entry, and what it cost the scan to find it.
func (g *gathered) add(key, record, bits []byte, c cost) {
	n := len(g.rows)
	g.rising = g.rising && (n == 0 || bytes.Compare(record, g.record(&g.rows[n-1])) > 0)
	if n == cap(g.rows) {
		g.rows = append(make([]fetchedRow, 0, max(n+1, min(gatheredGrowth*n, maxPrefetchRows), prefetchAfter)), g.rows...)
	}
	if at, size := len(g.entries), len(key)+len(record)+len(bits); at+size > cap(g.entries) {
		g.entries = append(make([]byte, 0, max(at+size, min(gatheredGrowth*(at+size), maxPrefetchBytes))), g.entries...)
	}
	g.rows = append(g.rows, fetchedRow{
		at: uint32(len(g.entries)), key: uint32(len(key)), record: uint32(len(record)), bits: uint32(len(bits)), cost: c,
	})
	g.entries = append(append(append(g.entries, key...), record...), bits...)
}
