package repl

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"google.golang.org/grpc/credentials"
)

// A connection that fails in its first bytes, because one of the processes has another
// key or none, is logged by both.

// Errors if only one of the processes has a key.
var (
	errUnknownKey = errors.New("the other process has a key (keyFile), and this one has none")
	errUnanswered = errors.New("the other process ended the connection without an answer: it may have a key (keyFile), and this one has none")
)

// denied logs that another process rejects this one, or cannot prove that it is a member.
func (n *Network) denied(host string, err error) {
	if n.denials.line(time.Now()) && n.ctx.Err() == nil {
		n.opts.Logger.Warn("replication: cannot connect to a member", "host", host, "error", err)
	}
}

// loggedCredentials are credentials whose failures are logged.
type loggedCredentials struct {
	credentials.TransportCredentials
	n *Network
}

// ClientHandshake implements TransportCredentials.
func (l loggedCredentials) ClientHandshake(ctx context.Context, host string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	var err error
	if l.n.opts.Encrypt != nil {
		conn, err = l.n.opts.Encrypt(ctx, host, conn)
	}
	c, info := conn, credentials.AuthInfo(nil)
	if err == nil {
		c, info, err = l.TransportCredentials.ClientHandshake(ctx, host, conn)
	}
	if err != nil && ctx.Err() == nil {
		l.n.denied(host, err)
	}
	return c, info, err
}

// ServerHandshake implements TransportCredentials.
func (l loggedCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := l.TransportCredentials.ServerHandshake(conn)
	if err != nil && l.n.ctx.Err() == nil {
		l.n.silent.Delete(conn.RemoteAddr().String()) // a more specific error
		l.n.refused(conn.RemoteAddr(), err)
	}
	return c, info, err
}

// Clone implements TransportCredentials.
func (l loggedCredentials) Clone() credentials.TransportCredentials {
	return loggedCredentials{l.TransportCredentials.Clone(), l.n}
}

// keyless are the credentials of members without a key. They detect a process that has a
// key.
type keyless struct {
	credentials.TransportCredentials
	n *Network
}

// ClientHandshake implements TransportCredentials. A process that has a key ends the
// connection when it has read the first bytes.
func (k keyless) ClientHandshake(ctx context.Context, host string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return k.TransportCredentials.ClientHandshake(ctx, host, &unanswered{Conn: conn, n: k.n, host: host})
}

// ServerHandshake implements TransportCredentials.
func (k keyless) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	first := make([]byte, len(KeyPreface))
	n, err := io.ReadFull(conn, first)
	switch {
	case string(first) == KeyPreface:
		return nil, nil, errUnknownKey
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return nil, nil, errSilent
	}
	return k.TransportCredentials.ServerHandshake(&begun{conn, io.MultiReader(bytes.NewReader(first[:n]), conn)})
}

// Clone implements TransportCredentials.
func (k keyless) Clone() credentials.TransportCredentials {
	return keyless{k.TransportCredentials.Clone(), k.n}
}

// begun is a connection whose first bytes were peeked at.
type begun struct {
	net.Conn
	r io.Reader
}

// Read is io.Reader's.
func (b *begun) Read(p []byte) (int, error) { return b.r.Read(p) }

// unanswered is a connection to another process. It logs if that process closes it
// without a reply.
type unanswered struct {
	net.Conn
	n        *Network
	host     string
	answered bool // its reader's
}

// Read is io.Reader's.
func (u *unanswered) Read(p []byte) (int, error) {
	n, err := u.Conn.Read(p)
	// A process that has not read all of it resets the connection.
	if n == 0 && !u.answered && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)) {
		u.n.denied(u.host, errUnanswered)
	}
	u.answered = u.answered || n > 0
	return n, err
}
