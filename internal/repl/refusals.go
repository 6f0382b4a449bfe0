package repl

import (
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// A process that a Network refuses is told why, and the refusal is logged.

const (
	// maxRefusals is how many refusals are logged at once, and refusalEvery is how long it
	// takes until one more may be: strangers may try again and again.
	maxRefusals  = 32
	refusalEvery = time.Second
)

// refusals limits the rate of log lines about refusals.
type refusals struct {
	mu   sync.Mutex
	used int       // of maxRefusals,
	at   time.Time // at this moment
}

// line reports whether a line may be written now.
func (r *refusals) line(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	back := int(now.Sub(r.at) / refusalEvery)
	if back > 0 {
		r.used, r.at = max(0, r.used-back), now
	}
	if r.used == maxRefusals {
		return false
	}
	r.used++
	return true
}

// refused logs a refusal.
func (n *Network) refused(remote net.Addr, err error) {
	if n.refusals.line(time.Now()) {
		n.opts.Logger.Warn("replication: refused", "remote", remote.String(), "error", err)
	}
}

// refusalCodes are those with which a stream ends whose sender is refused.
var refusalCodes = map[codes.Code]bool{
	codes.InvalidArgument: true, codes.FailedPrecondition: true, codes.PermissionDenied: true, codes.NotFound: true, codes.DataLoss: true,
	codes.Unimplemented: true,
}

// refusing serves a stream, and logs it where its sender is refused.
func (n *Network) refusing(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, serve grpc.StreamHandler) error {
	from, known := grpcpeer.FromContext(s.Context())
	if known {
		n.silent.Delete(from.Addr.String())
	}
	err := serve(srv, s)
	if known && refusalCodes[status.Code(err)] {
		n.refused(from.Addr, err)
	}
	return err
}

// listener notes connections on which no member sends anything.
type listener struct {
	net.Listener
	n *Network
}

// Accept is net.Listener's.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.n.silent.Store(c.RemoteAddr().String(), nil)
	return &accepted{Conn: c, n: l.n}, nil
}

// accepted is a connection of another process.
type accepted struct {
	net.Conn
	n *Network
}

// ByMember implements Certified.
func (c *accepted) ByMember() bool {
	on, ok := c.Conn.(Certified)
	return ok && on.ByMember()
}

// Close is net.Conn's.
func (c *accepted) Close() error {
	if _, silent := c.n.silent.LoadAndDelete(c.RemoteAddr().String()); silent && c.n.ctx.Err() == nil {
		c.n.refused(c.RemoteAddr(), errSilent)
	}
	return c.Conn.Close()
}
