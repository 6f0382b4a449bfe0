package catalog

import "sync"

// notifier wakes everyone who waits for something to happen. The zero notifier is
// ready for use.
type notifier struct {
	mu struct {
		sync.Mutex
		next chan struct{} // closed by the next broadcast; nil where nobody waits
	}
}

// next returns a channel that the next broadcast closes.
func (n *notifier) next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.next == nil {
		n.mu.next = make(chan struct{})
	}
	return n.mu.next
}

func (n *notifier) broadcast() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.next != nil {
		close(n.mu.next)
		n.mu.next = nil
	}
}

// Arrivals returns a channel that is closed when, after the call, documents
// become visible in a capped collection, or when the collection is dropped or
// gets another descriptor. Take it first and a snapshot then: so nothing that
// the snapshot lacks is missed.
func (c *Collection) Arrivals() <-chan struct{} { return c.live.arrivals.next() }
