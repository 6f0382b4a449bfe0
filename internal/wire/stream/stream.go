package stream

import (
	"net"
	"os"
	"sync"
	"time"
)

// Stream is one connection of a Session. One goroutine reads from it at a time.
type Stream struct {
	session *Session
	id      uint32
	done    <-chan struct{} // ends a Read that waits; nil for none

	mu       sync.Mutex
	room     sync.Cond // of mu: something was read
	in       []byte    // what has arrived
	at       int       // how much of in was read
	ready    chan struct{}
	deadline time.Time
	err      error // why it has ended
	closed   bool  // by its owner
}

var _ net.Conn = (*Stream)(nil)

// Until makes a Read fail with os.ErrDeadlineExceeded once done is closed; nil for never.
// It is for the goroutine that reads.
func (m *Stream) Until(done <-chan struct{}) { m.done = done }

// Read implements net.Conn.
func (m *Stream) Read(p []byte) (int, error) {
	for {
		m.mu.Lock()
		if m.at < len(m.in) {
			n := copy(p, m.in[m.at:])
			if m.at += n; m.at == len(m.in) {
				if m.in = m.in[:0]; cap(m.in) > maxKept {
					m.in = nil
				}
				m.at = 0
			}
			m.room.Signal()
			m.mu.Unlock()
			return n, nil
		}
		err, deadline := m.err, m.deadline
		m.mu.Unlock()
		if err != nil {
			return 0, err
		}
		if err := m.wait(deadline); err != nil {
			return 0, err
		}
	}
}

// wait waits until something may have changed.
func (m *Stream) wait(deadline time.Time) error {
	if deadline.IsZero() {
		if m.done == nil {
			<-m.ready
			return nil
		}
		select {
		case <-m.ready:
			return nil
		case <-m.done:
			return os.ErrDeadlineExceeded
		}
	}
	left := time.Until(deadline)
	if left <= 0 {
		return os.ErrDeadlineExceeded
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-m.ready:
		return nil
	case <-m.done:
	case <-timer.C:
	}
	return os.ErrDeadlineExceeded
}

// notify wakes the reader.
func (m *Stream) notify() {
	select {
	case m.ready <- struct{}{}:
	default:
	}
}

// deliver adds what has arrived. If the owner does not read, it waits, or fails
// (invariant bounded).
func (m *Stream) deliver(p []byte, waits bool) error {
	m.mu.Lock()
	for len(m.in)-m.at > maxUnread && m.err == nil {
		if !waits {
			m.mu.Unlock()
			return errUnread
		}
		m.room.Wait()
	}
	if m.err == nil {
		if m.at > 0 && len(m.in)+len(p) > cap(m.in) {
			m.in = m.in[:copy(m.in, m.in[m.at:])]
			m.at = 0
		}
		m.in = append(m.in, p...)
	}
	m.mu.Unlock()
	m.notify()
	return nil
}

// endedBy ends the stream for its owner, who may read what has arrived before.
func (m *Stream) endedBy(why error) {
	m.mu.Lock()
	if m.err == nil {
		m.err = why
	}
	m.room.Signal()
	m.mu.Unlock()
	m.notify()
}

// HungUp reports whether the peer has ended the stream.
func (m *Stream) HungUp() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err != nil
}

// Write implements net.Conn. What it returns without an error is on its way, but may still
// be lost with the socket.
func (m *Stream) Write(p []byte) (int, error) {
	for sent := 0; ; {
		m.mu.Lock()
		err := m.err
		m.mu.Unlock()
		if err != nil {
			return sent, err
		}
		n := min(len(p)-sent, MaxFrame)
		if n == 0 {
			return sent, nil
		}
		if err := m.session.send(m.id, p[sent:sent+n]); err != nil {
			return sent, err
		}
		sent += n
	}
}

// Close implements net.Conn.
func (m *Stream) Close() error {
	m.mu.Lock()
	again := m.closed
	m.closed = true
	m.mu.Unlock()
	if again {
		return nil
	}
	m.endedBy(net.ErrClosed)
	_ = m.session.send(m.id, nil) // a session that has ended has told the peer
	m.session.remove(m.id)
	return nil
}

// LocalAddr implements net.Conn.
func (m *Stream) LocalAddr() net.Addr { return m.session.nc.LocalAddr() }

// RemoteAddr implements net.Conn.
func (m *Stream) RemoteAddr() net.Addr { return m.session.nc.RemoteAddr() }

// SetReadDeadline implements net.Conn.
func (m *Stream) SetReadDeadline(t time.Time) error {
	m.mu.Lock()
	m.deadline = t
	m.mu.Unlock()
	m.notify()
	return nil
}

// SetDeadline implements net.Conn. Writing has none: it waits only if the socket does.
func (m *Stream) SetDeadline(t time.Time) error { return m.SetReadDeadline(t) }

// SetWriteDeadline implements net.Conn, and does nothing.
func (m *Stream) SetWriteDeadline(time.Time) error { return nil }
