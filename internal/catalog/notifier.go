package catalog

import "sync"

// Notifier wakes all waiters when something happens. The zero Notifier is
// ready for use.
type Notifier struct {
	mu struct {
		sync.Mutex
		next chan struct{} // closed by the next broadcast; nil without waiters
	}
}

// Next returns a channel that the next broadcast closes.
func (n *Notifier) Next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.next == nil {
		n.mu.next = make(chan struct{})
	}
	return n.mu.next
}

// Broadcast wakes all waiters.
func (n *Notifier) Broadcast() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.next != nil {
		close(n.mu.next)
		n.mu.next = nil
	}
}

// Arrivals returns a channel that is closed when, after the call, documents
// become visible in a capped collection, or when the collection is dropped or
// gets another descriptor. Take it before a snapshot, so that nothing that the
// snapshot lacks is missed.
func (c *Collection) Arrivals() <-chan struct{} {
	if c.virtual != nil {
		return c.virtual.Arrivals()
	}
	return c.live.arrivals.Next()
}
