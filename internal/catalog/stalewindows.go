package catalog

import (
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/storage"
)

const (
	// staleMark is added to the third sum of a window when a document in it gets a later
	// instant, unless the window is known to be marked already: so a later touch costs the
	// window nothing. However often a window is marked again, the sum does not overflow.
	staleMark = 1
	// maxStaleMarks bounds the windows that are known to be marked, over all
	// collections: where there are more, some are marked again and again.
	maxStaleMarks = 1 << 14
)

// staleMarks are windows that a commit has marked as stale in the store. A mark
// is removed only with its window.
type staleMarks struct {
	slots [maxStaleMarks]atomic.Pointer[windowRef]
}

// windowRef is a window of a collection.
type windowRef struct {
	ident  storage.Ident
	window uint64
}

func (m *staleMarks) slot(w windowRef) *atomic.Pointer[windowRef] {
	const spread = 0x9e3779b97f4a7c15 // so that collections begin at different slots
	return &m.slots[(uint64(w.ident)*spread>>32+w.window)%maxStaleMarks]
}

func (m *staleMarks) has(w windowRef) bool {
	p := m.slot(w).Load()
	return p != nil && *p == w
}

func (m *staleMarks) add(w windowRef) { m.slot(w).Store(&w) }

// forget forgets the windows of a collection, whose sums are about to be
// removed. The caller has closed its gate.
func (m *staleMarks) forget(id storage.Ident) {
	for i := range m.slots {
		if p := m.slots[i].Load(); p != nil && p.ident == id {
			m.slots[i].Store(nil)
		}
	}
}
