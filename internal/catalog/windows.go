package catalog

import (
	"errors"
	"fmt"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// In collections whose layout has sections, windows of expiry or spans in which
// buckets end, documents that are due together are contiguous, and removed as
// one range (dropwindows.go, dropbuckets.go).
//
// Where a record key is found by the entry of its _id, that entry has what precedes the
// _id in it before the type bits, and no record key at the end. Entries in other indexes
// end in the record key, as always, so each has its window; those of windows
// below the low water are dead: their documents have been removed.
//
// In the separate keyspace IdentWindows: the collection's ident → its
// layout.State; the ident ‖ a window → the sums of the documents in it.

// The sums of a window.
const (
	windowDocs  = iota
	windowSize  // their bytes
	windowThird // see layout.Sections: measurements of buckets, or a mark
	windowSums
)

// windowsFor returns the windows that a collection without documents gets with
// new indexes: those of the first index that can have windows; nil for none.
func windowsFor(c *Collection, fresh []*schema.Index) layout.Windowed {
	if !c.mayBeLaidOut() && !c.liesByShardKey() {
		return nil
	}
	for _, ix := range fresh {
		if ix.IsTTL() && layout.Windowable(ix) {
			return c.windowsOf(ix)
		}
	}
	return nil
}

// windowsOf returns the windows for an index: in slots, where the shard key has them.
func (c *Collection) windowsOf(ix *schema.Index) layout.Windowed {
	w := layout.NewWindow(ix)
	if c.sharding != nil && c.sharding.Key.HashedFirst() {
		return layout.NewSlots(w, c.sharding.Key)
	}
	return w
}

// mayBeLaidOut reports whether the collection, which lies by _id, may get another layout.
func (c *Collection) mayBeLaidOut() bool {
	ns := c.Namespace
	return c.ClusteredByID() && c.Settings.Clustered == nil && ns.DB != "local" && ns.DB != "config" && ns.DB != "admin" && (!ns.IsSystem() || ns.IsResharding())
}

// Windowed reports whether the collection is clustered by windows of expiry.
func (c *Collection) Windowed() bool { return c.sections != nil && c.entersIDs() }

// entersIDs reports whether the index on _id has entries by which documents are found.
func (c *Collection) entersIDs() bool {
	if c.Ident == 0 {
		return false
	}
	switch c.layout.FoundByID() {
	case layout.ByEntry, layout.ByValue, layout.ByEither:
		return true
	}
	return false
}

// WindowedBy reports whether the documents that are due by a rule are those of
// the earliest windows.
func (c *Collection) WindowedBy(r *Rule) bool {
	return c.sections != nil && r.Kind != schema.ByID && c.sections.Serve(r.Index.Index)
}

// WholeUntil returns the last instant, up to now, for which everything due by a rule
// is in windows that are due as a whole; now itself for a collection without windows
// by that rule. What came due since then can wait for the rest of its window, and be
// removed with it.
func (c *Collection) WholeUntil(r *Rule, now int64) int64 {
	if !c.WindowedBy(r) || c.sections.Instants() {
		return now
	}
	last := layout.LastDue(r.Rule, now)
	return now - (last - c.sections.WholeUntil(last))
}

// Gone reads what has been removed of a collection in a state of the store.
// Zero without windows.
func (c *Collection) Gone(r storage.Reader) (Gone, error) {
	if c.sections == nil && c.live.relaid.Load() == nil {
		return Gone{}, nil
	}
	s, err := readWindowState(r, c.Ident)
	return s.Gone(), err
}

// dead is Gone.Dead in the latest state. REQUIRES: a unit is inside the
// collection, or the gate is closed.
func (c *Collection) dead(record RecordKey) bool {
	if c.sections == nil {
		return false
	}
	c.live.gate.checkInside()
	return c.live.gone().Dead(record)
}

// readWindowState reads the state of a collection's windows from r.
func readWindowState(r storage.Reader, id storage.Ident) (s layout.State, err error) {
	v, closer, err := r.Get(storage.IdentWindows, identKey(id))
	if errors.Is(err, storage.ErrNotFound) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	defer closer.Close()
	s, ok := layout.DecodeState(v)
	if !ok {
		return s, fmt.Errorf("%w: the state of the windows of collection %d is %x", storage.ErrCorruption, id, v)
	}
	return s, nil
}

// windowKey returns the key of a window's sums.
func windowKey(dst []byte, id storage.Ident, window uint64) []byte {
	return layout.AppendSection(storage.AppendIdent(dst, id), window)
}

// windowDelta is what a unit has changed in a window.
type windowDelta struct {
	ident  storage.Ident
	live   *live
	window uint64
	d      [windowSums]int64
	mark   bool // staleMark is in d
}

// countWindow notes a change of the sums in the window of the unit's record.
func (u *Unit) countWindow(c *Collection, docs, size, third int64) {
	if c.sections == nil {
		return
	}
	n, mark := c.sections.In(u.record), false
	if c.sections.Marks() {
		mark = third > 0 && !u.c.stale.has(windowRef{c.Ident, n})
		third = 0
		if docs == 0 && size == 0 && !mark {
			return
		}
	}
	d := u.delta(c, n)
	d.d[windowDocs] += docs
	d.d[windowSize] += size
	d.d[windowThird] += third
	if mark {
		d.d[windowThird], d.mark = staleMark, true
	}
}

// scannedDeltas is how many windows of a unit are searched for one, from the last
// on: usually it is that, or a new one. Beyond that a map is used.
const scannedDeltas = 16

// delta returns what the unit has changed in a window so far.
func (u *Unit) delta(c *Collection, window uint64) *windowDelta {
	n := len(u.deltas)
	for i := n - 1; i >= max(0, n-scannedDeltas); i-- {
		if d := &u.deltas[i]; d.window == window && d.ident == c.Ident {
			return d
		}
	}
	at := windowRef{c.Ident, window}
	if n >= scannedDeltas {
		if u.deltaOf == nil {
			u.deltaOf = map[windowRef]int{}
			for i := range u.deltas {
				u.deltaOf[windowRef{u.deltas[i].ident, u.deltas[i].window}] = i
			}
		}
		if i, ok := u.deltaOf[at]; ok {
			return &u.deltas[i]
		}
		u.deltaOf[at] = n
	}
	u.deltas = append(u.deltas, windowDelta{ident: c.Ident, live: c.live, window: window})
	return &u.deltas[n]
}

// third returns what a document adds to the third sum of the window of the
// unit's record.
func (u *Unit) third(c *Collection, doc bson.Doc) int64 {
	if c.sections == nil {
		return 0
	}
	return c.sections.Third(doc, c.sections.In(u.record))
}

// writeWindows adds what was noted to the sums of the windows.
func (u *Unit) writeWindows() error {
	for i := range u.deltas {
		d := &u.deltas[i]
		if d.d == [windowSums]int64{} {
			continue
		}
		u.value = windowKey(u.value[:0], d.ident, d.window)
		if err := u.u.AddSums(storage.IdentWindows, u.value, d.d[:]); err != nil {
			return err
		}
		if d.mark {
			u.e.note(&staleNote{about{d.ident, d.live}, d.window})
		}
	}
	return nil
}
