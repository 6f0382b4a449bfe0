package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
)

const (
	// KeyBytes is the length of every key.
	KeyBytes = 32
	// StoreIDBytes is the length of a StoreID.
	StoreIDBytes = 16
	nonceBytes   = 12
	tagBytes     = 16

	// HeaderBytes is the length of a file's header: magic, kind, whether the name counts, two
	// zeros, and the file's key, wrapped.
	HeaderBytes = len(magic) + 4 + nonceBytes + KeyBytes + tagBytes
	magic       = "mayfly sealed 1\n"
)

// Key is a key of AES-256.
type Key []byte

// StoreID tells the files of one directory from those of another.
type StoreID [StoreIDBytes]byte

// NewKey makes a random key.
func NewKey() Key { return random(KeyBytes) }

// NewStoreID makes a random id.
func NewStoreID() StoreID { return StoreID(random(StoreIDBytes)) }

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it never fails
	return b
}

func (k Key) aead() (cipher.AEAD, error) {
	b, err := aes.NewCipher(k)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(b)
}

// wrap encrypts a key with this one; with is authenticated along with it. Under one key, 2^32
// others may be wrapped.
func (k Key) wrap(other Key, with []byte) ([]byte, error) {
	a, err := k.aead()
	if err != nil {
		return nil, err
	}
	nonce := random(nonceBytes)
	return a.Seal(nonce, nonce, other, with), nil
}

// errWrapped is the error of a wrapped key that does not open.
var errWrapped = errors.New("the wrapped key does not open")

// unwrap undoes wrap.
func (k Key) unwrap(wrapped, with []byte) (Key, error) {
	a, err := k.aead()
	if err != nil {
		return nil, err
	}
	if len(wrapped) != nonceBytes+KeyBytes+tagBytes {
		return nil, errWrapped
	}
	other, err := a.Open(nil, wrapped[:nonceBytes], wrapped[nonceBytes:], with)
	if err != nil {
		return nil, errWrapped
	}
	return other, nil
}

// Kind is how the bytes of a file lie behind its header.
type Kind byte

// The kinds.
const (
	KindBlocks  Kind = 1 // Blocks
	KindSlots   Kind = 2 // Blocks of which each is written over by itself
	KindRecords Kind = 3 // Records
)

// NewHeader makes a key for a file and its header. name is what the file must be called, "" if
// that may change.
func NewHeader(store Key, id StoreID, kind Kind, name string) (Key, []byte, error) {
	file := NewKey()
	h := append([]byte(magic), byte(kind), 0, 0, 0)
	if name != "" {
		h[len(magic)+1] = 1
	}
	wrapped, err := store.wrap(file, headerData(h, id, name))
	return file, append(h, wrapped...), err
}

// ErrHeader is the error of a header that does not open.
var ErrHeader = errors.New("its header does not open: it was changed, or the file is another one's, or of another directory")

// OpenHeader returns the key of a file that has such a header. Errors: ErrHeader.
func OpenHeader(store Key, id StoreID, kind Kind, name string, header []byte) (Key, error) {
	if len(header) != HeaderBytes || !IsSealed(header) || header[len(magic)] != byte(kind) {
		return nil, ErrHeader
	}
	h := header[:len(magic)+4]
	if h[len(magic)+1] == 0 {
		name = ""
	}
	key, err := store.unwrap(header[len(h):], headerData(h, id, name))
	if err != nil {
		return nil, ErrHeader
	}
	return key, nil
}

// headerData is what is authenticated with a file's key.
func headerData(h []byte, id StoreID, name string) []byte {
	return append(append(append([]byte(nil), h...), id[:]...), name...)
}

// IsSealed reports whether bytes at the beginning of a file are a header's.
func IsSealed(b []byte) bool { return len(b) >= len(magic) && string(b[:len(magic)]) == magic }

// nonces makes nonces of which none comes twice under one key: eight random bytes, and a
// number. Whoever writes to a file takes others.
type nonces struct {
	prefix [8]byte
	number uint32
}

func (n *nonces) next(dst []byte) {
	if n.number++; n.number <= 1 {
		copy(n.prefix[:], random(len(n.prefix)))
		n.number = 1
	}
	copy(dst, n.prefix[:])
	binary.BigEndian.PutUint32(dst[len(n.prefix):], n.number)
}
