package server

import (
	"net"
	"sync"
)

// handoff is the net.Listener of an HTTP server: it returns the connections that accept
// has accepted for it.
type handoff struct {
	address net.Addr
	links   chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func newHandoff(address net.Addr) *handoff {
	return &handoff{address: address, links: make(chan net.Conn), closed: make(chan struct{})}
}

// take hands over a connection, or closes it if the server has stopped accepting.
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
