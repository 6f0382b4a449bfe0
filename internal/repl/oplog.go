package repl

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/oplog"
	"github.com/mayflydb/mayfly/internal/storage"
	"go.etcd.io/raft/v3/raftpb"
)

// The oplog is a view of the applied part of the log (docs/rfcs/0020-oplog.md).

// firstNote is the note of the entry that a new primary writes before it takes
// writes.
func firstNote(term uint64) []byte {
	if term == founded.Term+1 {
		return oplog.Note("initiating set")
	}
	return oplog.Note("new primary")
}

// oplogView is the oplog of a member, for its catalog.
type oplogView struct{ m *Member }

// Arrivals implements catalog.Virtual.
func (v oplogView) Arrivals() <-chan struct{} { return v.m.replica.arrivals.Next() }

// KeyField implements catalog.Virtual.
func (oplogView) KeyField() string { return "ts" }

// Size implements catalog.Virtual.
func (v oplogView) Size() (entries, bytes, most int64) {
	if v.m.replica == nil { // it is being opened
		return 0, 0, int64(v.m.o.Window.Bytes)
	}
	s := v.m.replica.State()
	return int64(s.Applied.Index - s.Base.Index), int64(s.LogBytes), int64(v.m.Window().Bytes)
}

// Oldest returns the time of the oldest document in the oplog, the earliest from
// which one can read. It is zero if there is none. Errors: those of the disk.
func (m *Member) Oldest() (Timestamp, error) {
	it, err := oplogView{m}.Walk(nil, nil)
	if err != nil {
		return 0, err
	}
	defer it.Close()
	if !it.First() {
		return 0, it.Err()
	}
	return Timestamp(binary.BigEndian.Uint64(it.Key())), nil
}

// Gone implements catalog.Virtual. The base is the stored one: what the replica tells of it is
// as old as its last round, and a walk may already miss what the next one has truncated.
func (v oplogView) Gone(key []byte) (bool, error) {
	if len(key) < 8 {
		return false, nil
	}
	base, err := storedBase(v.m.catalog.Engine(), v.m.store.opts.Group)
	return Timestamp(binary.BigEndian.Uint64(key)) <= base.Time, err
}

// Walk implements catalog.Virtual.
func (v oplogView) Walk(lower, upper []byte) (*storage.Iter, error) {
	w, err := v.walk(bound(lower, 0), bound(upper, math.MaxUint64))
	if err != nil {
		return nil, err
	}
	return storage.IterOf(w), nil
}

// walk opens a walk of the documents whose times are from one on and below another one.
func (v oplogView) walk(lower, upper uint64) (*oplogWalk, error) {
	e, group := v.m.catalog.Engine(), v.m.store.opts.Group
	last := e.Applied()
	w := &oplogWalk{snapshot: e.NewSnapshot(), last: last, group: group, lower: lower, upper: upper}
	var err error
	if w.it, err = w.snapshot.NewIter(storage.IdentRaft, groupKey(group, keyEntry), entryKey(group, last+1)); err != nil {
		w.snapshot.Close()
		return nil, err
	}
	if w.it.First() {
		w.first = indexOf(w.it.Key())
	}
	return w, nil
}

// errBegunLate ends a walk from a time on that is before the end of a chain whose beginning was
// truncated. Between the parts of a chain there may be other entries: that these are there does
// not say that all behind them is.
var errBegunLate = mongoerr.New(mongoerr.CappedPositionLost, "the log no longer has the beginning of an entry that is behind the time from which on it is read")

// bound returns the least time whose key is not below a key.
func bound(key []byte, none uint64) uint64 {
	if key == nil {
		return none
	}
	var b [8]byte
	t := uint64(0)
	if copy(b[:], key) < len(key) {
		t = 1 // it is longer
	}
	return t + binary.BigEndian.Uint64(b[:])
}

func indexOf(key []byte) uint64 { return binary.BigEndian.Uint64(key[len(key)-8:]) }

// oplogWalk walks the documents of entries in one state of the store: those whose
// times are from lower on and below upper.
type oplogWalk struct {
	snapshot    *storage.Snapshot
	it          *storage.Iter // over the log
	group       Number
	first, last uint64 // indexes of entries; first is 0 if there are none
	lower       uint64
	upper       uint64

	entry oplog.Entry // the current entry; unless own is set, it shares the bytes of the iterator
	own   bool
	bytes int // of the last chain
	i     int // the current document of the entry
	valid bool
	key   [8]byte
	b     bson.Builder
	err   error
}

// timed returns a stored entry that has a time; ok is false for one of raft's own.
func timed(v []byte) (e entry, term uint64, ok bool, err error) {
	if len(v) < storedHead {
		return e, 0, false, fmt.Errorf("%w: a log entry is truncated", storage.ErrCorruption)
	}
	data := v[storedHead:]
	if t := raftpb.EntryType(v[0]); t != raftpb.EntryNormal {
		if data, err = entryData(&raftpb.Entry{Type: t.Enum(), Data: data}); err != nil {
			return e, 0, false, err
		}
	}
	if len(data) == 0 {
		return e, 0, false, nil
	}
	e, err = decodeEntry(data)
	return e, binary.BigEndian.Uint64(v[1:]), err == nil, err
}

// fail ends the walk with an error.
func (w *oplogWalk) fail(err error) bool {
	if w.err == nil {
		w.err = err
	}
	w.valid = false
	return false
}

// load makes the entry at the iterator the current one.
func (w *oplogWalk) load() bool {
	v, err := w.it.Value()
	if err == nil {
		err = w.decode(v)
	}
	if err != nil {
		return w.fail(err)
	}
	return true
}

// decode makes a stored entry the current one.
func (w *oplogWalk) decode(v []byte) error {
	if w.own {
		v = bytes.Clone(v)
	}
	e, term, ok, err := timed(v)
	if err != nil {
		return err
	}
	w.entry = oplog.Entry{Time: uint64(e.time), Term: term}
	if !ok || e.term != term { // it changes nothing (invariant own-term)
		return nil
	}
	switch e.kind {
	case kindNoop:
		if w.entry.Note = bson.Doc(e.payload); len(e.payload) == 0 {
			w.entry.Note = oplog.Note("periodic noop")
		}
	case kindConfig:
		c, err := ParseConfig(bytes.Clone(e.payload))
		if err != nil {
			return err
		}
		w.entry.Note = new(bson.Builder).String("msg", "Reconfig set").Int64("version", int64(c.Version)).Finish()
	case kindLast:
		if e.payload, err = readChain(w.snapshot, w.group, e.payload); errors.Is(err, errChainCut) && !w.own {
			if w.lower > 0 {
				return errBegunLate
			}
			return nil // the oplog begins after it
		}
		if err != nil {
			return err
		}
		w.bytes = len(e.payload)
		fallthrough
	case kindEffect:
		var all []catalog.Operation
		if all, w.entry.Session, err = catalog.DecodeOperations(e.payload); err != nil {
			return err
		}
		w.entry.SetOperations(all)
	}
	return nil
}

// at moves the walk to a document of the current entry, if that is within the
// bounds.
func (w *oplogWalk) at(i int) bool {
	t := w.entry.At(i)
	w.i, w.valid = i, t >= w.lower && t < w.upper
	binary.BigEndian.PutUint64(w.key[:], t)
	return w.valid
}

// find makes the next entry with documents, from the iterator's position on, the
// current one, if there is one.
func (w *oplogWalk) find(there bool, step func() bool) bool {
	w.valid = false
	for ; there && w.err == nil; there = step() {
		if w.load() && w.entry.Len() > 0 {
			return true
		}
	}
	return false
}

// seek moves the iterator to the first entry with a time that is not below t:
// times rise with the index (invariant time-rises).
func (w *oplogWalk) seek(t uint64) (there bool) {
	if w.first == 0 {
		return false
	}
	lo, hi := w.first, w.last+1
	for lo < hi {
		mid := lo + (hi-lo)/2
		j, at := uint64(0), uint64(0)
		for ok := w.it.SeekGE(entryKey(w.group, mid)); ok && j == 0; ok = w.it.Next() {
			if indexOf(w.it.Key()) >= hi {
				break
			}
			v, err := w.it.Value()
			if err != nil {
				return w.fail(err)
			}
			e, _, timed, err := timed(v)
			if err != nil {
				return w.fail(err)
			}
			if timed {
				j, at = indexOf(w.it.Key()), uint64(e.time)
			}
		}
		if j == 0 || at >= t {
			hi = mid
		} else {
			lo = j + 1
		}
	}
	return w.it.SeekGE(entryKey(w.group, lo))
}

// First implements storage.Walk.
func (w *oplogWalk) First() bool { return w.seekTime(w.lower) }

// Last implements storage.Walk.
func (w *oplogWalk) Last() bool { return w.seekBefore(w.upper) }

// SeekGE implements storage.Walk.
func (w *oplogWalk) SeekGE(key []byte) bool { return w.seekTime(max(w.lower, bound(key, 0))) }

// SeekLT implements storage.Walk.
func (w *oplogWalk) SeekLT(key []byte) bool { return w.seekBefore(min(w.upper, bound(key, 0))) }

// seekTime moves to the first document that is not before t.
func (w *oplogWalk) seekTime(t uint64) bool {
	if !w.find(w.seek(t), w.it.Next) {
		return false
	}
	i := 0
	if first := w.entry.At(0); t > first {
		i = int(t - first)
	}
	return w.at(i)
}

// seekBefore moves to the last document that is before t.
func (w *oplogWalk) seekBefore(t uint64) bool {
	there := w.seek(t)
	if there && w.find(true, w.it.Next) && w.entry.At(0) < t {
		i := w.entry.Len() - 1
		if last := w.entry.At(i); last >= t {
			i -= int(last - t + 1)
		}
		return w.at(i)
	}
	if there {
		there = w.seek(t) && w.it.Prev()
	} else {
		there = w.err == nil && w.it.Last()
	}
	return w.find(there, w.it.Prev) && w.at(w.entry.Len()-1)
}

// Next implements storage.Walk.
func (w *oplogWalk) Next() bool {
	switch {
	case !w.valid:
		return false
	case w.i+1 < w.entry.Len():
		return w.at(w.i + 1)
	}
	return w.find(w.it.Next(), w.it.Next) && w.at(0)
}

// Prev implements storage.Walk.
func (w *oplogWalk) Prev() bool {
	switch {
	case !w.valid:
		return false
	case w.i > 0:
		return w.at(w.i - 1)
	}
	return w.find(w.it.Prev(), w.it.Prev) && w.at(w.entry.Len()-1)
}

// Valid implements storage.Walk.
func (w *oplogWalk) Valid() bool { return w.valid }

// Key implements storage.Walk: it is the time.
func (w *oplogWalk) Key() []byte { return w.key[:] }

// Value implements storage.Walk.
func (w *oplogWalk) Value() ([]byte, error) { return w.entry.Document(&w.b, w.i), nil }

// Err implements storage.Walk.
func (w *oplogWalk) Err() error {
	if w.err != nil {
		return w.err
	}
	return w.it.Err()
}

// Close implements storage.Walk.
func (w *oplogWalk) Close() error {
	err := w.it.Close()
	w.snapshot.Close()
	return err
}
