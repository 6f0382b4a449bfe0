package server

import (
	"net"
	"sync"
)

// handoff is the net.Listener of a server that is not our own loop: it accepts
// what accept has let in for it.
type handoff struct {
	address net.Addr
	links   chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func newHandoff(address net.Addr) *handoff {
	return &handoff{address: address, links: make(chan net.Conn), closed: make(chan struct{})}
}

// take hands a connection over, or ends it where nobody accepts any more.
func (h *handoff) take(l net.Conn) {
	select {
	case h.links <- l:
	case <-h.closed:
		_ = l.Close()
	}
}

// Accept is net.Listener's.
func (h *handoff) Accept() (net.Conn, error) {
	select {
	case l := <-h.links:
		return l, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close is net.Listener's.
func (h *handoff) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

// Addr is net.Listener's.
func (h *handoff) Addr() net.Addr { return h.address }
