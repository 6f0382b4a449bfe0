package repl

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/mayflydb/mayfly/internal/storage"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Log stores the entries and the hard state of a group. Its implementation can be
// replaced (docs/rfcs/0016-replication-engine.md). Its owner is the group's
// goroutine.
type Log interface {
	// HardState returns what Append stored last; nil if there is none. It belongs to
	// this member alone, like its vote (invariant own-vote).
	HardState() *raftpb.HardState
	// Base is the position of the last entry that was truncated; its time may be that
	// of an earlier one. Last is the index of the last entry, Base's where there is
	// none.
	Base() Position
	Last() uint64
	// Term is the term of an entry from Base to Last. Errors: raft's ErrCompacted
	// and ErrUnavailable, and the disk's.
	Term(index uint64) (uint64, error)
	// Entries returns entries from lo on and below hi: at least one, and then as many
	// as fit maxBytes. Errors: as for Term.
	Entries(lo, hi, maxBytes uint64) ([]*raftpb.Entry, error)
	// Append stores entries, which replace all from their first index on, and the hard
	// state where it is not nil, in one step. With sync it returns when they are on
	// disk, together with everything that this member has written before.
	Append(hard *raftpb.HardState, entries []*raftpb.Entry, sync bool) error
	// Truncate removes the entries up to and including index.
	Truncate(index uint64) error
}

// Number is the number of a group in keys and frames, as a process may host several.
type Number uint32

// The kinds of keys under storage.IdentRaft: group, kind, and for entries the index,
// integers big-endian. Those of this member alone never travel with a snapshot.
const (
	keyEntry    byte = 'e' // type, term, bytes of the log up to its end, data
	keyHard     byte = 'h' // a raftpb.HardState
	keyBase     byte = 'b' // position of the last truncated entry, bytes of the log up to its end
	keyIdentity byte = 'i' // raft id of this data directory
	keyState    byte = 's' // groupState: the same on all members
	keyPart     byte = 'p' // of a chain, by the index of its entry: term, bytes; the same on all members
)

func groupKey(group Number, kind byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(group)), kind)
}

func entryKey(group Number, index uint64) []byte {
	return binary.BigEndian.AppendUint64(groupKey(group, keyEntry), index)
}

// storedHead is the length of a stored entry's header: type, term, and the number of
// bytes of all stored entries since the set was founded, up to the end of this one.
const storedHead = 1 + 8 + 8

// maxCachedBytes bounds the entries that a log keeps in memory: followers that
// keep up need nothing else.
const maxCachedBytes = 16 << 20

// EngineLog is a group's Log in the same store as its data: one journal and one sync
// for both.
type EngineLog struct {
	e     *storage.Engine
	group Number
	hard  *raftpb.HardState
	base  Position // of the last truncated entry, Index and Term
	last  uint64
	// upToBase and upToLast are the bytes of the log up to the end of these two.
	upToBase, upToLast uint64
	cache              logCache
}

// OpenLog opens a group's log in a store. Errors: storage.ErrCorruption and the
// disk's.
func OpenLog(e *storage.Engine, group Number) (*EngineLog, error) {
	l := &EngineLog{e: e, group: group}
	if err := l.get(keyBase, func(v []byte) error {
		base, rest, ok := cutPosition(v)
		if !ok || len(rest) != 8 {
			return fmt.Errorf("%w: base of the log is %x", storage.ErrCorruption, v)
		}
		l.base, l.upToBase = base, binary.LittleEndian.Uint64(rest)
		return nil
	}); err != nil {
		return nil, err
	}
	if err := l.get(keyHard, func(v []byte) error {
		l.hard = &raftpb.HardState{}
		return proto.Unmarshal(v, l.hard)
	}); err != nil {
		return nil, err
	}
	l.last, l.upToLast = l.base.Index, l.upToBase
	snap := e.NewSnapshot()
	defer snap.Close()
	it, err := snap.NewIter(storage.IdentRaft, groupKey(group, keyEntry), groupKey(group, keyEntry+1))
	if err != nil {
		return nil, err
	}
	defer it.Close()
	if it.Last() {
		k := it.Key()
		l.last = binary.BigEndian.Uint64(k[len(k)-8:])
		v, err := it.Value()
		if err != nil {
			return nil, err
		}
		if l.upToLast, err = upTo(l.last, v); err != nil {
			return nil, err
		}
	}
	return l, it.Err()
}

// get reads one of the group's keys, if it is there.
func (l *EngineLog) get(kind byte, f func(v []byte) error) error {
	return getKey(l.e, groupKey(l.group, kind), f)
}

func getKey(e *storage.Engine, key []byte, f func(v []byte) error) error {
	u := e.Begin()
	defer u.Abort()
	v, closer, err := u.Get(storage.IdentRaft, key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer closer.Close()
	return f(v)
}

// HardState implements Log.
func (l *EngineLog) HardState() *raftpb.HardState { return l.hard }

// Base implements Log.
func (l *EngineLog) Base() Position { return l.base }

// Last implements Log.
func (l *EngineLog) Last() uint64 { return l.last }

// Term implements Log.
func (l *EngineLog) Term(index uint64) (uint64, error) {
	switch {
	case index == l.base.Index:
		return l.base.Term, nil
	case index < l.base.Index:
		return 0, raft.ErrCompacted
	case index > l.last:
		return 0, raft.ErrUnavailable
	}
	if e := l.cache.get(index); e != nil {
		return e.GetTerm(), nil
	}
	entries, err := l.read(index, index+1, 0)
	if err != nil {
		return 0, err
	}
	return entries[0].GetTerm(), nil
}

// Entries implements Log.
func (l *EngineLog) Entries(lo, hi, maxBytes uint64) ([]*raftpb.Entry, error) {
	if lo <= l.base.Index {
		return nil, raft.ErrCompacted
	}
	if hi > l.last+1 {
		return nil, raft.ErrUnavailable
	}
	if out := l.cache.slice(lo, hi, maxBytes); out != nil {
		return out, nil
	}
	return l.read(lo, hi, maxBytes)
}

// read reads entries from the store.
func (l *EngineLog) read(lo, hi, maxBytes uint64) (out []*raftpb.Entry, err error) {
	snap := l.e.NewSnapshot()
	defer snap.Close()
	it, err := snap.NewIter(storage.IdentRaft, entryKey(l.group, lo), entryKey(l.group, hi))
	if err != nil {
		return nil, err
	}
	defer it.Close()
	size, index := uint64(0), lo
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			return nil, err
		}
		k := it.Key()
		if len(v) < storedHead || binary.BigEndian.Uint64(k[len(k)-8:]) != index {
			return nil, fmt.Errorf("%w: log entry %d is missing or truncated", storage.ErrCorruption, index)
		}
		if size += uint64(len(v)); len(out) > 0 && size > maxBytes {
			return out, nil
		}
		out = append(out, storedEntry(index, v))
		index++
	}
	if err := it.Err(); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: log entry %d is missing", storage.ErrCorruption, lo)
	}
	return out, nil
}

// upTo returns the bytes of the log up to the end of a stored entry.
func upTo(index uint64, stored []byte) (uint64, error) {
	if len(stored) < storedHead {
		return 0, fmt.Errorf("%w: log entry %d is truncated", storage.ErrCorruption, index)
	}
	return binary.BigEndian.Uint64(stored[9:]), nil
}

// bytesUpTo returns the bytes of the log up to the end of an entry from Base to
// Last.
func (l *EngineLog) bytesUpTo(index uint64) (n uint64, err error) {
	switch index {
	case l.base.Index:
		return l.upToBase, nil
	case l.last:
		return l.upToLast, nil
	}
	found := false
	err = getKey(l.e, entryKey(l.group, index), func(v []byte) error {
		found = true
		n, err = upTo(index, v)
		return err
	})
	if err == nil && !found {
		err = fmt.Errorf("%w: log entry %d is missing", storage.ErrCorruption, index)
	}
	return n, err
}

// Bytes returns the size of the log: its entries as they are stored, without their
// keys.
func (l *EngineLog) Bytes() uint64 { return l.upToLast - l.upToBase }

// Excess returns the index of the last entry that is not needed for a log of that many
// bytes with all entries since a time; Base's index if there is none.
func (l *EngineLog) Excess(bytes uint64, since Timestamp) (uint64, error) {
	var failed error
	n := sort.Search(int(l.last-l.base.Index), func(i int) bool {
		index := l.base.Index + 1 + uint64(i)
		upTo, err := l.bytesUpTo(index)
		if err == nil && upTo+bytes <= l.upToLast { // it is before the last so many bytes
			var at Position
			if at, err = position(l, index); err == nil {
				return at.Time >= since
			}
		}
		failed = errors.Join(failed, err)
		return true
	})
	return l.base.Index + uint64(n), failed
}

// storedEntry decodes an entry as it is stored under its key.
func storedEntry(index uint64, v []byte) *raftpb.Entry {
	e := &raftpb.Entry{Index: &index, Type: raftpb.EntryType(v[0]).Enum(), Term: new(binary.BigEndian.Uint64(v[1:]))}
	if len(v) > storedHead {
		e.Data = slices.Clone(v[storedHead:])
	}
	return e
}

// Append implements Log. It writes even on a full disk: a member cannot refuse an entry
// that it has promised to store.
func (l *EngineLog) Append(hard *raftpb.HardState, entries []*raftpb.Entry, sync bool) error {
	u := l.e.Begin()
	defer u.Abort()
	last, size := l.last, l.upToLast
	if len(entries) > 0 {
		var err error
		if size, err = l.bytesUpTo(entries[0].GetIndex() - 1); err != nil {
			return err
		}
		last = entries[len(entries)-1].GetIndex()
		if l.last > last { // the conflicting tail is removed in the same step
			if err := u.DeleteRange(storage.IdentRaft, entryKey(l.group, last+1), entryKey(l.group, l.last+1)); err != nil {
				return err
			}
		}
	}
	for _, e := range entries {
		size += uint64(storedHead + len(e.GetData()))
		if err := u.SetFilled(storage.IdentRaft, entryKey(l.group, e.GetIndex()), storedHead+len(e.GetData()), func(v []byte) {
			v[0] = byte(e.GetType())
			binary.BigEndian.PutUint64(v[1:], e.GetTerm())
			binary.BigEndian.PutUint64(v[9:], size)
			copy(v[storedHead:], e.GetData())
		}); err != nil {
			return err
		}
	}
	if hard != nil {
		if err := setHard(u, l.group, hard); err != nil {
			return err
		}
	}
	u.Frees()
	d := storage.Buffered
	if sync {
		d = storage.Journaled
	}
	if err := u.Commit(context.Background(), d); err != nil {
		return err
	}
	if hard != nil {
		l.hard = hard
	}
	if len(entries) > 0 {
		l.last, l.upToLast = last, size
		l.cache.append(entries)
	}
	return nil
}

// position returns the position of an entry of a log. One of raft's own entries has
// the time of the entry before.
func position(l Log, index uint64) (Position, error) {
	term, err := l.Term(index)
	if err != nil {
		return Position{}, err
	}
	at := Position{Index: index, Term: term, Time: l.Base().Time}
	for i := index; i > l.Base().Index; i-- {
		entries, err := l.Entries(i, i+1, 0)
		if err != nil {
			return at, err
		}
		if t, ok := entryTime(entries[0]); ok {
			at.Time = t
			break
		}
	}
	return at, nil
}

func setHard(u *storage.Unit, group Number, hard *raftpb.HardState) error {
	v, err := proto.Marshal(hard)
	if err != nil {
		return err
	}
	return u.Set(storage.IdentRaft, groupKey(group, keyHard), v)
}

func setBase(u *storage.Unit, group Number, base Position, upTo uint64) error {
	return u.Set(storage.IdentRaft, groupKey(group, keyBase), binary.LittleEndian.AppendUint64(appendPosition(nil, base), upTo))
}

// Truncate implements Log.
func (l *EngineLog) Truncate(index uint64) error {
	if index <= l.base.Index {
		return nil
	}
	base, err := position(l, index)
	if err != nil {
		return err
	}
	upTo, err := l.bytesUpTo(index)
	if err != nil {
		return err
	}
	u := l.e.Begin()
	defer u.Abort()
	if err := u.DeleteRange(storage.IdentRaft, entryKey(l.group, l.base.Index), entryKey(l.group, index+1)); err != nil {
		return err
	}
	if err := setBase(u, l.group, base, upTo); err != nil {
		return err
	}
	u.Frees()
	if err := u.Commit(context.Background(), storage.Buffered); err != nil {
		return err
	}
	l.base, l.upToBase = base, upTo
	l.cache.truncate(index)
	return nil
}

// logCache holds the newest entries of a log, without gaps.
type logCache struct {
	entries []*raftpb.Entry
	bytes   int
}

func cachedSize(e *raftpb.Entry) int { return len(e.GetData()) + 64 }

func (c *logCache) get(index uint64) *raftpb.Entry {
	if len(c.entries) == 0 || index < c.entries[0].GetIndex() || index > c.entries[len(c.entries)-1].GetIndex() {
		return nil
	}
	return c.entries[index-c.entries[0].GetIndex()]
}

// slice returns entries as Log.Entries does; nil if it does not have them all.
func (c *logCache) slice(lo, hi, maxBytes uint64) (out []*raftpb.Entry) {
	if lo >= hi || c.get(lo) == nil || c.get(hi-1) == nil {
		return nil
	}
	size := uint64(0)
	for i := lo; i < hi; i++ {
		e := c.get(i)
		if size += uint64(len(e.GetData()) + storedHead); len(out) > 0 && size > maxBytes {
			break
		}
		out = append(out, e)
	}
	return out
}

// append adds entries, which replace all from their first index on.
func (c *logCache) append(entries []*raftpb.Entry) {
	first := entries[0].GetIndex()
	for n := len(c.entries); n > 0 && c.entries[n-1].GetIndex() >= first; n-- {
		c.bytes -= cachedSize(c.entries[n-1])
		c.entries[n-1] = nil
		c.entries = c.entries[:n-1]
	}
	if n := len(c.entries); n > 0 && c.entries[n-1].GetIndex()+1 != first {
		c.entries, c.bytes = nil, 0
	}
	for _, e := range entries {
		c.entries = append(c.entries, e)
		c.bytes += cachedSize(e)
	}
	drop := 0
	for ; c.bytes > maxCachedBytes && drop < len(c.entries)-1; drop++ {
		c.bytes -= cachedSize(c.entries[drop])
	}
	c.dropFirst(drop)
}

func (c *logCache) truncate(index uint64) {
	drop := 0
	for ; drop < len(c.entries) && c.entries[drop].GetIndex() <= index; drop++ {
		c.bytes -= cachedSize(c.entries[drop])
	}
	c.dropFirst(drop)
}

// dropFirst forgets the oldest entries; memory is given back once half is unused.
func (c *logCache) dropFirst(n int) {
	clear(c.entries[:n])
	c.entries = c.entries[n:]
	if cap(c.entries) > 2*len(c.entries)+1024 {
		c.entries = slices.Clone(c.entries)
	}
}
