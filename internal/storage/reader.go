package storage

import (
	"errors"
	"io"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Reader reads one state of the store. Engine reads the latest at each call, a
// Snapshot always the same one, a Unit the latest with its own writes on top.
type Reader interface {
	// Get returns the value of key, or ErrNotFound. The value is valid until
	// the closer is closed, which the caller must do where err is nil.
	Get(id Ident, key []byte) (value []byte, closer io.Closer, err error)
	// NewIter opens an iterator over the keys k with lower <= k < upper of the
	// keyspace; nil bounds stand for its ends. The bounds are copied. The
	// iterator keeps the state of the moment it was opened.
	NewIter(id Ident, lower, upper []byte) (*Iter, error)
}

var (
	// ErrNotFound says that a key has no value.
	ErrNotFound = errors.New("storage: not found")
	// ErrCorruption marks errors that come from damaged bytes on disk: code 301.
	ErrCorruption error = mongoerr.New(mongoerr.DataCorruptionDetected, "storage: corruption")
	// ErrLockBusy says that a lock is another unit's, and that waiting for it
	// could deadlock: commit or abort this unit, and try again on a new one.
	ErrLockBusy = errors.New("storage: lock is held by another unit")
)

// mapError turns Pebble's errors into the package's.
func mapError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pebble.ErrNotFound):
		return ErrNotFound
	case errors.Is(err, ErrCorruption):
		return err
	case pebble.IsCorruptionError(err):
		return corruption(err)
	}
	return err
}

// getter is the part of a Pebble reader that Get needs.
type getter interface {
	Get(key []byte) ([]byte, io.Closer, error)
}

// keyBuffers pools the memory in which get builds a key; Pebble does not keep
// it.
var keyBuffers = sync.Pool{New: func() any { return new([]byte) }}

func get(g getter, id Ident, key []byte) ([]byte, io.Closer, error) {
	buf := keyBuffers.Get().(*[]byte)
	*buf = appendKey((*buf)[:0], id, key)
	v, c, err := g.Get(*buf)
	keyBuffers.Put(buf)
	if err != nil {
		return nil, nil, mapError(err)
	}
	return v, c, nil
}

// Get is Reader's Get on the latest state.
func (e *Engine) Get(id Ident, key []byte) ([]byte, io.Closer, error) { return get(e.db, id, key) }

// NewIter is Reader's NewIter on the latest state.
func (e *Engine) NewIter(id Ident, lower, upper []byte) (*Iter, error) {
	return newIter(e.db, id, lower, upper)
}
