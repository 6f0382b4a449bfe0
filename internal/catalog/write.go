package catalog

import (
	"bytes"
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// entryWrite is a planned change of one index entry: set it, or delete it.
type entryWrite struct {
	ix  *Index
	key schema.Key
	del bool
	// placed says that the record is the entry: of the change only uniqueness is looked at.
	placed bool
}

// Insert adds a document, which has an _id, byte for byte. Errors: 11000 with
// keyPattern and keyValue, 171 and others of the indexes' keys, 26.
func (u *Unit) Insert(ctx context.Context, c *Collection, doc bson.Doc) error {
	c, err := u.enter(ctx, c)
	if err != nil {
		return err
	}
	if c.sharding != nil {
		if err := u.checkOwned(c, doc); err != nil {
			return err
		}
	}
	doc = u.Stamp(c, doc)
	if u.txn != nil {
		if err := u.txn.wrote(c, nil, doc); err != nil {
			return err
		}
	}
	return u.insertStamped(ctx, c, doc)
}

// insertStamped is Insert for a document that has its time of the last write; the unit
// is inside the collection.
func (u *Unit) insertStamped(ctx context.Context, c *Collection, doc bson.Doc) error {
	if err := u.place(ctx, c, doc); err != nil {
		return err
	}
	if err := u.insert(ctx, c, doc); err != nil {
		return err
	}
	if u.e.ops.on {
		u.e.ops.add(OpInsert, u.placeOps(c), doc, u.stored)
	}
	if c.layout.InOrder() {
		return u.trim(c)
	}
	return nil
}

// insert adds a document under u.record, which the unit has locked.
func (u *Unit) insert(ctx context.Context, c *Collection, doc bson.Doc) error {
	u.plan, u.keyRoom, u.e.keeps = u.plan[:0], 0, true
	if err := u.planNew(c, doc); err != nil {
		return err
	}
	if err := u.checkUnique(ctx, c); err != nil {
		return err
	}
	u.noteDue(c, doc)
	u.stored = u.u.Count()
	if err := u.u.Set(c.Ident, u.record, doc); err != nil {
		return err
	}
	u.noteListed(c, u.record, doc)
	return u.finish(c, 1, int64(len(doc)), u.third(c, doc))
}

// planNew plans the entries that a document gets at u.record.
func (u *Unit) planNew(c *Collection, doc bson.Doc) error {
	for i, ix := range c.indexes {
		if err := u.planKeys(c, ix, doc, slot(&u.fresh, i)); err != nil {
			return err
		}
	}
	return nil
}

// planKeys plans the entries in one index that a document gets at u.record. Where the record is
// the entry that is its key, if no other document may have that, and nothing else. A document
// with an array is refused there, as newKeys does: it has no place. Errors: 16766.
func (u *Unit) planKeys(c *Collection, ix *Index, doc bson.Doc, buf *[]schema.Key) error {
	placed := !ix.holds(u.record)
	if placed && (ix.OnPlace == nil || !ix.unique() && !(ix.Records && ix.Form.HasArray(doc))) {
		return nil
	}
	keys, err := u.newKeys(c, ix, doc, buf)
	if err != nil {
		return err
	}
	for _, k := range keys {
		u.plan = append(u.plan, entryWrite{ix: ix, key: k, placed: placed})
	}
	return nil
}

// planOld plans the removal of a stored document's entries.
func (u *Unit) planOld(c *Collection, record RecordKey, old bson.Doc) error {
	for i, ix := range c.indexes {
		placed := !ix.holds(record)
		if placed && !(ix.OnPlace != nil && ix.unique() && u.locksFreed) {
			continue
		}
		keys, err := u.oldKeys(ix, old, slot(&u.keys, i))
		if err != nil {
			return err
		}
		for _, k := range keys {
			u.plan = append(u.plan, entryWrite{ix: ix, key: k, del: true, placed: placed})
		}
	}
	return nil
}

// Update replaces old, which LockRecord returned for key, by doc, which has
// the same _id. Only changed index entries are written. Errors as for Insert.
func (u *Unit) Update(ctx context.Context, c *Collection, key RecordKey, old, doc bson.Doc) error {
	c, err := u.enter(ctx, c)
	if err != nil {
		return err
	}
	if c.sharding != nil {
		if err := u.checkShardKey(c, old, doc); err != nil {
			return err
		}
	}
	doc = u.Stamp(c, doc)
	if u.txn != nil {
		if err := u.txn.wrote(c, old, doc); err != nil {
			return err
		}
	}
	u.record = append(u.record[:0], u.resolve(key)...)
	if c.leaves(u.record) || !c.layout.Stays(old, doc) {
		return u.updateAway(ctx, c, old, doc)
	}
	u.plan, u.keyRoom = u.plan[:0], 0
	for i, ix := range c.indexes {
		if ix.sameKeys(old, doc) {
			continue
		}
		if !ix.holds(u.record) {
			if ix.Records && ix.OnPlace != nil { // equal hashes, and an array
				if err := u.planKeys(c, ix, doc, slot(&u.fresh, i)); err != nil {
					return err
				}
			}
			continue
		}
		before, err := u.oldKeys(ix, old, slot(&u.keys, i))
		if err != nil {
			return err
		}
		after, err := u.newKeys(c, ix, doc, slot(&u.fresh, i))
		if err != nil {
			return err
		}
		u.diff(ix, before, after)
	}
	if err := u.checkUnique(ctx, c); err != nil {
		return err
	}
	u.noteDue(c, doc)
	u.stored = u.u.Count()
	if err := u.u.Set(c.Ident, u.record, doc); err != nil {
		return err
	}
	u.noteTouch(c, doc)
	if u.e.ops.on {
		u.e.ops.update(u.placeOps(c), old, doc, u.stored)
	}
	if err := u.finish(c, 0, int64(len(doc)-len(old)), u.third(c, doc)-u.third(c, old)); err != nil {
		return err
	}
	u.pend(c, doc)
	return nil
}

// Delete removes old, which LockRecord returned for key.
func (u *Unit) Delete(ctx context.Context, c *Collection, key RecordKey, old bson.Doc) error {
	c, err := u.enter(ctx, c)
	if err != nil {
		return err
	}
	if u.txn != nil {
		if err := u.txn.wrote(c, old, nil); err != nil {
			return err
		}
	}
	if err := u.remove(c, key, old); err != nil || !u.locksFreed {
		return err
	}
	_, err = u.lockKeys(ctx)
	return err
}

// lockKeys locks the keys of unique indexes that the planned writes set or, where locksFreed
// says so, free: u.locks. fresh says that the unit had none of them.
func (u *Unit) lockKeys(ctx context.Context) (fresh bool, err error) {
	u.locks = u.locks[:0]
	for _, w := range u.plan {
		if (!w.del || u.locksFreed) && u.checks(w.ix) {
			u.locks = append(u.locks, storage.LockKey{Class: storage.LockUnique, ID: w.ix.Ident, Key: w.key.Bytes})
		}
	}
	if len(u.locks) == 0 {
		return true, nil
	}
	return u.u.LockAll(ctx, u.locks)
}

func (u *Unit) remove(c *Collection, key RecordKey, old bson.Doc) error {
	u.record = append(u.record[:0], u.resolve(key)...)
	u.plan, u.keyRoom, u.e.keeps = u.plan[:0], 0, true
	u.wrote(c)
	if err := u.planOld(c, u.record, old); err != nil {
		return err
	}
	if err := u.u.Delete(c.Ident, u.record, len(old)); err != nil {
		return err
	}
	if u.e.ops.on {
		u.recordDelete(c, old)
	}
	u.noteLeft(c, u.record, old)
	u.noteListed(c, u.record, old)
	return u.finish(c, -1, -int64(len(old)), -u.third(c, old))
}

// slot returns the i-th buffer of keys.
func slot(bufs *[][]schema.Key, i int) *[]schema.Key {
	for len(*bufs) <= i {
		*bufs = append(*bufs, nil)
	}
	return &(*bufs)[i]
}

// newKeys makes the keys of a document that is about to be added to ix, and
// notes its multikey paths. A document that cannot be indexed fails the build of the
// index, not the write.
func (u *Unit) newKeys(c *Collection, ix *Index, doc bson.Doc, buf *[]schema.Key) ([]schema.Key, error) {
	keys, paths, full, err := u.someKeys(ix, doc, (*buf)[:0])
	if full != nil {
		return nil, full
	}
	if err != nil {
		if b := ix.live.build; b != nil && !ix.Ready {
			b.abort(err)
			return nil, nil
		}
		return nil, err
	}
	*buf = keys
	if paths.Any() && !ix.live.storedMultikey(paths) {
		return keys, u.noteMultikey(c, ix, paths)
	}
	return keys, nil
}

// noteMultikey stores paths of an index on which a document has arrays.
func (u *Unit) noteMultikey(c *Collection, ix *Index, paths schema.MultikeyPaths) error {
	n, ok := noted(u.e, c.live, func(n *multikeyNote) bool { return n.index == ix.Ident })
	if !ok {
		n = &multikeyNote{about: of(c), index: ix.Ident, live: ix.live}
		u.e.note(n)
	}
	all, more := n.paths.Union(paths)
	if !more {
		return nil
	}
	n.paths = all
	return u.u.OrBits(storage.IdentMultikey, identKey(ix.Ident), encodePaths(paths))
}

// oldKeys makes the keys under which a stored document is in ix: none if it
// could not be, which only an index that is being built allows. An error is that
// there is no memory for them.
func (u *Unit) oldKeys(ix *Index, doc bson.Doc, buf *[]schema.Key) ([]schema.Key, error) {
	keys, _, full, err := u.someKeys(ix, doc, (*buf)[:0])
	if full != nil || err != nil {
		return nil, full
	}
	*buf = keys
	return keys, nil
}

// someKeys makes the keys of a document in ix; full says why there is no memory
// for them.
func (u *Unit) someKeys(ix *Index, doc bson.Doc, dst []schema.Key) (keys []schema.Key, paths schema.MultikeyPaths, full, err error) {
	if len(doc) < manyKeys {
		keys, paths, err = ix.Form.Keys(doc, dst)
		return keys, paths, nil, err
	}
	others := u.keyRoom // of the document's other indexes
	return ix.Form.KeysWithin(doc, dst, func(bytes int) error {
		u.keyRoom = others + bytes
		return u.Memory.Set(2*u.u.Size() + keyCopies*u.keyRoom)
	})
}

// sameKeys reports whether two documents obviously have the same keys in ix,
// because all fields that the keys come from have the same bytes.
func (ix *Index) sameKeys(a, b bson.Doc) bool {
	if ix.top == nil {
		return false
	}
	for _, name := range ix.top {
		x, y := a.Lookup(name), b.Lookup(name)
		if x.Type != y.Type || !bytes.Equal(x.Data, y.Data) {
			return false
		}
	}
	return true
}

// diff plans the change of a document's entries from before to after; both are
// sorted and without duplicates.
func (u *Unit) diff(ix *Index, before, after []schema.Key) {
	for len(before) > 0 || len(after) > 0 {
		order := 0
		switch {
		case len(before) == 0:
			order = 1
		case len(after) == 0:
			order = -1
		default:
			order = bytes.Compare(before[0].Bytes, after[0].Bytes)
		}
		switch {
		case order < 0:
			u.plan = append(u.plan, entryWrite{ix: ix, key: before[0], del: true})
			before = before[1:]
		case order > 0:
			u.plan = append(u.plan, entryWrite{ix: ix, key: after[0]})
			after = after[1:]
		default:
			if !bytes.Equal(before[0].TypeBits, after[0].TypeBits) {
				u.plan = append(u.plan, entryWrite{ix: ix, key: after[0]})
			}
			before, after = before[1:], after[1:]
		}
	}
}

// finish writes the planned entries and counts the document; third is the
// change of the window's third sum. The plan has the entries of all indexes,
// those being built among them (invariant entries).
func (u *Unit) finish(c *Collection, docs, size, third int64) error {
	if u.keyRoom > maxKeptKeys {
		u.Memory.Settle(u.u.Size() + 2*u.keyRoom) // the batch may have to double
	}
	if err := u.writeEntries(c); err != nil {
		return err
	}
	u.docs++
	u.countWindow(c, docs, size, third)
	if docs != 0 {
		u.u.Add(c.live.counter, sumDocs, docs)
	}
	if size != 0 {
		u.u.Add(c.live.counter, sumBytes, size)
	}
	return nil
}

// writeEntries writes the planned entries.
func (u *Unit) writeEntries(c *Collection) error {
	for i := range u.plan {
		w := &u.plan[i]
		if w.placed {
			continue
		}
		record := u.record
		if w.del && len(u.from) > 0 {
			record = u.from
		}
		u.entry, u.value = w.ix.appendEntry(u.entry[:0], u.value[:0], w.key, record)
		var err error
		if w.del {
			if w.ix.ByPrefix == nil {
				u.gone++ // on _id, others have no entries
			}
			err = u.u.Delete(w.ix.Ident, u.entry, len(u.value))
		} else {
			u.added++
			c.live.watch.Load().note(w.ix, u.entry)
			err = u.u.Set(w.ix.Ident, u.entry, u.value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkUnique locks the keys that are about to enter unique indexes and makes
// sure that no other document has them: code 11000. In an index that is being
// built, a duplicate is noted for the end of the build. A transaction that is prepared locks
// those that leave, too: whoever wants one waits until it is decided.
func (u *Unit) checkUnique(ctx context.Context, c *Collection) error {
	fresh, err := u.lockKeys(ctx)
	if err != nil || len(u.locks) == 0 {
		return err
	}
	var probe *storage.Iter
	defer func() {
		if probe != nil {
			probe.Close()
		}
	}()
	for _, w := range u.plan {
		if w.del || !u.checks(w.ix) {
			continue
		}
		if probe == nil {
			probe, err = u.reader(fresh).NewIter(w.ix.Ident, w.key.Bytes, nil)
			if err != nil {
				return err
			}
		} else {
			probe.SetRange(w.ix.Ident, w.key.Bytes, nil)
		}
		var holder RecordKey
		// Whoever has stored an array held its keys until the index was multikey, or is this unit.
		if w.ix.OnPlace == nil || !fresh || w.ix.Multikey().Any() {
			holder, err = u.takenBy(c, probe, w.key.Bytes)
		}
		if err == nil && holder == nil && w.ix.OnPlace != nil {
			holder, err = u.placedBy(c, probe, w.key.Bytes)
		}
		if err == nil && holder != nil && fresh {
			// The engine does not see that this unit has deleted the entry.
			holder, err = u.takenStill(c, w.ix, w.key.Bytes, holder)
		}
		if err == nil && holder != nil {
			var waited bool
			if waited, err = u.awaitHolder(ctx, c, holder); err == nil && waited {
				holder, err = u.takenNow(c, w.ix, w.key.Bytes)
			}
		}
		for made := true; err == nil && holder != nil && made && c.hiding != nil; {
			if made, err = u.makeRoom(ctx, c, holder); err == nil && made {
				holder, err = u.takenStill(c, w.ix, w.key.Bytes, nil)
			}
		}
		if err != nil {
			return err
		}
		if holder == nil {
			continue
		}
		if w.ix.Ready {
			return duplicate(c, w.ix, w.key)
		}
		if w.ix.Unique {
			w.ix.live.build.noteDuplicate(w.ix, w.key.Bytes)
		}
	}
	return nil
}

// checks reports whether the unit makes sure that a key of an index is no other document's.
// For documents that come from another shard, only _id is checked: the rest its owner has
// checked. They are copied one after the other, so two of them may have a key together that
// they have not had at one time.
func (u *Unit) checks(ix *Index) bool {
	return ix.unique() && ix.ByPrefix == nil && (!u.Moving || ix.IsID() || ix.Records)
}

// takenBy returns the record of another document with the key, or nil.
func (u *Unit) takenBy(c *Collection, it *storage.Iter, key []byte) (RecordKey, error) {
	for ok := it.First(); ok && bytes.HasPrefix(it.Key(), key); ok = it.Next() {
		if holder := RecordKey(it.Key()[len(key):]); u.isOther(c, holder) {
			return bytes.Clone(holder), nil
		}
	}
	return nil, it.Err()
}

// isOther reports whether a record with a key that the unit's document gets is another one's.
func (u *Unit) isOther(c *Collection, holder RecordKey) bool {
	return !bytes.Equal(holder, u.record) && (len(u.from) == 0 || !bytes.Equal(holder, u.from)) && !c.dead(holder)
}

// placedBy is takenBy among the records that are entries of an index on the shard key. It moves the
// iterator to them.
func (u *Unit) placedBy(c *Collection, it *storage.Iter, key []byte) (RecordKey, error) {
	u.entry = append(append(u.entry[:0], layout.First), key...)
	it.SetRange(c.Ident, u.entry, nil)
	for ok := it.First(); ok && bytes.HasPrefix(it.Key(), u.entry); ok = it.Next() {
		if u.isOther(c, it.Key()) {
			return bytes.Clone(it.Key()), nil
		}
	}
	return nil, it.Err()
}

// takenStill is takenBy including the unit's own writes; without any it is holder.
func (u *Unit) takenStill(c *Collection, ix *Index, key []byte, holder RecordKey) (RecordKey, error) {
	if u.u.Empty() {
		return holder, nil
	}
	return u.takenNow(c, ix, key)
}

// takenNow is takenBy in the latest state, with the unit's own writes.
func (u *Unit) takenNow(c *Collection, ix *Index, key []byte) (RecordKey, error) {
	it, err := u.u.NewIter(ix.Ident, key, nil)
	if err != nil {
		return nil, err
	}
	defer it.Close()
	holder, err := u.takenBy(c, it, key)
	if err == nil && holder == nil && ix.OnPlace != nil {
		holder, err = u.placedBy(c, it, key)
	}
	return holder, err
}

// The greatest record key of a clustered collection, and what MongoDB's
// encoding adds to strings and binary values.
const (
	maxClusterKey    = 8 << 20
	clusterKeyText   = 2
	clusterKeyBinary = 7
)

// checkClusterKey enforces a clustered collection's bound on the size of _id.
func checkClusterKey(c *Collection, doc bson.Doc) error {
	if c.Settings.Clustered == nil {
		return nil
	}
	id := doc.Lookup("_id")
	n := len(id.Data)
	switch id.Type {
	case bson.TypeString, bson.TypeSymbol:
		n = len(id.Str()) + clusterKeyText
	case bson.TypeBinary:
		_, b := id.Binary()
		n = len(b) + clusterKeyBinary
	}
	if n > maxClusterKey {
		return mongoerr.New(mongoerr.Code(5894900), "RecordId size exceeds the maximum of %d bytes: %d", maxClusterKey, n)
	}
	return nil
}

// InsertMany adds documents one by one, as Insert does, until the first error;
// it returns how many it added.
func (u *Unit) InsertMany(ctx context.Context, c *Collection, docs []bson.Doc) (n int, err error) {
	for _, d := range docs {
		if err := u.Insert(ctx, c, d); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
