package catalog

import (
	"bytes"
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// A sharded collection that has no documents is laid by its shard key (layout.ByKey): what moves
// to another shard is a range of records. Where it expires it is laid in slots (layout.Slots)
// if the key begins with a hashed field, and what moves is those of some slots; else it stays by
// windows.

// liesByShardKey reports whether the layout is a ByKey.
func (c *Collection) liesByShardKey() bool { return c.entersIDs() && c.sections == nil }

// LieByShardKey lays a sharded collection by its shard key, where that is possible: it has no
// documents, lies by _id or by windows, and a document has one place in the key. Where it has
// windows, or a TTL index that may have some, it lies in slots, if the key begins with a hashed
// field, else by windows. What does not come to another layout stays as it is.
// Errors: 26.
func (c *Catalog) LieByShardKey(ctx context.Context, ns schema.Namespace) error {
	return c.change(ctx, c.named(ns), func(t *change) error {
		coll, err := t.find(ns)
		if err != nil {
			return err
		}
		s := coll.sharding
		if s == nil || coll.IsTimeseries() || !layout.Placeable(s.Key) || coll.Relaid() || coll.building() || coll.Count() != 0 {
			return nil
		}
		l := t.c.layoutByShardKey(coll)
		if l == nil {
			return nil
		}
		if coll.sections != nil { // the windows stay what they are, with their marks
			if err := t.c.dropAllEntries(t.u, coll); err != nil {
				return err
			}
			state := coll.live.state()
			state.Swept = state.Low
			if err := t.setState(coll, state); err != nil {
				return err
			}
		}
		next := coll.with(func(n *Collection) { n.indexes = slices.Clone(coll.indexes) })
		if err := t.cluster(next, l); err != nil {
			return err
		}
		return t.store(next)
	})
}

// layoutByShardKey returns the layout by its shard key of a collection without documents; nil
// where it keeps its own.
func (c *Catalog) layoutByShardKey(coll *Collection) layout.Layout {
	if w, ok := coll.layout.(*layout.Window); ok && coll.sharding.Key.HashedFirst() {
		return layout.NewSlots(w, coll.sharding.Key)
	}
	if !coll.mayBeLaidOut() || coll.liesInOrderOf(coll.sharding.Key) {
		return nil
	}
	if w := windowsFor(coll, coll.schemaIndexes()); w != nil && !c.NoWindows.Load() {
		return w
	}
	return layout.NewByKey(coll.sharding.Key)
}

// liesInOrderOf reports whether the records are in the order of a shard key as they are: of _id,
// where that is the key.
func (c *Collection) liesInOrderOf(k *schema.ShardKey) bool {
	return c.ClusteredByID() && len(k.Parts) == 1 && k.Parts[0].Path == "_id" && !k.IsHashed() && c.collator() == nil
}

// Chunk is the records in which are exactly the documents in a range of the shard key; ok is
// false if the collection does not lie by that.
func (c *Collection) Chunk(r schema.ShardRange) (k layout.Chunk, ok bool) {
	switch {
	case c.sharding == nil || c.Ident == 0 || c.IsTimeseries():
		return k, false
	case c.liesInOrderOf(c.sharding.Key):
		return layout.Chunk{KeyRange: layout.KeyRange{From: r.Min.Key, To: r.Max.Key}}, true
	}
	return c.layout.Chunk(c.sharding.Key, r)
}

// Resumable is Chunk for a walk that goes on behind a record, in a later state: a document
// that is still to come in it comes, or comes again, unless the log tells of a change of it.
func (c *Collection) Resumable(r schema.ShardRange) (k layout.Chunk, ok bool) {
	if c.sections != nil && c.sections.Instants() {
		return k, false // one may be reassigned from the second kind of windows to the first
	}
	return c.Chunk(r)
}

// EachOf opens an iterator over the records of a chunk.
func (c *Collection) EachOf(r storage.Reader, k layout.Chunk) (*ChunkIter, error) {
	it, err := r.NewIter(c.Ident, k.From, k.To)
	return &ChunkIter{Iter: it, chunk: k}, err
}

// ChunkIter goes forward over the records of a chunk.
type ChunkIter struct {
	*storage.Iter
	chunk layout.Chunk
}

// nearRecords is how many records of other chunks are passed one by one before a seek.
const nearRecords = 3

// First moves to the first record.
func (it *ChunkIter) First() bool {
	return it.settle(it.Iter.First())
}

// Next moves to the next record.
func (it *ChunkIter) Next() bool {
	return it.settle(it.Iter.Next())
}

// settle moves on to a record that the chunk has.
func (it *ChunkIter) settle(ok bool) bool {
	for ok {
		to, has := it.chunk.Has(it.Key())
		if has {
			return true
		}
		near := 0
		for ; ok && near < nearRecords && bytes.Compare(it.Key(), to) < 0; near++ {
			ok = it.Iter.Next()
		}
		if ok && bytes.Compare(it.Key(), to) < 0 {
			ok = it.SeekGE(to)
		}
	}
	return false
}

// The bounds of a unit of RemoveChunk: documents, and their bytes.
const (
	removeDocs  = 5_000
	removeBytes = 16 << 20
)

// RemoveChunk removes the documents in a range of the shard key by which a collection lies,
// which nobody else adds any to: a part in each unit, with range tombstones, exact counts and
// the entries of all indexes. So nothing is left that could come to life when the range is
// filled again. It returns false if the collection does not lie by the key, or no longer does.
// Errors: 26, 117 for a document that is in no hidden range, the cause of ctx's end.
func (c *Catalog) RemoveChunk(ctx context.Context, coll *Collection, r schema.ShardRange) (all bool, err error) {
	var from RecordKey
	for more := true; more; {
		err := c.Run(ctx, storage.Buffered, func(u *Unit) (err error) {
			u.Moving = true
			now, err := u.enter(ctx, coll)
			if err != nil {
				return err
			}
			k, ok := now.Chunk(r)
			if all, more = ok, false; !ok {
				return nil
			}
			if from != nil {
				k.From = from
			}
			next, err := u.removePart(ctx, now, k)
			if err == nil {
				from, more = next, next != nil
			}
			return err
		})
		if err != nil {
			return false, err
		}
	}
	return all, nil
}

// removePart removes the first documents of a chunk, and returns where the others begin; nil
// for none. The unit is inside the collection.
func (u *Unit) removePart(ctx context.Context, c *Collection, k layout.Chunk) (next RecordKey, err error) {
	part, err := u.lockPart(ctx, c, k)
	if err != nil || len(part) == 0 {
		return nil, err
	}
	k.From = part[0]
	it, err := c.EachOf(u.c.engine, k)
	if err != nil {
		return nil, err
	}
	defer it.Close()
	docs, size := int64(0), int64(0)
	var run removedRun
	for ok := it.First(); ok; ok = it.Next() {
		for len(part) > 0 && bytes.Compare(part[0], it.Key()) < 0 {
			part = part[1:] // it has gone since it was locked
		}
		if len(part) == 0 || !bytes.Equal(part[0], it.Key()) { // not locked: for the next part
			next = bytes.Clone(it.Key())
			break
		}
		doc, err := it.Value()
		if err != nil {
			return nil, err
		}
		if c.sharding.Shown(doc) { // it was handed back, or never was in the range
			return nil, ErrShown(c.Namespace)
		}
		if err := u.removeEntries(c, it.Key(), doc); err != nil {
			return nil, err
		}
		if n := len(run.keys); n > 0 && !k.Together(run.keys[n-1], part[0]) {
			if err := run.end(u, c); err != nil {
				return nil, err
			}
		}
		run.add(part[0], len(doc))
		part, docs, size = part[1:], docs+1, size+int64(len(doc))
	}
	if err := it.Err(); err != nil {
		return nil, err
	}
	if err := run.end(u, c); err != nil {
		return nil, err
	}
	u.u.Add(c.live.counter, sumDocs, -docs)
	u.u.Add(c.live.counter, sumBytes, -size)
	return next, nil
}

// ErrShown says that documents that are to go with a hidden range are in none.
func ErrShown(ns schema.Namespace) error {
	return mongoerr.New(mongoerr.ConflictingOperationInProgress, "a range of %s whose documents are removed is hidden no more", ns)
}

// removedRun is records of a part that lie side by side: no other one of any chunk is ever
// stored between them.
type removedRun struct {
	keys  []RecordKey
	sizes []int // of the documents
}

func (r *removedRun) add(k RecordKey, size int) {
	r.keys, r.sizes = append(r.keys, k), append(r.sizes, size)
}

// end removes the records of the run, a long one with one tombstone, and begins another.
func (r *removedRun) end(u *Unit, c *Collection) error {
	n := len(r.keys)
	if n >= relayRun || n > 0 && c.sections == nil {
		to := append(bytes.Clone(r.keys[n-1]), 0) // so nothing goes that was not seen
		if err := u.u.DeleteRange(c.Ident, r.keys[0], to); err != nil {
			return err
		}
	} else {
		for i, k := range r.keys {
			if err := u.u.Delete(c.Ident, k, r.sizes[i]); err != nil {
				return err
			}
		}
	}
	r.keys, r.sizes = r.keys[:0], r.sizes[:0]
	return nil
}

// lockPart locks the first documents of a chunk, and returns their record keys.
func (u *Unit) lockPart(ctx context.Context, c *Collection, k layout.Chunk) (part []RecordKey, err error) {
	it, err := c.EachOf(u.c.engine, k)
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
	u.noteListed(c, u.record, doc)
	u.countWindow(c, -1, -int64(len(doc)), -u.third(c, doc))
	return nil
}
