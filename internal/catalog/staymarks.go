package catalog

import (
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/storage"
)

const (
	// stayMark is what the third sum of a window gets when a document stays there,
	// unless it is known to have it already: so one that is touched costs its window
	// nothing. However often a window is marked anew, the sum does not overflow.
	stayMark = 1
	// maxStayMarks bounds the windows that are known to be marked, in all
	// collections: where there are more, some are marked again and again.
	maxStayMarks = 1 << 14
)

// stayMarks are windows of which the store says, since a commit that is over,
// that documents have stayed in them. A mark goes with its window only.
type stayMarks struct {
	slots [maxStayMarks]atomic.Pointer[markedWindow]
}

// markedWindow is a window of a collection.
type markedWindow struct {
	ident  storage.Ident
	window uint64
}

func (m *stayMarks) slot(w markedWindow) *atomic.Pointer[markedWindow] {
	const spread = 0x9e3779b97f4a7c15 // collections do not begin at the same slot
	return &m.slots[(uint64(w.ident)*spread>>32+w.window)%maxStayMarks]
}

func (m *stayMarks) has(w markedWindow) bool {
	p := m.slot(w).Load()
	return p != nil && *p == w
}

func (m *stayMarks) add(w markedWindow) { m.slot(w).Store(&w) }

// forget forgets the windows of a collection, whose sums are about to go.
// The caller has closed its gate.
func (m *stayMarks) forget(id storage.Ident) {
	for i := range m.slots {
		if p := m.slots[i].Load(); p != nil && p.ident == id {
			m.slots[i].Store(nil)
		}
	}
}
