package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/cosmos"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// waiter is a handler of requests: /hold waits for release or the end of its
// context, all others answer at once with who asks.
type waiter struct {
	running, release chan struct{}
	ended            chan error
}

func newWaiter() *waiter {
	return &waiter{make(chan struct{}, 10), make(chan struct{}), make(chan error, 10)}
}

func (w *waiter) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/hold" {
		c := command.ClientOf(r.Context())
		io.WriteString(rw, c.Protocol+" "+c.Remote)
		return
	}
	w.running <- struct{}{}
	select {
	case <-w.release:
	case <-r.Context().Done():
		w.ended <- context.Cause(r.Context())
		rw.WriteHeader(http.StatusServiceUnavailable)
	}
}

// startEndpoint starts a server with an HTTP endpoint of that handler, with TLS
// or without, and returns its address.
func startEndpoint(t *testing.T, o *config.Options, h http.Handler, encrypted bool) (s *Server, address string) {
	s, _ = newTestServer(t, o, newFake())
	e := &cosmosEndpoint{s: s, o: config.Cosmos{BindIP: []string{"127.0.0.1"}}}
	var conf *tls.Config
	if encrypted {
		cert, err := endpointCertificate(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		conf = &tls.Config{Certificates: []tls.Certificate{cert}}
	}
	open := s.open
	s.open = func(ctx context.Context, s *Server) (*App, error) {
		app, err := open(ctx, s)
		app.Clients = &command.Clients{}
		app.Components = append(app.Components, Component{
			Name: "endpoint", Start: func(ctx context.Context) error { return e.listen(ctx, 0, h, conf) }, Drain: e.drain, Stop: e.stop,
		})
		return app, err
	}
	run(t, s)
	return s, e.listeners[0].Addr().String()
}

// ask opens a connection to an endpoint and sends a request.
func ask(t *testing.T, address, path string, encrypted bool) (net.Conn, *bufio.Reader) {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	if encrypted {
		nc = tls.Client(nc, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
	}
	if _, err := io.WriteString(nc, "GET "+path+" HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	return nc, bufio.NewReader(nc)
}

func answerOf(t *testing.T, r *bufio.Reader) (int, string) {
	t.Helper()
	a, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(body)
}

// TestEndpointConnections: a connection to the endpoint is one of the server's:
// counted, in the table of clients, bounded, and known to be gone.
func TestEndpointConnections(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		o := options(t)
		o.Net.MaxConnections = 2
		w := newWaiter()
		s, address := startEndpoint(t, o, w, encrypted)
		nc, r := ask(t, address, "/", encrypted)
		if code, body := answerOf(t, r); code != http.StatusOK || body != cosmos.Protocol+" "+nc.LocalAddr().String() {
			t.Errorf("%d %s", code, body)
		}
		held, _ := ask(t, address, "/hold", encrypted)
		<-w.running
		if st := s.Stats(); st.Current != 2 || st.Active != 1 || st.Available != 0 || st.Requests != 2 {
			t.Errorf("%+v", st)
		}
		if n := len(s.app.Clients.All()); n != 2 {
			t.Errorf("%d clients", n)
		}
		if third := dial(t, s); !third.ended() {
			t.Error("a third connection was let in")
		}
		_ = held.Close()
		if err := <-w.ended; !mongoerr.Is(err, mongoerr.ClientDisconnect) {
			t.Errorf("the client is gone, and the operation ended with %v", err)
		}
		_ = nc.Close()
		for s.Stats().Current != 0 || len(s.app.Clients.All()) != 0 {
			time.Sleep(time.Millisecond)
		}
		if st := s.Stats(); st.BytesIn == 0 || st.BytesOut == 0 {
			t.Errorf("%+v", st)
		}
	}
}

// TestEndpointStops: when the server stops, a request that runs is answered,
// and a connection without one ends.
func TestEndpointStops(t *testing.T) {
	w := newWaiter()
	s, address := startEndpoint(t, options(t), w, true)
	_, idle := ask(t, address, "/", true)
	answerOf(t, idle)
	_, busy := ask(t, address, "/hold", true)
	<-w.running
	s.Stop()
	if _, err := idle.ReadByte(); err == nil {
		t.Error("an idle connection goes on")
	}
	close(w.release)
	if code, _ := answerOf(t, busy); code != http.StatusOK {
		t.Errorf("a request that ran while the server stopped: %d", code)
	}
}

// TestSocketBelowTLS: the socket of an encrypted connection is found, and one
// in memory has none.
func TestSocketBelowTLS(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	for name, c := range map[string]struct {
		nc   net.Conn
		want bool
	}{
		"tcp": {nc, true}, "tls": {tls.Client(nc, &tls.Config{}), true}, "heard tls": {tls.Client(&link{Conn: nc}, &tls.Config{}), true}, "memory": {near, false},
	} {
		if got := socketOf(c.nc) != nil; got != c.want {
			t.Errorf("%s: a socket: %v", name, got)
		}
	}
}

// TestFirstBytesAreRead: looking at the first bytes takes none of them away.
func TestFirstBytesAreRead(t *testing.T) {
	for _, sent := range []string{"PRI * HTTP/2.0", "GET / HTTP/1.1", "\x10\x00\x00\x00abc", "ab"} {
		near, far := net.Pipe()
		go func() { io.WriteString(near, sent); near.Close() }()
		in, err := hear(far)
		if err != nil {
			t.Fatal(err)
		}
		want := map[byte]spoken{'P': spokenHTTP2, 'G': spokenHTTP}[sent[0]]
		if got := speaks(in.first); got != want {
			t.Errorf("%q is %d, want %d", sent, got, want)
		}
		if all, err := io.ReadAll(in); err != nil || string(all) != sent {
			t.Errorf("%q was read as %q, %v", sent, all, err)
		}
	}
	near, far := net.Pipe()
	near.Close()
	if _, err := hear(far); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}
