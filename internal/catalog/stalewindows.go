package catalog

import (
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/storage"
)

const (
	// staleMark is what the third sum of a window gets when a document in it gets a later instant,
	// unless it is known to have it already: so one that is touched costs its window
	// nothing. However often a window is marked anew, the sum does not overflow.
	staleMark = 1
	// maxStaleMarks bounds the windows that are known to be marked, in all
	// collections: where there are more, some are marked again and again.
	maxStaleMarks = 1 << 14
)

// staleMarks are windows of which the store says, since a commit that is over,
// that they are stale. A mark goes with its window only.
type staleMarks struct {
	slots [maxStaleMarks]atomic.Pointer[windowRef]
}

// windowRef is a window of a collection.
type windowRef struct {
	ident  storage.Ident
	window uint64
}

func (m *staleMarks) slot(w windowRef) *atomic.Pointer[windowRef] {
	const spread = 0x9e3779b97f4a7c15 // collections do not begin at the same slot
	return &m.slots[(uint64(w.ident)*spread>>32+w.window)%maxStaleMarks]
}

func (m *staleMarks) has(w windowRef) bool {
	p := m.slot(w).Load()
	return p != nil && *p == w
}

func (m *staleMarks) add(w windowRef) { m.slot(w).Store(&w) }

// forget forgets the windows of a collection, whose sums are about to go.
// The caller has closed its gate.
func (m *staleMarks) forget(id storage.Ident) {
	for i := range m.slots {
		if p := m.slots[i].Load(); p != nil && p.ident == id {
			m.slots[i].Store(nil)
		}
	}
}
