package http1

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"
)

// Server answers the requests of any number of listeners.
type Server struct {
	Handler http.Handler
	// HeaderTimeout bounds a handshake of TLS, and how long the header of a
	// request may take from its first byte; IdleTimeout the wait for a request,
	// and for its body.
	HeaderTimeout, IdleTimeout time.Duration
	// MaxHeader bounds the header of a request, in bytes.
	MaxHeader int
	// MaxBody is the longest body, in bytes, that is read before the handler is
	// called. A handler has to bound a longer one itself.
	MaxBody int64
	Log     *slog.Logger

	mu        sync.Mutex
	closing   bool
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	running   sync.WaitGroup // of connections
}

// How long Serve waits after a failure to accept: longer each time.
const (
	minAcceptPause = 5 * time.Millisecond
	maxAcceptPause = time.Second
)

// Serve answers the connections of a listener, with a context below ctx for
// each, until Shutdown closes it: then the error is http.ErrServerClosed.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	if !s.listen(l) {
		_ = l.Close()
		return http.ErrServerClosed
	}
	for pause := minAcceptPause; ; {
		nc, err := l.Accept()
		if err != nil {
			if s.closed() {
				return http.ErrServerClosed
			}
			if errors.Is(err, net.ErrClosed) {
				return err
			}
			s.Log.Warn("A connection could not be accepted", "error", err)
			time.Sleep(pause)
			pause = min(2*pause, maxAcceptPause)
			continue
		}
		pause = minAcceptPause
		c := newConn(s, nc)
		if !s.open(c) {
			_ = nc.Close()
			continue
		}
		go func() {
			defer s.running.Done()
			defer s.leave(c)
			c.serve(ctx)
		}()
	}
}

func (s *Server) listen(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listeners == nil {
		s.listeners, s.conns = map[net.Listener]struct{}{}, map[*conn]struct{}{}
	}
	s.listeners[l] = struct{}{}
	return !s.closing
}

func (s *Server) open(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.conns[c] = struct{}{}
	s.running.Add(1)
	return true
}

func (s *Server) leave(c *conn) {
	_ = c.nc.Close()
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
}

func (s *Server) closed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

// Shutdown closes the listeners and the connections without a request, waits
// for the others to answer theirs until ctx ends, and closes those that are
// left.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closing = true
	for l := range s.listeners {
		_ = l.Close()
	}
	for c := range s.conns {
		c.stopIdle()
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	for c := range s.conns {
		_ = c.nc.Close()
	}
	s.mu.Unlock()
	<-done
	return ctx.Err()
}

// handle calls the handler. A panic ends the connection alone.
func (s *Server) handle(w http.ResponseWriter, r *http.Request) (ok bool) {
	defer func() {
		if p := recover(); p != nil {
			s.Log.Error("A request panicked", "method", r.Method, "path", r.URL.Path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			ok = false
		}
	}()
	s.Handler.ServeHTTP(w, r)
	return true
}

// handshake is the state of TLS, nil on a plain connection.
func (s *Server) handshake(ctx context.Context, nc net.Conn) (*tls.ConnectionState, error) {
	t, ok := nc.(*tls.Conn)
	if !ok {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.HeaderTimeout)
	defer cancel()
	if err := t.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	state := t.ConnectionState()
	return &state, nil
}
