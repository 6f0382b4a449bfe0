package repl

import (
	"errors"
	"fmt"
	"sync"

	"github.com/mayflydb/mayfly/internal/oplog"
	"github.com/mayflydb/mayfly/internal/storage"
)

// A change stream reads the applied entries of the log by their indexes, and keeps
// nothing but an index between two reads (docs/rfcs/0026-change-streams.md). What has
// been applied stays as it is, so entries that were decoded can be shared.

// ErrHistoryLost says that entries which a reader needs were truncated from the log.
var ErrHistoryLost = errors.New("replication: the log no longer reaches back so far")

// LogEntry is an applied entry, decoded. It is shared: readers do not change it.
type LogEntry struct {
	Index uint64
	// Time is the entry's time; 0 for an entry of raft's own.
	Time uint64
	oplog.Entry
	size int
}

// Feed reads applied entries, up to the one that was the last when it was opened.
type Feed struct {
	m        *Member
	next     uint64 // the index that is read next
	last     uint64
	snapshot *storage.Snapshot // nil as long as the cache had everything
	it       *storage.Iter
}

// lastApplied is the index of the last entry that readers may see.
func (m *Member) lastApplied() uint64 {
	return max(m.catalog.Engine().Applied(), m.Applied().Index)
}

// OpenFeed opens a feed whose first entry has an index.
func (m *Member) OpenFeed(index uint64) *Feed { return &Feed{m: m, next: index, last: m.lastApplied()} }

// Next returns the next entry; nil at the end. Errors: ErrHistoryLost, those of the disk.
func (f *Feed) Next() (*LogEntry, error) {
	if f.next > f.last {
		return nil, nil
	}
	e := f.m.decoded.get(f.next)
	if e == nil {
		var err error
		if e = f.m.large.get(f.next); e == nil {
			if e, err = f.read(); err != nil {
				return nil, err
			}
			f.m.large.put(e)
		}
		if f.next+decodedBehind > f.last {
			f.m.decoded.put(e)
		}
	}
	f.next++
	return e, nil
}

// read reads an entry from the log.
func (f *Feed) read() (e *LogEntry, err error) {
	group := f.m.store.opts.Group
	if f.it == nil {
		f.snapshot = f.m.catalog.Engine().NewSnapshot()
		if f.it, err = f.snapshot.NewIter(storage.IdentRaft, groupKey(group, keyEntry), entryKey(group, f.last+1)); err != nil {
			return nil, err
		}
	}
	there := f.it.Valid() && indexOf(f.it.Key())+1 == f.next && f.it.Next() || f.it.SeekGE(entryKey(group, f.next))
	if err := f.it.Err(); err != nil {
		return nil, err
	}
	if !there || indexOf(f.it.Key()) != f.next {
		return nil, ErrHistoryLost
	}
	v, err := f.it.Value()
	if err != nil {
		return nil, err
	}
	e = &LogEntry{Index: f.next, size: len(v)}
	w := oplogWalk{own: true, snapshot: f.snapshot, group: group}
	if err := w.decode(v); errors.Is(err, errChainCut) {
		return nil, ErrHistoryLost
	} else if err != nil {
		return nil, err
	}
	e.size = max(e.size, w.bytes)
	e.Entry, e.Time = w.entry, w.entry.Time
	return e, nil
}

// Close releases the log.
func (f *Feed) Close() error {
	if f.it == nil {
		return nil
	}
	err := f.it.Close()
	f.snapshot.Close()
	f.it = nil
	return err
}

// FeedNow returns the index behind the last entry that was applied, and the time of that
// entry.
func (m *Member) FeedNow() (index, time uint64, err error) {
	last := m.lastApplied()
	group := m.store.opts.Group
	w, err := oplogView{m}.walk(0, 1<<64-1)
	if err != nil {
		return 0, 0, err
	}
	defer w.Close()
	for ok := w.it.SeekLT(entryKey(group, last+1)); ok; ok = w.it.Prev() {
		v, err := w.it.Value()
		if err != nil {
			return 0, 0, err
		}
		e, _, timed, err := timed(v)
		if err != nil {
			return 0, 0, err
		}
		if timed {
			return last + 1, uint64(e.time), nil
		}
	}
	base, err := w.base()
	return last + 1, uint64(base.Time), err
}

// FeedFrom returns the index of the first entry whose time is not before t. Errors:
// ErrHistoryLost if there were such entries that were truncated, those of the disk.
func (m *Member) FeedFrom(t uint64) (index uint64, err error) {
	w, err := oplogView{m}.walk(0, 1<<64-1)
	if err != nil {
		return 0, err
	}
	defer w.Close()
	base, err := w.base()
	if err != nil {
		return 0, err
	}
	if t <= uint64(base.Time) {
		return 0, ErrHistoryLost
	}
	if w.seek(t) {
		return indexOf(w.it.Key()), nil
	}
	return w.last + 1, w.Err()
}

// base returns the position of the last entry that was truncated from the log in the
// state that is walked. Its time is 0 as long as none was since the set was founded.
func (w *oplogWalk) base() (Position, error) { return storedBase(w.snapshot, w.group) }

// storedBase is base in a state of the store.
func storedBase(r storage.Reader, group Number) (Position, error) {
	v, closer, err := r.Get(storage.IdentRaft, groupKey(group, keyBase))
	if errors.Is(err, storage.ErrNotFound) {
		return Position{}, nil
	}
	if err != nil {
		return Position{}, err
	}
	defer closer.Close()
	base, _, ok := cutPosition(v)
	if base.Index <= founded.Index {
		base.Time = 0
	}
	if !ok {
		return base, fmt.Errorf("%w: base of the log is %x", storage.ErrCorruption, v)
	}
	return base, nil
}

const (
	// decodedBytes bounds the entries that are kept decoded, by the bytes of the log.
	decodedBytes = 8 << 20
	// decodedBehind is how far behind the last applied entry one may lie to be kept: a
	// reader that is further behind reads alone.
	decodedBehind = 1024
)

// decodedEntries are the newest entries, decoded, for all who follow the log. The zero
// value is empty.
type decodedEntries struct {
	mu    sync.Mutex
	all   map[uint64]*LogEntry
	order []uint64 // as they came
	bytes int
}

func (d *decodedEntries) get(index uint64) *LogEntry {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.all[index]
}

func (d *decodedEntries) put(e *LogEntry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil {
		d.all = map[uint64]*LogEntry{}
	}
	if d.all[e.Index] != nil || e.size > decodedBytes/4 {
		return
	}
	d.all[e.Index] = e
	d.order = append(d.order, e.Index)
	for d.bytes += e.size; d.bytes > decodedBytes || len(d.order) > decodedBehind; d.order = d.order[1:] {
		d.bytes -= d.all[d.order[0]].size
		delete(d.all, d.order[0])
	}
}

// Arrivals returns a channel that is closed when entries were applied after the call.
func (m *Member) Arrivals() <-chan struct{} { return m.replica.arrivals.Next() }

// OldestEntry returns the time of the last entry that was truncated from the log: a
// stream can be resumed behind it.
func (m *Member) OldestEntry() Timestamp { return m.replica.State().Base.Time }
