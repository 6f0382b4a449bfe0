package server

import (
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/mayflydb/mayfly/internal/command"
)

// After an error of accept, the next try waits: this long, twice as long after
// each further one, and no longer than the second.
const (
	firstAcceptPause = 5 * time.Millisecond
	maxAcceptPause   = time.Second
)

// accept lets clients in on one listener until it is closed.
func (s *Server) accept(l net.Listener, log *slog.Logger) {
	pause := firstAcceptPause
	for {
		nc, err := l.Accept()
		if err == nil {
			pause = firstAcceptPause
			s.admit(nc, log)
			continue
		}
		if errors.Is(err, net.ErrClosed) || s.stopping.Load() {
			return
		}
		log.Error("Error accepting new connection", "id", logAcceptFailed, "listener", l.Addr().String(), "error", err)
		select {
		case <-s.life.Done():
			return
		case <-time.After(pause):
			pause = min(2*pause, maxAcceptPause)
		}
	}
}

// admit starts a connection, unless there are too many or the server stops.
func (s *Server) admit(nc net.Conn, log *slog.Logger) {
	s.mu.Lock()
	count := int64(len(s.mu.connections))
	full := count >= int64(s.maxConnections)
	if full || s.stopping.Load() {
		s.mu.Unlock()
		if full {
			s.stats.rejected.Add(1)
			log.Info("Connection refused because there are too many open connections", "id", logTooMany,
				"remote", addr(nc.RemoteAddr()), "connectionCount", count)
		}
		_ = nc.Close()
		return
	}
	s.mu.lastID++
	c := s.newConnection(nc, s.mu.lastID)
	s.mu.connections[c] = struct{}{}
	s.serving.Add(1)
	s.mu.Unlock()

	s.stats.created.Add(1)
	if s.app.Clients != nil {
		s.app.Clients.Connect(c.client)
	}
	if !s.log.Quiet() {
		log.Info("Connection accepted", append([]any{"id", logAccepted}, c.identity(count+1)...)...)
	}
	go s.run(c)
}

// nextConnection is the number of a connection that another part of the server
// keeps.
func (s *Server) nextConnection() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.lastID++
	return s.mu.lastID
}

// run is a connection's goroutine.
func (s *Server) run(c *connection) {
	defer s.serving.Done()
	defer s.leave(c)
	c.serve()
}

// leave takes a connection out of the server.
func (s *Server) leave(c *connection) {
	c.cancel(nil)
	_ = c.net.Close()
	if s.app.Clients != nil {
		s.app.Clients.Disconnect(c.client)
	}
	s.mu.Lock()
	delete(s.mu.connections, c)
	count := int64(len(s.mu.connections))
	s.mu.Unlock()
	if !s.log.Quiet() {
		c.log.Info("Connection ended", append([]any{"id", logEnded}, c.identity(count)...)...)
	}
}

// writes says whether the running operation is one that changes data.
func (c *connection) writes() bool {
	op := c.client.Current()
	return op != nil && op.Command != nil && op.Command.Flags&command.Writes != 0
}
