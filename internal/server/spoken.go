package server

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/mayflydb/mayfly/internal/repl"
	"github.com/mayflydb/mayfly/internal/wire/stream"
)

// The first bytes of a connection tell its protocol: a MongoDB message begins with its
// length in binary, and no message is as long as ASCII letters would mean.

// spoken is the protocol of a connection by its first bytes.
type spoken int

const (
	// spokenMongo is MongoDB's protocol, and everything unknown.
	spokenMongo spoken = iota
	spokenHTTP
	// spokenHTTP2 is HTTP/2 without TLS, in which members of a replica set talk.
	spokenHTTP2
	// spokenKey is the preface of members with a key file.
	spokenKey
	// spokenStreams are the connections of a process of a cluster on one socket.
	spokenStreams
)

// firstBytes is how many bytes tell protocols apart.
const firstBytes = 4

// httpMethods are the first bytes of HTTP's requests.
var httpMethods = []string{"GET ", "HEAD", "POST", "PUT ", "OPTI"}

// speaks detects the protocol by the first bytes of a connection.
func speaks(first []byte) spoken {
	text := string(first)
	switch text {
	case "PRI ":
		return spokenHTTP2
	case repl.KeyPreface:
		return spokenKey
	case stream.Preface:
		return spokenStreams
	}
	for _, m := range httpMethods {
		if strings.HasPrefix(text, m) {
			return spokenHTTP
		}
	}
	return spokenMongo
}

// heard is a connection whose first bytes have been peeked at, and are still to be read.
type heard struct {
	net.Conn
	first []byte
}

// The first bytes of TLS: the type of the record, and 3, 1 to 3 for its version (RFC 8446,
// section 5.1). A message of MongoDB's protocol may be as long as these bytes say, but has an
// operation code at an offset where a handshake has bytes chosen at random.
const (
	tlsHandshake   = 22
	tlsMajor       = 3
	tlsNewestMinor = 3
	headerBytes    = 16
	codeAt         = 12
	highestCode    = 1 << 12
)

// isTLS reports whether a connection begins with the handshake of TLS. It waits for more of it
// where its first bytes allow that. Errors: those of the connection.
func (h *heard) isTLS() (bool, error) {
	if len(h.first) < firstBytes || h.first[0] != tlsHandshake || h.first[1] != tlsMajor || h.first[2] == 0 || h.first[2] > tlsNewestMinor {
		return false, nil
	}
	more := make([]byte, headerBytes)
	n := copy(more, h.first)
	got, err := io.ReadFull(h.Conn, more[n:])
	h.first = more[:n+got]
	if err != nil {
		return false, err
	}
	return binary.LittleEndian.Uint32(more[codeAt:]) >= highestCode, nil
}

// hear waits for the first bytes of a connection. It returns an error if there are
// none; if only a few arrive, the reader gets the error.
func hear(nc net.Conn) (*heard, error) {
	first := make([]byte, firstBytes)
	n, err := io.ReadFull(nc, first)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	return &heard{nc, first[:n]}, nil
}

// Read is io.Reader's.
func (h *heard) Read(p []byte) (int, error) {
	if len(h.first) > 0 {
		n := copy(p, h.first)
		h.first = h.first[n:]
		return n, nil
	}
	return h.Conn.Read(p)
}
