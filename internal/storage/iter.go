package storage

import (
	"github.com/cockroachdb/pebble/v2"
)

// Iter walks the keys of one keyspace in order, forward or backward. It starts
// unpositioned: First, Last, SeekGE or SeekLT position it. Not for use by
// several goroutines at once.
type Iter struct {
	it     *pebble.Iterator
	opts   pebble.IterOptions
	prefix int    // length of the ident, and of under, in front of the keys
	id     Ident  // the keyspace
	under  []byte // with which the keys that are walked begin in the keyspace, and which they are shown without
	view   *view  // whose iterator it is, or nil
	bounds []byte // backing of the bounds
	seek   []byte // backing of seek keys
	walk   Walk   // what is walked in the place of a keyspace, or nil
}

// Walk is something ordered that an Iter can walk in the place of a keyspace. The
// methods are those of Iter.
type Walk interface {
	First() bool
	Last() bool
	Next() bool
	Prev() bool
	SeekGE(key []byte) bool
	SeekLT(key []byte) bool
	Valid() bool
	Key() []byte
	Value() ([]byte, error)
	Err() error
	Close() error
}

// IterOf makes an iterator of a walk, which it takes over. Its bounds are final.
func IterOf(w Walk) *Iter { return &Iter{walk: w} }

// iterOpener is what newIter needs of a Pebble reader.
type iterOpener interface {
	NewIter(o *pebble.IterOptions) (*pebble.Iterator, error)
}

func newIter(r iterOpener, id Ident, lower, upper []byte) (*Iter, error) {
	it := &Iter{id: id, prefix: identLen(id)}
	it.setBounds(lower, upper)
	p, err := r.NewIter(&it.opts)
	if err != nil {
		return nil, mapError(err)
	}
	it.it = p
	return it, nil
}

// NewIterUnder opens an iterator over the keys of a keyspace that begin with a byte below ff,
// as if they were without it: so bounds and keys are.
func NewIterUnder(r Reader, id Ident, first byte, lower, upper []byte) (*Iter, error) {
	if upper == nil {
		upper = []byte{first + 1}
	} else {
		upper = append([]byte{first}, upper...)
	}
	it, err := r.NewIter(id, append([]byte{first}, lower...), upper)
	switch {
	case err != nil:
		return nil, err
	case it.walk != nil:
		return IterOf(&underWalk{it, []byte{first}}), nil
	}
	it.under = []byte{first}
	it.prefix++
	return it, nil
}

// underWalk is NewIterUnder where the iterator walks something else than a keyspace.
type underWalk struct {
	*Iter
	first []byte
}

func (w *underWalk) Key() []byte { return w.Iter.Key()[len(w.first):] }
func (w *underWalk) SeekGE(key []byte) bool {
	return w.Iter.SeekGE(append(w.first[:len(w.first):len(w.first)], key...))
}
func (w *underWalk) SeekLT(key []byte) bool {
	return w.Iter.SeekLT(append(w.first[:len(w.first):len(w.first)], key...))
}

func (it *Iter) setBounds(lower, upper []byte) {
	b, n := rangeBounds(it.bounds[:0], it.id, lower, upper)
	it.bounds = b
	it.opts.LowerBound, it.opts.UpperBound = b[:n:n], b[n:]
}

// SetBounds moves the iterator to another range of the same state and leaves it
// unpositioned; cheaper than a new iterator. Not of NewIterUnder.
func (it *Iter) SetBounds(lower, upper []byte) {
	if w, is := it.walk.(*laidWalk); is {
		w.setRange(it.id, lower, upper)
		return
	}
	it.setBounds(lower, upper)
	it.it.SetBounds(it.opts.LowerBound, it.opts.UpperBound)
}

// SetRange is SetBounds in another keyspace.
func (it *Iter) SetRange(id Ident, lower, upper []byte) {
	it.id, it.prefix = id, identLen(id)
	it.SetBounds(lower, upper)
}

func (it *Iter) seekKey(key []byte) []byte {
	it.seek = append(append(AppendIdent(it.seek[:0], it.id), it.under...), key...)
	return it.seek
}

// First moves to the lowest key and reports whether there is one.
func (it *Iter) First() bool {
	if it.walk != nil {
		return it.walk.First()
	}
	return it.it.First()
}

// Last moves to the highest key and reports whether there is one.
func (it *Iter) Last() bool {
	if it.walk != nil {
		return it.walk.Last()
	}
	return it.it.Last()
}

// Next moves to the next higher key and reports whether there is one.
func (it *Iter) Next() bool {
	if it.walk != nil {
		return it.walk.Next()
	}
	return it.it.Next()
}

// Prev moves to the next lower key and reports whether there is one.
func (it *Iter) Prev() bool {
	if it.walk != nil {
		return it.walk.Prev()
	}
	return it.it.Prev()
}

// SeekGE moves to the lowest key that is key or above it.
func (it *Iter) SeekGE(key []byte) bool {
	if it.walk != nil {
		return it.walk.SeekGE(key)
	}
	return it.it.SeekGE(it.seekKey(key))
}

// SeekLT moves to the highest key below key.
func (it *Iter) SeekLT(key []byte) bool {
	if it.walk != nil {
		return it.walk.SeekLT(key)
	}
	return it.it.SeekLT(it.seekKey(key))
}

// Valid reports whether the iterator stands on a key.
func (it *Iter) Valid() bool {
	if it.walk != nil {
		return it.walk.Valid()
	}
	return it.it.Valid()
}

// Key is the current key, without its ident; valid until the next move.
func (it *Iter) Key() []byte {
	if it.walk != nil {
		return it.walk.Key()
	}
	return it.it.Key()[it.prefix:]
}

// Value is the current value; valid until the next move.
func (it *Iter) Value() ([]byte, error) {
	if it.walk != nil {
		return it.walk.Value()
	}
	v, err := it.it.ValueAndErr()
	if err != nil {
		return nil, mapError(err)
	}
	return v, nil
}

// Err is the error that ended the walk, or nil at a true end.
func (it *Iter) Err() error {
	if it.walk != nil {
		return it.walk.Err()
	}
	return mapError(it.it.Error())
}

// Close releases the iterator and returns Err.
func (it *Iter) Close() error {
	if it.walk != nil {
		return it.walk.Close()
	}
	p := it.it
	it.it = nil
	if it.view != nil {
		return mapError(it.view.keep(p))
	}
	return mapError(p.Close())
}
