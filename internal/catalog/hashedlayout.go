package catalog

import (
	"bytes"
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// A sharded collection that has no documents, and whose shard key begins with a hashed field,
// is laid by that key (layout.Hashed): what moves to another shard is a range of records.

// liesByShardKey reports whether the collection has a hashed layout.
func (c *Collection) liesByShardKey() bool { return c.entersIDs() && c.sections == nil }

// LieByShardKey lays a sharded collection by its shard key, where that is possible: it has no
// documents, lies by _id, and the key begins with a hashed field. Else it stays as it is.
// Errors: 26.
func (c *Catalog) LieByShardKey(ctx context.Context, ns schema.Namespace) error {
	return c.change(ctx, c.named(ns), func(t *change) error {
		coll, err := t.find(ns)
		if err != nil {
			return err
		}
		s := coll.sharding
		if s == nil || coll.IsTimeseries() || !layout.Hashable(s.Key) || !coll.mayBeLaidOut() || coll.Relaid() || coll.building() || coll.Count() != 0 {
			return nil
		}
		next := coll.with(func(n *Collection) { n.indexes = slices.Clone(coll.indexes) })
		if err := t.cluster(next, layout.NewHashed(s.Key)); err != nil {
			return err
		}
		return t.store(next)
	})
}

// Chunk is the range of records in which are exactly the documents in a range of the shard
// key; ok is false if the collection does not lie by that.
func (c *Collection) Chunk(r schema.ShardRange) (k layout.KeyRange, ok bool) {
	if c.sharding == nil || c.Ident == 0 || c.IsTimeseries() {
		return k, false
	}
	return c.layout.Chunk(c.sharding.Key, r)
}

// The bounds of a unit of RemoveChunk: documents, and their bytes.
const (
	removeDocs  = 5_000
	removeBytes = 16 << 20
)

// RemoveChunk removes the documents in a range of records, which nobody else adds any to: a
// part in each unit, with a range tombstone, exact counts and the entries of all indexes. So
// nothing is left that could come to life when the range is filled again.
// Errors: 26, the cause of ctx's end.
func (c *Catalog) RemoveChunk(ctx context.Context, coll *Collection, r layout.KeyRange) error {
	for from := r.From; from != nil; {
		err := c.Run(ctx, storage.Buffered, func(u *Unit) (err error) {
			u.Moving = true
			from, err = u.removePart(ctx, coll, layout.KeyRange{From: from, To: r.To})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// removePart removes the first documents of a range of records, and returns where the others
// begin; nil for none.
func (u *Unit) removePart(ctx context.Context, c *Collection, r layout.KeyRange) (next RecordKey, err error) {
	if c, err = u.enter(ctx, c); err != nil {
		return r.From, err
	}
	part, err := u.lockPart(ctx, c, r)
	if err != nil || len(part) == 0 {
		return nil, err
	}
	it, err := u.c.engine.NewIter(c.Ident, part[0], r.To)
	if err != nil {
		return nil, err
	}
	defer it.Close()
	docs, size := int64(0), int64(0)
	for ok := it.First(); ok; ok = it.Next() {
		if docs == int64(len(part)) {
			next = bytes.Clone(it.Key())
			break
		}
		doc, err := it.Value()
		if err != nil {
			return nil, err
		}
		if err := u.removeEntries(c, it.Key(), doc); err != nil {
			return nil, err
		}
		docs, size = docs+1, size+int64(len(doc))
	}
	if err := it.Err(); err != nil {
		return nil, err
	}
	to := append(part[len(part)-1], 0) // so nothing goes that was not seen
	if err := u.u.DeleteRange(c.Ident, part[0], to); err != nil {
		return nil, err
	}
	u.u.Add(c.live.counter, sumDocs, -docs)
	u.u.Add(c.live.counter, sumBytes, -size)
	return next, nil
}

// lockPart locks the first documents of a range of records, and returns their record keys.
func (u *Unit) lockPart(ctx context.Context, c *Collection, r layout.KeyRange) (part []RecordKey, err error) {
	it, err := u.c.engine.NewIter(c.Ident, r.From, r.To)
	if err != nil {
		return nil, err
	}
	defer it.Close()
	size := 0
	for ok := it.First(); ok && len(part) < removeDocs && size < removeBytes; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			return nil, err
		}
		record := RecordKey(bytes.Clone(it.Key()))
		if _, err := u.u.Lock(ctx, storage.LockRecord, c.Ident, c.lockName(record)); err != nil {
			return nil, err
		}
		if err := u.await(ctx, c, c.lockName(record)); err != nil {
			return nil, err
		}
		part, size = append(part, record), size+len(v)
	}
	return part, it.Err()
}

// removeEntries removes the entries of a document that goes with its range.
func (u *Unit) removeEntries(c *Collection, record RecordKey, doc bson.Doc) error {
	u.record = append(u.record[:0], record...)
	u.plan, u.keyRoom, u.e.keeps = u.plan[:0], 0, true
	if err := u.planOld(c, u.record, doc); err != nil {
		return err
	}
	if u.e.ops.on {
		u.recordDelete(c, doc)
	}
	if err := u.writeEntries(c); err != nil {
		return err
	}
	u.docs++
	return nil
}
