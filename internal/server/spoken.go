package server

import (
	"errors"
	"io"
	"net"
	"strings"

	"github.com/mayflydb/mayfly/internal/repl"
)

// A client of the port of MongoDB's protocol is told by its first bytes: those
// of a message are its length, in binary, and no message is as long as letters
// would say.

// spoken is what the first bytes of a connection say.
type spoken int

const (
	// spokenMongo is MongoDB's protocol, and what is none.
	spokenMongo spoken = iota
	spokenHTTP
	// spokenHTTP2 is HTTP/2 without TLS, in which members of a replica set talk.
	spokenHTTP2
	// spokenKey is how members begin that share a key.
	spokenKey
)

// firstBytes is how many bytes tell protocols apart.
const firstBytes = 4

// httpMethods are the first bytes of HTTP's requests.
var httpMethods = []string{"GET ", "HEAD", "POST", "PUT ", "OPTI"}

// speaks tells a protocol by the first bytes of a connection.
func speaks(first []byte) spoken {
	text := string(first)
	switch text {
	case "PRI ":
		return spokenHTTP2
	case repl.KeyPreface:
		return spokenKey
	}
	for _, m := range httpMethods {
		if strings.HasPrefix(text, m) {
			return spokenHTTP
		}
	}
	return spokenMongo
}

// heard is a connection whose first bytes have been looked at, and are read
// still.
type heard struct {
	net.Conn
	first []byte
}

// hear waits for the first bytes of a connection. The error is that of reading
// where there is none of them; what ends behind a few is left to who reads.
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
