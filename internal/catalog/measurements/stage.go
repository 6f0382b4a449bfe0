package measurements

import (
	"bytes"
	"sync"
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// stageBytes is how many bytes of staged measurements a table has before they are
// frozen.
const stageBytes = 8 << 20

// staging is a table's state of staged measurements.
type staging struct {
	flushing sync.Mutex   // held while flushing
	bytes    atomic.Int64 // that are staged and not frozen
	frozen   atomic.Int64 // bytes

	sources []*source // that have some; guarded by the table's lock, as are:
	left    []*source // that have frozen ones, by key
	last    []*source // whose measurements were frozen last
	cut     uint64    // frozen ones are in records with lower numbers
	flushes uint64    // how many parts were flushed
}

// size returns how many bytes are staged, frozen ones included.
func (g *staging) size() int64 { return g.bytes.Load() + g.frozen.Load() }

// Stage stores measurements, whose documents are kept, as one record of a unit, and
// stages them when it commits. The unit must not have called KeepOut. Errors: those
// of CheckMeta.
func (t *Table) Stage(u Unit, ms []timeseries.Measurement) error {
	size := sizeOf(ms)
	n := &Staged{ms: ms, keys: make([]byte, 0, len(ms)*16), ends: make([]int, len(ms))}
	var before []byte
	for i, m := range ms {
		from := len(n.keys)
		n.keys = appendSource(n.keys, m.Meta)
		n.ends[i] = len(n.keys)
		if key := n.keys[from:]; !bytes.Equal(key, before) {
			if err := u.CheckMeta(m.Meta); err != nil {
				return err
			}
			before = key
		}
	}
	n.Number = t.numbers(1) + 1
	s := u.Storage()
	if err := s.SetFilled(t.id, appendStaged(n.record[:0], n.Number), size, func(b []byte) { fillDocs(b, ms) }); err != nil {
		return err
	}
	s.Add(t.counter, sumCount, int64(len(ms)))
	s.Add(t.counter, sumBytes, int64(size))
	u.Note(n)
	return nil
}

// stageLocked notes a staged measurement of the source with a key, or one that is
// frozen. REQUIRES: mu is held.
func (t *Table) stageLocked(o *schema.Timeseries, key []byte, m timeseries.Measurement, frozen bool) {
	invariant.HeldForWriting(&t.mu, "measurements: the table's lock is held")
	s := t.sources[string(key)]
	if s == nil {
		s = t.addLocked(bytes.Clone(key), m.Meta.Clone(), o)
	}
	m.Meta = s.Meta
	t.growLocked(s, 1, len(m.Doc), m.Time, m.Time)
	t.budget.used.Add(int64(len(m.Doc)))
	if frozen {
		s.frozen = append(s.frozen, m)
		t.staging.frozen.Add(int64(len(m.Doc)))
		return
	}
	if len(s.Staged) == 0 {
		t.staging.sources = append(t.staging.sources, s)
		s.Staged = make([]timeseries.Measurement, 0, s.likely)
	}
	s.Staged = append(s.Staged, m)
	t.staging.bytes.Add(int64(len(m.Doc)))
}

// staged reports whether a source has staged measurements.
func (t *Table) staged(key []byte) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	s := t.sources[string(key)]
	return s != nil && len(s.Staged)+len(s.frozen) > 0
}

// Forget forgets what is staged, of a dropped collection.
func (t *Table) Forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := &t.staging
	for _, all := range [][]*source{g.sources, g.left} {
		for _, s := range all {
			s.Staged, s.frozen = nil, nil
		}
	}
	g.sources, g.left, g.last = nil, nil, nil
	t.budget.used.Add(-g.bytes.Swap(0) - g.frozen.Swap(0))
}
