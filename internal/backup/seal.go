package backup

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
)

// A sealed object is a salt, and pieces: the length of each, four bytes, big-endian, and what
// AES-256-GCM has made of up to pieceBytes. The key is derived from the salt, so that no two
// objects share one. The nonce has the piece's number and whether it is the last, so that a
// piece cannot be moved, repeated or left out.

const (
	keyBytes   = 32
	saltBytes  = 32
	pieceBytes = 64 << 10
)

// Key is the key of an encrypted repository.
type Key []byte

// ReadKey reads a file with a key: 32 bytes in base64.
func ReadKey(path string) (Key, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	key, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(b)))
	if err != nil || len(key) != keyBytes {
		return nil, fmt.Errorf("%s has no key: %d bytes in base64, as openssl rand -base64 %d makes them", path, keyBytes, keyBytes)
	}
	return key, nil
}

// derive returns another key for a purpose.
func (k Key) derive(salt []byte, purpose string) ([]byte, error) {
	return hkdf.Key(sha256.New, k, salt, "mayfly backup "+purpose, keyBytes)
}

// contentHash is the hash that names content: SHA-256, with a key its HMAC, as a name would
// else tell what two repositories have in common.
func (k Key) contentHash(repository string) (hash.Hash, error) {
	if k == nil {
		return sha256.New(), nil
	}
	name, err := k.derive([]byte(repository), "names")
	if err != nil {
		return nil, err
	}
	return hmac.New(sha256.New, name), nil
}

func (k Key) aead(salt []byte) (cipher.AEAD, error) {
	key, err := k.derive(salt, "object")
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

func nonce(number uint64, last bool) []byte {
	n := binary.BigEndian.AppendUint64(make([]byte, 0, 12), number)
	return append(n, map[bool]byte{true: 1}[last], 0, 0, 0)
}

// sealer seals what is written to it.
type sealer struct {
	w      io.Writer
	aead   cipher.AEAD
	number uint64
	piece  []byte
	out    []byte
}

// seal returns a writer of a sealed object, which must be closed.
func (k Key) seal(w io.Writer) (io.WriteCloser, error) {
	salt := make([]byte, saltBytes)
	_, _ = rand.Read(salt) // it never fails
	aead, err := k.aead(salt)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(salt); err != nil {
		return nil, err
	}
	return &sealer{w: w, aead: aead, piece: make([]byte, 0, pieceBytes)}, nil
}

// Write implements io.Writer. A piece is sealed when more follows, as the last one is marked.
func (s *sealer) Write(b []byte) (n int, err error) {
	for len(b) > 0 {
		if len(s.piece) == pieceBytes {
			if err := s.flush(false); err != nil {
				return n, err
			}
		}
		k := min(len(b), pieceBytes-len(s.piece))
		s.piece = append(s.piece, b[:k]...)
		b, n = b[k:], n+k
	}
	return n, nil
}

func (s *sealer) flush(last bool) error {
	s.out = binary.BigEndian.AppendUint32(s.out[:0], uint32(len(s.piece)+s.aead.Overhead()))
	s.out = s.aead.Seal(s.out, nonce(s.number, last), s.piece, nil)
	s.piece = s.piece[:0]
	s.number++
	_, err := s.w.Write(s.out)
	return err
}

// Close writes the last piece.
func (s *sealer) Close() error { return s.flush(true) }

// errSealed is the error of a sealed object that cannot be opened.
var errSealed = errors.New("it was changed or cut off, or another key has sealed it")

// opener reads a sealed object.
type opener struct {
	r      io.Reader
	aead   cipher.AEAD
	number uint64
	in     []byte
	piece  []byte // what is left of the current one
	last   bool
}

func (k Key) open(r io.Reader) (io.Reader, error) {
	salt := make([]byte, saltBytes)
	if _, err := io.ReadFull(r, salt); err != nil {
		return nil, errSealed
	}
	aead, err := k.aead(salt)
	return &opener{r: r, aead: aead}, err
}

// Read implements io.Reader.
func (o *opener) Read(b []byte) (int, error) {
	for len(o.piece) == 0 {
		if o.last {
			if n, err := o.r.Read(make([]byte, 1)); n > 0 || err != io.EOF {
				return 0, errSealed
			}
			return 0, io.EOF
		}
		if err := o.next(); err != nil {
			return 0, err
		}
	}
	n := copy(b, o.piece)
	o.piece = o.piece[n:]
	return n, nil
}

// next opens the next piece.
func (o *opener) next() error {
	var size [4]byte
	if _, err := io.ReadFull(o.r, size[:]); err != nil {
		return errSealed
	}
	n := int(binary.BigEndian.Uint32(size[:]))
	if n < o.aead.Overhead() || n > pieceBytes+o.aead.Overhead() {
		return errSealed
	}
	if cap(o.in) < n {
		o.in = make([]byte, pieceBytes+o.aead.Overhead())
	}
	if _, err := io.ReadFull(o.r, o.in[:n]); err != nil {
		return errSealed
	}
	for _, last := range []bool{false, true} { // it does not say which it is, but opens as one of them
		piece, err := o.aead.Open(nil, nonce(o.number, last), o.in[:n], nil)
		if err == nil {
			o.piece, o.last = piece, last
			o.number++
			return nil
		}
	}
	return errSealed
}
