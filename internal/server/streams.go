package server

import (
	"time"

	"github.com/mayflydb/mayfly/internal/wire/stream"
)

// serveStreams serves the connections that a process of a cluster has on one socket, of
// which the preface has been read. Each is a link of its own; that of the socket has no
// operations.
func (s *Server) serveStreams(l *link) {
	session := stream.NewServer(l.plain, func(m *stream.Stream) {
		if admitted := s.admit(m, s.network.With("ctx", "listener"), ""); admitted != nil {
			admitted.client.Encrypted, admitted.client.Holder = l.client.Encrypted, l.client.Holder
			go func() {
				defer admitted.Close()
				newConnection(admitted, admitted).serve()
			}()
		}
	})
	l.session.Store(session)
	if s.stopping.Load() { // stop may have come before
		_ = l.SetReadDeadline(time.Time{})
		session.Drain()
	}
	session.Serve()
}
