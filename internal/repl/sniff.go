package repl

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// peerPreface is how a connection of another member begins: HTTP/2. As the length of
// a message of MongoDB's protocol it would be 541,675,088 bytes, which none may have.
const peerPreface = "PRI "

const (
	// sniffTimeout is how long a connection may say nothing before it counts as a client.
	sniffTimeout = 10 * time.Second
	// maxSniffed bounds connections that nobody has accepted yet.
	maxSniffed = 256
)

// Split tells the connections of a listener apart: those of clients, and those of
// other members. Both listeners end with l's, and closing one closes l. Connections
// that say nothing for a while are clients'.
func Split(l net.Listener) (clients, peers net.Listener) {
	done := make(chan struct{})
	c := &split{Listener: l, conns: make(chan net.Conn, maxSniffed), done: done}
	p := &split{Listener: l, conns: make(chan net.Conn, maxSniffed), done: done}
	go func() {
		var sniffing sync.WaitGroup
		for {
			conn, err := l.Accept()
			if err != nil {
				if te, ok := err.(interface{ Temporary() bool }); ok && te.Temporary() && !errors.Is(err, net.ErrClosed) {
					time.Sleep(5 * time.Millisecond)
					continue
				}
				close(done)
				sniffing.Wait()
				return
			}
			sniffing.Add(1)
			go func() {
				defer sniffing.Done()
				to, s := sniff(conn)
				if to {
					p.give(s)
				} else {
					c.give(s)
				}
			}()
		}
	}()
	return c, p
}

// sniff reads how a connection begins, and gives it back unread.
func sniff(conn net.Conn) (peer bool, whole net.Conn) {
	b := make([]byte, len(peerPreface))
	if err := conn.SetReadDeadline(time.Now().Add(sniffTimeout)); err != nil {
		return false, conn
	}
	n, _ := io.ReadFull(conn, b)
	_ = conn.SetReadDeadline(time.Time{})
	return string(b[:n]) == peerPreface, &sniffed{Conn: conn, first: b[:n]}
}

// split is one side of a listener.
type split struct {
	net.Listener
	conns chan net.Conn
	done  chan struct{}
}

func (s *split) give(c net.Conn) {
	select {
	case s.conns <- c:
	case <-s.done:
		c.Close()
	}
}

// Accept is net.Listener's.
func (s *split) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.done:
		return nil, net.ErrClosed
	}
}

// sniffed is a connection of which some bytes were read.
type sniffed struct {
	net.Conn
	first []byte
}

// Read is net.Conn's.
func (s *sniffed) Read(b []byte) (int, error) {
	if len(s.first) > 0 {
		n := copy(b, s.first)
		s.first = s.first[n:]
		return n, nil
	}
	return s.Conn.Read(b)
}
