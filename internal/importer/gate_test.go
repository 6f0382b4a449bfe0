package importer

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// How an importer dies at a request.
const (
	dieBefore = iota // the request never leaves
	dieBehind        // the request is executed, and its reply lost
	dieLate          // the request is executed later, when a successor is at work
	deaths
)

// gate stands between an importer and both ends, and counts its requests. At one of them the
// importer dies.
type gate struct {
	mu         sync.Mutex
	n          int                       // requests so far
	at         int                       // the one at which it dies; 0 for none
	when       func(message []byte) bool // it dies at a request of this kind; nil for none
	how        int
	onlyFenced bool // what is late is a write in a session, or DDL that names a UUID
	die        func()
	passed     func(n int)          // is told of each request
	slow       func() time.Duration // how long a batch of the copy is on its way; nil: not at all
	open       []net.Conn           // of the importer, and to the ends
	late       func()               // delivers the request that is late
	answered   chan struct{}        // has one when an answer came after the death
	dead       atomic.Bool
}

// proxy is an address behind which an end is, for one gate after another: a source has one name.
type proxy struct {
	address string
	gate    atomic.Pointer[gate]
}

func newProxy(t testing.TB, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p := &proxy{address: l.Addr().String()}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				return
			}
			p.gate.Load().serve(in, out)
		}
	}()
	return p
}

// serve serves one connection.
func (g *gate) serve(in, out net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dead.Load() {
		_, _ = in.Close(), out.Close()
		return
	}
	g.open = append(g.open, in, out)
	go g.requests(in, out)
	go g.answers(in, out)
}

// answers forwards the answers of a connection; nobody hears them after the death.
func (g *gate) answers(in, out net.Conn) {
	b := make([]byte, 64<<10)
	for {
		n, err := out.Read(b)
		if err != nil {
			_ = in.Close()
			return
		}
		if g.dead.Load() {
			select {
			case g.answered <- struct{}{}:
			default:
			}
			continue
		}
		if _, err := in.Write(b[:n]); err != nil {
			return
		}
	}
}

// hear waits for an answer after the death.
func (g *gate) hear() {
	select {
	case <-g.answered:
	case <-time.After(time.Second): // of a cursor that waits
	}
}

// requests forwards the requests of a connection.
func (g *gate) requests(in, out net.Conn) {
	for {
		head := make([]byte, 16)
		if _, err := io.ReadFull(in, head); err != nil {
			if !g.dead.Load() {
				_ = out.Close()
			}
			return
		}
		message := append(head, make([]byte, binary.LittleEndian.Uint32(head)-16)...)
		if _, err := io.ReadFull(in, message[16:]); err != nil {
			return
		}
		if g.slow != nil && copies(message) {
			time.Sleep(g.slow())
		}
		if !g.pass(message, out) {
			return
		}
	}
}

// copies reports whether a request is a batch of the copy.
func copies(message []byte) bool {
	return bytes.Contains(message, []byte("bypassDocumentValidation")) && bytes.Contains(message, []byte("insert\x00"))
}

// pass forwards a request, unless the importer dies of it.
func (g *gate) pass(message []byte, out net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dead.Load() {
		return false
	}
	g.n++
	if g.passed != nil {
		g.passed(g.n)
	}
	if g.n != g.at && (g.when == nil || !g.when(message)) {
		_, err := out.Write(message)
		return err == nil
	}
	g.answered = make(chan struct{}, 1)
	g.dead.Store(true)
	how := g.how
	if g.onlyFenced && how == dieLate && !bytes.Contains(message, []byte("txnNumber")) && !bytes.Contains(message, []byte("collectionUUID")) {
		how = dieBehind
	}
	switch how {
	case dieBehind:
		_, _ = out.Write(message)
		g.hear()
	case dieLate:
		g.late = func() {
			if _, err := out.Write(message); err == nil {
				g.hear()
			}
			_ = out.Close()
		}
	}
	for _, c := range g.open {
		if how != dieLate || c != out {
			_ = c.Close()
		}
	}
	g.die()
	return false
}

// deliver executes the request that is late, if there is one.
func (g *gate) deliver() {
	g.mu.Lock()
	late := g.late
	g.late = nil
	g.mu.Unlock()
	if late != nil {
		late()
	}
}
