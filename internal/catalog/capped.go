package catalog

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/storage"
)

// The record key of a capped collection is a sequence number. Inserts hold the
// keyspace's lock to the end of their unit: so they become visible in the order of
// their numbers, and a tailing reader never misses one.

// raise makes a number at least n.
func raise(a *atomic.Int64, n int64) {
	for now := a.Load(); n > now && !a.CompareAndSwap(now, n); now = a.Load() {
	}
}

// readSequence finds the first and the last number stored. A number that is known already is not
// used again, if its document was deleted: a cursor may be behind it.
func (l *live) readSequence(r storage.Reader, id storage.Ident) error {
	it, err := r.NewIter(id, nil, nil)
	if err != nil {
		return err
	}
	defer it.Close()
	if it.Last() {
		raise(&l.lastSeq, layout.Sequence(it.Key()))
	}
	if it.First() {
		l.firstSeq.Store(layout.Sequence(it.Key()))
	}
	return it.Err()
}

// placeLast makes u.record a record key after all existing ones.
func (u *Unit) placeLast(ctx context.Context, c *Collection) error {
	if _, err := u.u.Lock(ctx, storage.LockKeyspace, c.Ident, nil); err != nil {
		return err
	}
	// A number that an aborted unit leaves unused is not a gap: nothing was ever
	// visible at it.
	n := c.live.lastSeq.Add(1)
	u.record = c.layout.Append(u.record[:0], layout.Place{Sequence: n})
	return nil
}

// trim removes the oldest documents while the collection exceeds its bounds, but
// never the newest, which the unit has just added. A document that another unit has
// locked stays, with those after it, until the next insert.
func (u *Unit) trim(c *Collection) error {
	note, ok := noted[*cappedNote](u.e, c.live, nil)
	if !ok {
		note = &cappedNote{about: of(c)}
		u.e.note(note)
	}
	note.last = c.live.lastSeq.Load()
	counter := c.live.counter
	over := func() bool {
		docs := counter.Load(sumDocs) + u.u.Pending(counter, sumDocs)
		bytes := counter.Load(sumBytes) + u.u.Pending(counter, sumBytes)
		return c.MaxDocs > 0 && docs > c.MaxDocs || bytes > c.MaxBytes
	}
	if !over() {
		return nil
	}
	it, err := u.u.NewIter(c.Ident, layout.AppendSequence(nil, c.live.firstSeq.Load()), layout.AppendSequence(nil, note.last))
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.First(); ok && over(); ok = it.Next() {
		if ok, _ := u.u.TryLock(storage.LockRecord, c.Ident, it.Key()); !ok {
			break
		}
		note.first = layout.Sequence(it.Key()) + 1
		if err := u.evict(c, it.Key()); err != nil {
			return err
		}
	}
	return it.Err()
}

// evict removes a locked record, as it is now.
func (u *Unit) evict(c *Collection, key RecordKey) error {
	v, closer, err := u.u.Get(c.Ident, key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer closer.Close()
	u.docs--
	return u.remove(c, key, bson.Doc(v))
}
