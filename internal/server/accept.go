package server

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"time"
)

// Bounds of the pause after an error of accept, which doubles with each further error.
const (
	firstAcceptPause = 5 * time.Millisecond
	maxAcceptPause   = time.Second
)

// accept accepts clients on one listener until it is closed: each becomes a link, which
// take owns from then on. Listeners of all protocols use it.
func (s *Server) accept(l net.Listener, log *slog.Logger, protocol string, take func(*link)) {
	pause := firstAcceptPause
	for {
		nc, err := l.Accept()
		if err == nil {
			pause = firstAcceptPause
			if admitted := s.admit(nc, log, protocol); admitted != nil {
				take(admitted)
			}
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

// admit registers a connection, or closes it and returns nil if there are too many or
// the server is stopping.
func (s *Server) admit(nc net.Conn, log *slog.Logger, protocol string) *link {
	s.mu.Lock()
	count := int64(len(s.mu.links))
	full := count >= int64(s.maxConnections)
	if full || s.stopping.Load() {
		s.mu.Unlock()
		if full {
			s.stats.rejected.Add(1)
			log.Info("Connection refused because there are too many open connections", "id", logTooMany,
				"remote", addr(nc.RemoteAddr()), "connectionCount", count)
		}
		_ = nc.Close()
		return nil
	}
	s.mu.lastID++
	l := s.newLink(nc, s.mu.lastID, protocol)
	s.mu.links[l] = struct{}{}
	s.serving.Add(1)
	s.mu.Unlock()

	s.stats.created.Add(1)
	if s.app.Clients != nil {
		s.app.Clients.Connect(l.client)
	}
	if !s.log.Quiet() {
		log.Info("Connection accepted", append([]any{"id", logAccepted}, l.identity(count+1)...)...)
	}
	return l
}

// leave unregisters a connection.
func (s *Server) leave(l *link) {
	defer s.serving.Done()
	l.cancel(nil)
	if s.app.Clients != nil {
		s.app.Clients.Disconnect(l.client)
	}
	s.mu.Lock()
	delete(s.mu.links, l)
	count := int64(len(s.mu.links))
	s.mu.Unlock()
	if !s.log.Quiet() {
		l.log.Info("Connection ended", append([]any{"id", logEnded}, l.identity(count)...)...)
	}
}

// serveLink is the goroutine of a connection to the port of MongoDB's protocol: it
// detects the protocol and serves it.
func (s *Server) serveLink(l *link) {
	in, err := hear(l)
	if err == nil {
		in, err = s.secure(l, in)
	}
	if err == nil && s.peers != nil {
		if spoken := speaks(in.first); spoken == spokenHTTP2 || spoken == spokenKey {
			s.peers.take(in)
			return
		}
	}
	defer l.Close()
	if err != nil {
		return // it disconnected without sending anything, or was refused
	}
	switch speaks(in.first) {
	case spokenHTTP:
		l.log.Info("Ending a connection that speaks HTTP", "id", logHTTP, "remote", l.client.Remote)
		_, _ = io.WriteString(l, httpAnswer)
	case spokenHTTP2, spokenKey:
		l.log.Info("Ending a connection that speaks HTTP/2 or the protocol of replica set members", "id", logHTTP, "remote", l.client.Remote)
	case spokenStreams:
		s.serveStreams(l)
	default:
		newConnection(l, in).serve()
	}
}

// httpAnswer is the reply to HTTP clients.
const httpAnswer = "HTTP/1.0 200 OK\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 85\r\n\r\n" +
	"It looks like you are trying to access MongoDB over HTTP on the native driver port.\r\n"
