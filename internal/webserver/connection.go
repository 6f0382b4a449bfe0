package webserver

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
)

// connection is one client's, with its requests, which come one at a time.
type connection struct {
	net.Conn
	exchange exchange // the one at hand
}

// encrypted is a connection with TLS, as fasthttp knows one: it shakes hands
// before the first request.
type encrypted struct {
	connection
	tls *tls.Conn
}

// Handshake is fasthttp's sign of TLS.
func (e *encrypted) Handshake() error { return e.tls.Handshake() }

// ConnectionState is fasthttp's sign of TLS.
func (e *encrypted) ConnectionState() tls.ConnectionState { return e.tls.ConnectionState() }

// connect makes a connection of what a listener accepted.
func (s *Server) connect(nc net.Conn) net.Conn {
	if s.TLS == nil {
		c := &connection{}
		c.begin(s, nc, nc)
		return c
	}
	e := &encrypted{tls: tls.Server(nc, s.TLS)}
	e.begin(s, nc, e.tls)
	return e
}

// begin makes c the connection nc; speaks is nc, or TLS on it.
func (c *connection) begin(s *Server, nc, speaks net.Conn) {
	ctx := s.life
	if s.ConnContext != nil {
		ctx = s.ConnContext(ctx, nc)
	}
	c.Conn = speaks
	c.exchange.init(ctx, nc.RemoteAddr().String())
}

// own finds the connection in what fasthttp has of it.
func (c *connection) own() *connection { return c }

// stateOfTLS is what handlers see of a connection's TLS, nil without.
func stateOfTLS(c net.Conn) *tls.ConnectionState {
	e, ok := c.(*encrypted)
	if !ok {
		return nil
	}
	state := e.ConnectionState()
	return &state
}

// listener accepts connections for fasthttp.
type listener struct {
	net.Listener
	server *Server
}

// Accept is net.Listener's.
func (l listener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.server.connect(nc), nil
}

// init makes e ready for the requests of a connection.
func (e *exchange) init(ctx context.Context, remote string) {
	e.header, e.answer = http.Header{}, http.Header{}
	e.request = (&http.Request{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, RemoteAddr: remote}).WithContext(ctx)
}
