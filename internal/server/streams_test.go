package server

import (
	"testing"

	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/wire"
	"github.com/mayflydb/mayfly/internal/wire/stream"
)

// dialStreams opens a socket that carries the connections which the function opens.
func dialStreams(t *testing.T, s *Server) func() *peer {
	session := stream.Dial(dial(t, s).Conn)
	t.Cleanup(func() { _ = session.Close() })
	return func() *peer {
		m, err := session.Open()
		if err != nil {
			t.Fatal(err)
		}
		return &peer{t, m, wire.NewReader(m)}
	}
}

// TestStreams: connections that share a socket are answered apart from each other, in
// whatever order; the end of one interrupts its operation and no other; and a server that
// stops answers what runs before it ends the socket.
func TestStreams(t *testing.T) {
	f := newFake()
	s, _ := start(t, options(t), f)
	connect := dialStreams(t, s)
	left, busy, quick := connect(), connect(), connect()
	left.send(1, wire.Message{Body: one("hold")})
	<-f.running
	busy.send(2, wire.Message{Body: one("hold")})
	<-f.running
	quick.send(3, wire.Message{Body: one("ping")})
	if m := quick.receive(); m.ResponseTo != 3 || m.Body.Lookup("echo").Type == 0 {
		t.Error(m.Body)
	}
	_ = left.Close()
	if err := <-f.ended; !mongoerr.Is(err, mongoerr.ClientDisconnect) {
		t.Error(err)
	}
	s.Stop()
	if !quick.ended() {
		t.Error("an idle stream outlives the server")
	}
	close(f.release)
	if m := busy.receive(); m.ResponseTo != 2 || m.Body.Lookup("ok").Double() != 1 {
		t.Error(m.Body)
	}
	if !busy.ended() {
		t.Error("a stream outlives the server")
	}
}

// TestStreamsAreConnections: each stream counts, and one that is too many is refused
// without an end to the others.
func TestStreamsAreConnections(t *testing.T) {
	o := options(t)
	o.Net.MaxConnections = 5
	s, _ := start(t, o, newFake())
	connect := dialStreams(t, s)
	var all []*peer
	for range 4 { // the socket is one itself
		p := connect()
		p.send(1, wire.Message{Body: one("ping")})
		p.receive()
		all = append(all, p)
	}
	if !connect().ended() {
		t.Error("a connection above the limit was accepted")
	}
	all[0].send(2, wire.Message{Body: one("ping")})
	all[0].receive()
}
