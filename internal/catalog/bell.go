package catalog

import "sync"

// bell wakes everyone who waits for something to happen. The zero bell is
// ready for use.
type bell struct {
	mu struct {
		sync.Mutex
		rung chan struct{} // closed by the next ring; nil where nobody waits
	}
}

// next returns what the next ring closes.
func (b *bell) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.rung == nil {
		b.mu.rung = make(chan struct{})
	}
	return b.mu.rung
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.rung != nil {
		close(b.mu.rung)
		b.mu.rung = nil
	}
}

// Arrivals returns a channel that is closed when, after the call, documents
// become visible in a capped collection, or when the collection is dropped or
// gets another descriptor. Take it first and a snapshot then: so nothing that
// the snapshot lacks is missed.
func (c *Collection) Arrivals() <-chan struct{} { return c.live.arrivals.next() }
