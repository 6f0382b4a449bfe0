package catalog

import (
	"bytes"
	"context"
	"errors"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/storage"
)

// maxStraySeeks is how often LockRecords moves its iterator to a record that is
// not the next one; after that it looks up each record separately.
const maxStraySeeks = 8

// walkSteps is how many records LockRecords steps over to reach the next one it
// wants before it seeks.
const walkSteps = 4

// LockRecords locks those of the records that no other unit has locked, to the
// unit's end, and calls f with the newest document of each that exists. keys are
// sorted, and the unit has not written to them before. Neither argument of f
// outlives the call. busy are the others, for LockRecord, and those that have a
// pending version.
//
// Adjacent records are read in one walk, which costs a third of looking up
// each.
func (u *Unit) LockRecords(ctx context.Context, c *Collection, keys []RecordKey, f func(RecordKey, bson.Doc) error) (busy []RecordKey, err error) {
	if c, err = u.enter(ctx, c); err != nil {
		return nil, err
	}
	mine := keys[:0:0]
	for _, k := range keys {
		if ok := u.tryRecord(c, k); ok {
			mine = append(mine, k)
		} else {
			busy = append(busy, k)
		}
	}
	if len(mine) == 0 {
		return busy, nil
	}
	w, err := u.walk(c, mine[0])
	if err != nil {
		return busy, err
	}
	defer w.it.Close()
	for _, k := range mine {
		if ctx.Err() != nil {
			return busy, context.Cause(ctx)
		}
		if err := w.read(k, f); err != nil {
			return busy, err
		}
	}
	return busy, nil
}

// tryRecord locks a record that no unit has locked; false for one with a version, too.
func (u *Unit) tryRecord(c *Collection, k RecordKey) bool {
	ok, _ := u.u.TryLock(storage.LockRecord, c.Ident, c.lockName(k))
	return ok && !u.isPending(c, c.lockName(k))
}

// walk reads records in their order from the latest state.
type walk struct {
	e     *storage.Engine
	c     *Collection
	it    *storage.Iter
	seeks int
}

func (u *Unit) walk(c *Collection, from RecordKey) (*walk, error) {
	it, err := u.c.engine.NewIter(c.Ident, from, nil)
	if err != nil {
		return nil, err
	}
	it.First()
	return &walk{e: u.c.engine, c: c, it: it}, it.Err()
}

// read calls f with the document of k, if it exists.
func (w *walk) read(k RecordKey, f func(RecordKey, bson.Doc) error) error {
	for n := 0; w.seeks < maxStraySeeks && w.it.Valid() && bytes.Compare(w.it.Key(), k) < 0; n++ {
		if n == walkSteps {
			w.seeks++
			w.it.SeekGE(k)
			break
		}
		w.it.Next()
	}
	if w.it.Valid() && bytes.Equal(w.it.Key(), k) {
		v, err := w.it.Value()
		if err != nil {
			return err
		}
		return f(k, v)
	}
	if err := w.it.Err(); err != nil {
		return err
	}
	if w.seeks < maxStraySeeks {
		return nil // the iterator is past it
	}
	v, closer, err := w.e.Get(w.c.Ident, k)
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer closer.Close()
	return f(k, v)
}
