package catalog

import (
	"encoding/binary"
	"math"
	"testing"
	"unsafe"

	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/storage"
)

// TestWindowsMemory holds the bounds of what windows of expiry keep in memory:
// for all collections, for one, and while a drop runs, however many windows and touched
// documents there are.
func TestWindowsMemory(t *testing.T) {
	c, coll := openWindowed(t)
	var l live
	if n := unsafe.Sizeof(l.thinned) + unsafe.Sizeof(l.lowWater) + unsafe.Sizeof(l.swept) + 2*unsafe.Sizeof(LowWater{}); n > 160 {
		t.Errorf("a collection has %d bytes for its windows", n)
	}
	for i := range uint64(2 * maxStaleMarks) {
		c.stale.add(windowRef{coll.Ident, i})
		c.hints.put(hintHash(coll.Ident, layout.AppendSection(nil, i)), i)
	}
	marked := 0
	for i := range c.stale.slots {
		if c.stale.slots[i].Load() != nil {
			marked++
		}
	}
	if n := unsafe.Sizeof(*c.hints.slots.Load()); n > 8<<20 || marked != maxStaleMarks {
		t.Errorf("all collections have %d bytes of hints, and %d marked windows", n, marked)
	}

	c.stale.forget(coll.Ident) // the store has none of them

	e := c.begin(coll, c.evaluate())
	u := e.u
	defer u.Abort()
	first := uint64(1) << 63 // the window of 1970
	for i := range uint64(maxStaleWindows + 100) {
		if err := u.AddSums(storage.IdentWindows, windowKey(nil, coll.Ident, first+i), []int64{2, 100, 1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.commit(t.Context(), e, storage.Buffered); err != nil {
		t.Fatal(err)
	}
	x := dropper{c: c, coll: coll, rule: coll.Rules()[0], d: &Dropped{}, cut: LowWater{}.UpTo(math.MaxUint64, LowWater{})}
	if err := x.readSums(); err != nil {
		t.Fatal(err)
	}
	if len(x.stale) != maxStaleWindows || x.docs != 2*maxStaleWindows || x.cut != (LowWater{}).UpTo(first+maxStaleWindows, LowWater{}) {
		t.Errorf("a drop looks at %d windows with %d documents, up to %v", len(x.stale), x.docs, x.cut)
	}

	w := &dropWatch{}
	for i := range maxLateTouches + 100 {
		w.note(binary.BigEndian.AppendUint64(nil, uint64(i)))
	}
	if touched, overflow := w.take(); len(touched) != maxLateTouches || !overflow {
		t.Errorf("a drop knows %d documents that were touched", len(touched))
	}
	s := &sweepWatch{ident: coll.indexes[0].Ident}
	for i := range maxSweepWritten + 100 {
		s.note(coll.indexes[0], binary.BigEndian.AppendUint64(nil, uint64(i)))
	}
	if len(s.written) != maxSweepWritten || !s.overflow {
		t.Errorf("a sweep knows %d entries that were written", len(s.written))
	}
}
