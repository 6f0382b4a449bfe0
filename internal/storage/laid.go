package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"

	"github.com/mayflydb/mayfly/internal/invariant"
)

// A layer is changes that lie over a state of the store. The newest state has Pebble's indexed
// batches for that; an earlier one has layers (docs/rfcs/0022-states-at-a-time.md).
type layer struct {
	below State
	// b has the changed keys, as the store has them. The first byte of a value says whether
	// there is one: laidGone, or laidValue and the value.
	b *pebble.Batch
}

const (
	laidGone byte = iota
	laidValue
)

// MaxLaid bounds the keys that are laid over a state.
const MaxLaid = 1 << 20

// ErrTooMuchLaid says that MaxLaid was reached.
var ErrTooMuchLaid = errors.New("storage: too much is laid over a state")

// NewIter implements iterOpener: the layer alone.
func (l layer) NewIter(o *pebble.IterOptions) (*pebble.Iterator, error) {
	return l.b.NewBatchOnlyIter(context.Background(), o)
}

// set stores a value under a key of the store.
func (l layer) set(key, value []byte) error {
	if l.b.Count() >= MaxLaid {
		return ErrTooMuchLaid
	}
	return l.b.Set(key, append([]byte{laidValue}, value...), nil)
}

// remove removes a key of the store.
func (l layer) remove(key []byte) error {
	if l.b.Count() >= MaxLaid {
		return ErrTooMuchLaid
	}
	return l.b.Set(key, []byte{laidGone}, nil)
}

// merge merges an operand into the value of a key of the store.
func (l layer) merge(key, operand []byte) error {
	id, rest, ok := cutIdent(key)
	if !ok {
		return fmt.Errorf("%w: not a key: %x", ErrCorruption, key)
	}
	v, closer, err := l.get(id, rest)
	if errors.Is(err, ErrNotFound) {
		return l.set(key, operand)
	}
	if err != nil {
		return err
	}
	m := valueMerger{value: bytes.Clone(v)}
	if err := errors.Join(closer.Close(), m.merge(operand)); err != nil {
		return err
	}
	return l.set(key, m.value)
}

// removeRange removes the keys k with lower <= k < upper of a keyspace.
func (l layer) removeRange(id Ident, lower, upper []byte) (err error) {
	it, err := l.newIter(id, lower, upper)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		if err := l.remove(appendKey(nil, id, it.Key())); err != nil {
			return err
		}
	}
	return it.Err()
}

// lay lays the writes of a batch over the state. Errors: ErrTooMuchLaid, ErrCorruption.
func (l layer) lay(repr []byte) error {
	if len(repr) < batchHeader {
		return nil
	}
	for r := batchrepr.Read(repr); ; {
		kind, key, value, ok, err := r.Next()
		if err != nil {
			return mapError(err)
		}
		if !ok {
			return nil
		}
		switch kind {
		case pebble.InternalKeyKindSet:
			err = l.set(key, value)
		case pebble.InternalKeyKindDelete, pebble.InternalKeyKindDeleteSized:
			err = l.remove(key)
		case pebble.InternalKeyKindMerge:
			err = l.merge(key, value)
		case pebble.InternalKeyKindRangeDelete:
			err = l.layRange(key, value)
		default:
			err = fmt.Errorf("%w: a batch has a write of kind %d", ErrCorruption, kind)
		}
		if err != nil {
			return err
		}
	}
}

// layRange removes the keys of the store from one on and below another one, which is in the
// same keyspace, or the first of the next.
func (l layer) layRange(from, to []byte) error {
	id, lower, ok := cutIdent(from)
	end, upper, good := cutIdent(to)
	if !ok || !good {
		return fmt.Errorf("%w: a batch removes from %x to %x", ErrCorruption, from, to)
	}
	if end != id {
		upper = nil
	}
	return l.removeRange(id, lower, upper)
}

// get is Reader's Get.
func (l layer) get(id Ident, key []byte) ([]byte, io.Closer, error) {
	if l.b.Empty() {
		return l.below.Get(id, key)
	}
	it, err := newIter(l, id, key, append(bytes.Clone(key), 0))
	if err != nil {
		return nil, nil, err
	}
	if !it.First() {
		if err := it.Close(); err != nil {
			return nil, nil, err
		}
		return l.below.Get(id, key)
	}
	v, err := it.Value()
	switch {
	case err != nil:
		return nil, nil, errors.Join(err, it.Close())
	case v[0] == laidGone:
		return nil, nil, errors.Join(ErrNotFound, it.Close())
	}
	return v[1:], it, nil
}

// newIter is Reader's NewIter: the state with what is laid over it by now.
func (l layer) newIter(id Ident, lower, upper []byte) (*Iter, error) {
	below, err := l.below.NewIter(id, lower, upper)
	if err != nil || l.b.Empty() {
		return below, err
	}
	top, err := newIter(l, id, lower, upper)
	if err != nil {
		return nil, errors.Join(err, below.Close())
	}
	return &Iter{walk: &laidWalk{top: top, below: below}, id: id}, nil
}

// laidWalk walks a state with a layer.
type laidWalk struct {
	top, below *Iter
	back       bool // the parts are positioned for going backward
	// onTop and onBelow say which parts have the current key; neither where there is none.
	onTop, onBelow bool
	key            []byte // memory
}

// setRange moves the walk to another range.
func (w *laidWalk) setRange(id Ident, lower, upper []byte) {
	w.top.SetRange(id, lower, upper)
	w.below.SetRange(id, lower, upper)
	w.onTop, w.onBelow = false, false
}

// settle finds the next key in the direction of the walk, from where the parts are.
func (w *laidWalk) settle() bool {
	for {
		w.onTop, w.onBelow = w.top.Valid(), w.below.Valid()
		if w.top.Err() != nil || w.below.Err() != nil {
			w.onTop, w.onBelow = false, false
			return false
		}
		if w.onTop && w.onBelow {
			c := bytes.Compare(w.top.Key(), w.below.Key())
			if w.back {
				c = -c
			}
			w.onTop, w.onBelow = c <= 0, c >= 0
		}
		if !w.onTop {
			return w.onBelow
		}
		v, err := w.top.Value()
		if err != nil {
			w.onTop, w.onBelow = false, false
			return false
		}
		if v[0] == laidValue {
			return true
		}
		w.leave()
	}
}

// leave moves the parts that have the current key on.
func (w *laidWalk) leave() {
	for _, p := range [...]struct {
		it *Iter
		on bool
	}{{w.top, w.onTop}, {w.below, w.onBelow}} {
		switch {
		case !p.on:
		case w.back:
			p.it.Prev()
		default:
			p.it.Next()
		}
	}
}

// both moves each part by itself, and finds the key.
func (w *laidWalk) both(back bool, move func(*Iter) bool) bool {
	move(w.top)
	move(w.below)
	w.back = back
	return w.settle()
}

// step moves to the next key in a direction.
func (w *laidWalk) step(back bool) bool {
	switch {
	case !w.Valid() && w.back == back:
		return false
	case !w.Valid() && back:
		return w.Last()
	case !w.Valid():
		return w.First()
	case w.back == back:
		w.leave()
		return w.settle()
	}
	w.key = append(w.key[:0], w.Key()...)
	if back {
		return w.SeekLT(w.key)
	}
	w.key = append(w.key, 0)
	return w.SeekGE(w.key)
}

// First and the others are Walk's.
func (w *laidWalk) First() bool { return w.both(false, (*Iter).First) }
func (w *laidWalk) Last() bool  { return w.both(true, (*Iter).Last) }
func (w *laidWalk) Next() bool  { return w.step(false) }
func (w *laidWalk) Prev() bool  { return w.step(true) }
func (w *laidWalk) Valid() bool { return w.onTop || w.onBelow }
func (w *laidWalk) SeekGE(k []byte) bool {
	return w.both(false, func(p *Iter) bool { return p.SeekGE(k) })
}
func (w *laidWalk) SeekLT(k []byte) bool {
	return w.both(true, func(p *Iter) bool { return p.SeekLT(k) })
}

func (w *laidWalk) Key() []byte {
	if w.onTop {
		return w.top.Key()
	}
	return w.below.Key()
}

func (w *laidWalk) Value() ([]byte, error) {
	if !w.onTop {
		return w.below.Value()
	}
	v, err := w.top.Value()
	if err != nil {
		return nil, err
	}
	return v[1:], nil
}

func (w *laidWalk) Err() error   { return errors.Join(w.top.Err(), w.below.Err()) }
func (w *laidWalk) Close() error { return errors.Join(w.top.Close(), w.below.Close()) }

// LaidState is an earlier state of the store with changes over it, which make it another one.
// Once it is shared, nothing more is laid.
type LaidState struct {
	layer
	at   uint64
	refs *atomic.Int32
	shut atomic.Bool
}

// LayOver begins a state over another one, of which it takes a reference of its own.
func (e *Engine) LayOver(below State) *LaidState {
	s := &LaidState{layer: layer{below: below.Share(), b: e.db.NewIndexedBatch()}, refs: new(atomic.Int32)}
	s.refs.Store(1)
	return s
}

// Lay lays the writes of a unit over the state, by its batch: they are those of the entry of
// the log with an index. Errors: ErrTooMuchLaid, ErrCorruption.
func (s *LaidState) Lay(batch []byte, index uint64) error {
	s.at = max(s.at, index)
	return s.lay(batch)
}

// Set stores a value.
func (s *LaidState) Set(id Ident, key, value []byte) error {
	return s.set(appendKey(nil, id, key), value)
}

// At says that the state has all up to an entry of the log.
func (s *LaidState) At(index uint64) { s.at = index }

// Size is the length of what is laid, in bytes.
func (s *LaidState) Size() int { return s.b.Len() }

// Get implements Reader.
func (s *LaidState) Get(id Ident, key []byte) ([]byte, io.Closer, error) { return s.get(id, key) }

// NewIter implements Reader.
func (s *LaidState) NewIter(id Ident, lower, upper []byte) (*Iter, error) {
	return s.newIter(id, lower, upper)
}

// Applied implements State.
func (s *LaidState) Applied() (uint64, error) {
	if s.at != 0 {
		return s.at, nil
	}
	return s.below.Applied()
}

// Share implements State. REQUIRES: s is not closed.
func (s *LaidState) Share() State {
	invariant.Check(!s.shut.Load(), "storage: a state is shared while it is open")
	s.refs.Add(1)
	return &LaidState{layer: s.layer, at: s.at, refs: s.refs}
}

// Close implements State.
func (s *LaidState) Close() error {
	if s.shut.Swap(true) || s.refs.Add(-1) > 0 {
		return nil
	}
	return mapError(errors.Join(s.b.Close(), s.below.Close()))
}
