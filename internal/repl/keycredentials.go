package repl

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"google.golang.org/grpc/credentials"
)

// Members that share a key prove to each other that they have it before anything else
// is sent on a connection:
//
//	client: KeyPreface, nonce c, whose end names the key that it would use
//	server: nonce s, HMAC-SHA-256(key, "server" c s)
//	client: HMAC-SHA-256(key, "client" c s)
//
// A process has two keys while one takes the other's place. The server uses the one that is
// named, or its first; the client takes whichever of its own the server has proved, and goes on
// with that. c ends with the first bytes of HMAC-SHA-256(key, "hint" and what comes before):
// who knows no hints sees a nonce.
//
// What follows is plain HTTP/2: the key keeps strangers out, and encrypts nothing.

// KeyPreface are the first bytes of such a connection. As a message length in MongoDB's
// protocol it would be 826,033,741 bytes, which is not allowed.
const KeyPreface = "MFK1"

const (
	keyNonce = 32
	keyHint  = 8 // of the nonce, at its end
	// keyTimeout bounds the proof.
	keyTimeout = 10 * time.Second
)

// Errors of a proof.
var (
	errKey     = errors.New("the other process has another key (keyFile)")
	errNoProof = errors.New("the other process ended the connection during the proof of the key: it has another key (keyFile), or none")
	errNoKey   = errors.New("the other process has no key (keyFile), and this one has one")
)

// KeyCredentials returns the credentials of members that share a key.
func KeyCredentials(keys ...string) credentials.TransportCredentials { return newKeys(keys) }

type keyCredentials struct{ keys [][]byte } // the first is the one to use

func newKeys(keys []string) (k keyCredentials) {
	for _, key := range keys {
		k.keys = append(k.keys, []byte(key))
	}
	return k
}

// keyInfo says that the peer has proved that it has the key.
type keyInfo struct{ credentials.CommonAuthInfo }

// AuthType implements credentials.AuthInfo.
func (keyInfo) AuthType() string { return "key" }

func proof(key []byte, of string, c, s []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(of))
	h.Write(c)
	h.Write(s)
	return h.Sum(nil)
}

// hint is the end of a nonce that names a key.
func hint(key, nonce []byte) []byte {
	return proof(key, "hint", nonce[:keyNonce-keyHint], nil)[:keyHint]
}

// named returns the key that a client's nonce names, or the first.
func (k keyCredentials) named(nonce []byte) []byte {
	for _, key := range k.keys {
		if hmac.Equal(hint(key, nonce), nonce[keyNonce-keyHint:]) {
			return key
		}
	}
	return k.keys[0]
}

// proved returns the key that the server has proved to have, nil if it is none of these.
func (k keyCredentials) proved(c, s, mac []byte) []byte {
	for _, key := range k.keys {
		if hmac.Equal(mac, proof(key, "server", c, s)) {
			return key
		}
	}
	return nil
}

// ClientHandshake implements TransportCredentials.
func (k keyCredentials) ClientHandshake(ctx context.Context, _ string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	end := time.Now().Add(keyTimeout)
	if at, ok := ctx.Deadline(); ok && at.Before(end) {
		end = at
	}
	return k.shake(conn, end, func() error {
		c := make([]byte, keyNonce)
		if _, err := rand.Read(c); err != nil {
			return err
		}
		copy(c[keyNonce-keyHint:], hint(k.keys[0], c))
		if _, err := conn.Write(append([]byte(KeyPreface), c...)); err != nil {
			return err
		}
		answer := make([]byte, keyNonce+sha256.Size)
		if _, err := io.ReadFull(conn, answer); err != nil {
			return fmt.Errorf("%w: %w", errNoProof, err)
		}
		s := answer[:keyNonce]
		key := k.proved(c, s, answer[keyNonce:])
		if key == nil {
			return errKey
		}
		_, err := conn.Write(proof(key, "client", c, s))
		return err
	})
}

// ServerHandshake implements TransportCredentials.
func (k keyCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return k.shake(conn, time.Now().Add(keyTimeout), func() error {
		hello := make([]byte, len(KeyPreface)+keyNonce)
		if _, err := io.ReadFull(conn, hello[:len(KeyPreface)]); err != nil {
			return err
		}
		if !bytes.HasPrefix(hello, []byte(KeyPreface)) {
			return errNoKey
		}
		if _, err := io.ReadFull(conn, hello[len(KeyPreface):]); err != nil {
			return err
		}
		c, s := hello[len(KeyPreface):], make([]byte, keyNonce)
		if _, err := rand.Read(s); err != nil {
			return err
		}
		key := k.named(c)
		if _, err := conn.Write(append(bytes.Clone(s), proof(key, "server", c, s)...)); err != nil {
			return err
		}
		shown := make([]byte, sha256.Size)
		if _, err := io.ReadFull(conn, shown); err != nil {
			return fmt.Errorf("%w: %w", errNoProof, err)
		}
		if !hmac.Equal(shown, proof(key, "client", c, s)) {
			return errKey
		}
		return nil
	})
}

// shake runs one side of the proof, with a deadline.
func (k keyCredentials) shake(conn net.Conn, end time.Time, f func() error) (net.Conn, credentials.AuthInfo, error) {
	if err := conn.SetDeadline(end); err != nil {
		return nil, nil, err
	}
	if err := f(); err != nil {
		return nil, nil, err
	}
	return conn, keyInfo{credentials.CommonAuthInfo{SecurityLevel: credentials.NoSecurity}}, conn.SetDeadline(time.Time{})
}

// Info implements TransportCredentials.
func (keyCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "key"}
}

// Clone implements TransportCredentials.
func (k keyCredentials) Clone() credentials.TransportCredentials { return k }

// OverrideServerName implements TransportCredentials.
func (keyCredentials) OverrideServerName(string) error { return nil }
