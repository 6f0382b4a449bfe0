package seal

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Master wraps the store key of a directory.
type Master interface {
	// ID tells one master key from another, and nothing about it.
	ID() string
	// Wrap and Unwrap encrypt a store key and undo that; id is authenticated along with it
	// where the key is here.
	Wrap(store Key, id StoreID) ([]byte, error)
	Unwrap(wrapped []byte, id StoreID) (Key, error)
}

// ParseKey reads a key in base64.
func ParseKey(text string) (Key, error) {
	k, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil || len(k) != KeyBytes {
		return nil, fmt.Errorf("it has no key: %d bytes in base64, as openssl rand -base64 %d makes them", KeyBytes, KeyBytes)
	}
	return k, nil
}

// KeyMaster is a master key that is here.
type KeyMaster Key

// ID implements Master.
func (m KeyMaster) ID() string {
	sum := sha256.Sum256(append([]byte("mayfly master key"), m...))
	return hex.EncodeToString(sum[:8])
}

// Wrap implements Master.
func (m KeyMaster) Wrap(store Key, id StoreID) ([]byte, error) { return Key(m).wrap(store, id[:]) }

// Unwrap implements Master.
func (m KeyMaster) Unwrap(wrapped []byte, id StoreID) (Key, error) {
	return Key(m).unwrap(wrapped, id[:])
}

// Lock is what a directory keeps of its keys: who it is, and the store key, wrapped. Mac is that
// of the rest under the store key.
type Lock struct {
	Format    int    `json:"format"`
	Store     []byte `json:"store"`
	MasterKey string `json:"masterKey"` // Master.ID
	StoreKey  []byte `json:"storeKey"`
	Mac       []byte `json:"mac"`
	Copy      bool   `json:"copy,omitempty"` // it is the second one of the directory
}

const lockFormat = 1

// NewLock makes what is kept of a store key.
func NewLock(store Key, id StoreID, m Master) (*Lock, error) {
	wrapped, err := m.Wrap(store, id)
	if err != nil {
		return nil, err
	}
	l := &Lock{Format: lockFormat, Store: id[:], MasterKey: m.ID(), StoreKey: wrapped}
	l.Mac = l.mac(store)
	return l, nil
}

func (l *Lock) mac(store Key) []byte {
	h := hmac.New(sha256.New, store)
	fmt.Fprintf(h, "mayfly lock\n%d\n%x\n%q\n%x\n", l.Format, l.Store, l.MasterKey, l.StoreKey)
	return h.Sum(nil)
}

// Encode is the lock as text, or its copy.
func (l *Lock) Encode(asCopy bool) []byte {
	c := *l
	c.Copy = asCopy
	b, _ := json.MarshalIndent(&c, "", "  ") // of strings and numbers, which never fails
	return append(b, '\n')
}

// Equal reports whether two are the same, or one is the other's copy.
func (l *Lock) Equal(other *Lock) bool { return bytes.Equal(l.Encode(false), other.Encode(false)) }

// The errors of a Lock.
var (
	// ErrLockDamaged says that it is none, or was changed.
	ErrLockDamaged = errors.New("it cannot be read: it is damaged")
	// ErrOtherMaster says that another master key has wrapped the store key.
	ErrOtherMaster = errors.New("another master key is needed")
	// ErrUnopened says one of both: a CommandMaster does not tell.
	ErrUnopened = errors.New("what the program answers is not the store key: it has another master key, or what it was given is damaged")
)

// DecodeLock reads a lock. Errors: ErrLockDamaged.
func DecodeLock(b []byte) (*Lock, error) {
	l := &Lock{}
	switch err := json.Unmarshal(b, l); {
	case err != nil || len(l.Store) != StoreIDBytes:
		return nil, ErrLockDamaged
	case l.Format > lockFormat:
		return nil, fmt.Errorf("it has format %d, written by a newer version; this one reads up to %d", l.Format, lockFormat)
	case l.Format != lockFormat:
		return nil, ErrLockDamaged
	}
	return l, nil
}

// Open returns the store key. Errors: ErrOtherMaster, ErrLockDamaged, ErrUnopened, and those of the
// master.
func (l *Lock) Open(m Master) (Key, StoreID, error) {
	id := StoreID(l.Store)
	if l.MasterKey != m.ID() {
		return nil, id, fmt.Errorf("%w: %s, and %s was given", ErrOtherMaster, l.MasterKey, m.ID())
	}
	store, err := m.Unwrap(l.StoreKey, id)
	if errors.Is(err, errWrapped) {
		return nil, id, ErrLockDamaged
	}
	if err != nil {
		return nil, id, err
	}
	if len(store) != KeyBytes || !hmac.Equal(l.Mac, l.mac(store)) {
		if _, ok := m.(CommandMaster); ok {
			return nil, id, ErrUnopened
		}
		return nil, id, ErrLockDamaged
	}
	return store, id, nil
}
