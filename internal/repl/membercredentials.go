package repl

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// Certified is a connection that knows whether its other end has shown a member's
// certificate.
type Certified interface{ ByMember() bool }

// errNoCertificate is the error of a process without a key and without a certificate.
var errNoCertificate = errors.New("the other process has shown no certificate of a member (clusterAuthMode)")

// MemberCredentials returns the credentials of members that prove who they are by one of some keys, nil
// for none, by the certificates that they show in TLS, or, while a set goes from one to the other,
// by either; nil if by nothing. shows says that this process relies on its certificate.
func MemberCredentials(keys []string, byCertificate, shows bool) credentials.TransportCredentials {
	switch {
	case byCertificate:
		return memberCredentials{insecure.NewCredentials(), newKeys(keys), shows}
	case len(keys) > 0:
		return newKeys(keys)
	}
	return nil
}

// memberCredentials are those of members that have certificates, and perhaps a key.
type memberCredentials struct {
	credentials.TransportCredentials
	key   keyCredentials
	shows bool
}

// ClientHandshake implements TransportCredentials. A certificate was shown before it.
func (m memberCredentials) ClientHandshake(ctx context.Context, host string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if m.shows {
		return m.TransportCredentials.ClientHandshake(ctx, host, conn)
	}
	return m.key.ClientHandshake(ctx, host, conn)
}

// ServerHandshake implements TransportCredentials.
func (m memberCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	first := make([]byte, len(KeyPreface))
	n, err := io.ReadFull(conn, first)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, nil, errSilent
	}
	on := &begun{conn, io.MultiReader(bytes.NewReader(first[:n]), conn)}
	if string(first) == KeyPreface && len(m.key.keys) > 0 {
		return m.key.ServerHandshake(on)
	}
	if c, ok := conn.(Certified); !ok || !c.ByMember() {
		return nil, nil, errNoCertificate
	}
	return m.TransportCredentials.ServerHandshake(on)
}

// Clone implements TransportCredentials.
func (m memberCredentials) Clone() credentials.TransportCredentials {
	return memberCredentials{m.TransportCredentials.Clone(), m.key, m.shows}
}
