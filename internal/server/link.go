package server

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/wire/stream"
)

// link is the server's part of a connection of any protocol: it is counted, its client
// is in the table of clients, and its operations end when the client disconnects or the
// server stops. It is the net.Conn that servers of other packages get; its Close
// unregisters it.
type link struct {
	net.Conn
	// plain is what is read and written, without the encryption: Conn, or the TLS on it. It is
	// set before the link is handed on.
	plain  net.Conn
	server *Server
	raw    syscall.RawConn // of the socket below any TLS; nil if there is none
	client *command.Client
	name   string // in logs: "conn12"
	uuid   string
	log    *slog.Logger

	ctx    context.Context // of its operations
	cancel context.CancelCauseFunc

	// busySince is when the running operation began, in nanoseconds since the
	// server started, or 0. awaiting says that it may wait without a limit.
	busySince atomic.Int64
	awaiting  atomic.Bool
	left      atomic.Bool

	session atomic.Pointer[stream.Session] // of the connections that the socket carries; nil for none
}

// newLink makes a link. protocol is that of command.Client.
func (s *Server) newLink(nc net.Conn, id int64, protocol string) *link {
	l := &link{Conn: nc, plain: nc, server: s, raw: socketOf(nc), name: "conn" + strconv.FormatInt(id, 10), uuid: bson.NewUUID().String()}
	l.client = &command.Client{ConnectionID: id, Remote: addr(nc.RemoteAddr()), Local: addr(nc.LocalAddr()), Protocol: protocol}
	l.log = s.network.With("ctx", l.name)
	l.ctx, l.cancel = context.WithCancelCause(withContext(s.life, l.name))
	return l
}

// socketOf returns the socket of a connection, below any TLS, which shows whether the
// peer has disconnected. It returns nil for a connection without one, such as those in
// memory.
func socketOf(nc net.Conn) syscall.RawConn {
	for {
		if sc, ok := nc.(syscall.Conn); ok {
			raw, err := sc.SyscallConn()
			if err != nil { // it is closed already
				return nil
			}
			return raw
		}
		on, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		nc = on.NetConn()
	}
}

// hungUp reports whether the peer has ended the connection, where that can be seen.
func (l *link) hungUp() bool {
	if m, ok := l.Conn.(*stream.Stream); ok {
		return m.HungUp()
	}
	return l.raw != nil && hungUp(l.raw)
}

// addr formats an address for logs and currentOp; a client on a unix socket has none.
func addr(a net.Addr) string {
	if a == nil || a.String() == "" || a.String() == "@" {
		return command.UnixSocket
	}
	return a.String()
}

// begin notes the start of an operation that may wait without a limit.
func (l *link) begin(start time.Time, awaiting bool) {
	l.awaiting.Store(awaiting)
	if awaiting && l.server.stopping.Load() {
		l.cancel(errInterrupted) // stop may have checked before
	}
	l.busySince.Store(max(1, int64(start.Sub(l.server.started))))
}

// end notes the end of the operation, and its duration unless that says for how long it was
// to wait.
func (l *link) end(took time.Duration) {
	l.busySince.Store(0)
	if !l.awaiting.Load() {
		l.server.stats.latency.Observe(took.Seconds())
	}
}

// writes reports whether the running operation is a write.
func (l *link) writes() bool {
	op := l.client.Current()
	return op != nil && op.Command != nil && op.Command.Flags&command.Writes != 0
}

// stop ends the connection: at once if it is idle or its operation only waits, else
// after the reply to the running one. A socket of streams ends after the last of them.
func (l *link) stop() {
	if session := l.session.Load(); session != nil {
		session.Drain()
		return
	}
	_ = l.SetReadDeadline(longAgo) // reading fails, writing does not
	if l.awaiting.Load() {
		l.cancel(errInterrupted)
	}
}

// longAgo is a deadline in the past.
var longAgo = time.Unix(1, 0)

// Read counts what comes.
func (l *link) Read(p []byte) (int, error) {
	n, err := l.plain.Read(p)
	l.server.stats.bytesIn.Add(int64(n))
	return n, err
}

// Write counts what goes.
func (l *link) Write(p []byte) (int, error) {
	n, err := l.plain.Write(p)
	l.server.stats.bytesOut.Add(int64(n))
	return n, err
}

// NetConn is the connection below.
func (l *link) NetConn() net.Conn { return l.Conn }

// Close ends the connection and takes it out of the server.
func (l *link) Close() error {
	err := l.Conn.Close()
	if !l.left.Swap(true) {
		l.server.leave(l)
	}
	return err
}

// identity returns the attributes of log lines about the start and the end of the
// connection.
func (l *link) identity(count int64) []any {
	return []any{
		"remote", l.client.Remote, "isLoadBalanced", false,
		slog.Group("uuid", slog.Group("uuid", slog.String("$uuid", l.uuid))),
		"connectionId", l.client.ConnectionID, "connectionCount", count,
	}
}
