package catalog

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/storage"
)

// imported is a document of Import.
type imported struct {
	doc    bson.Doc
	id     []byte // the key string of its _id
	record RecordKey
	taken  bool
}

// importedEntry is an index entry of Import.
type importedEntry struct {
	ix         *Index
	n          int // its place among the collection's indexes
	key, value []byte
}

// Import adds documents that come from another shard, as Insert does one after the other,
// and returns those whose _id is taken, which it has not added: taken by a document that is
// here, or by an earlier one of docs. Of one that does not lie by _id it looks for
// all _ids in one walk over their index, and writes records and entries in the order of
// their keyspaces. Errors: those of Insert, but for 11000; after one, the unit must be aborted.
func (u *Unit) Import(ctx context.Context, c *Collection, docs []bson.Doc) (taken []bson.Doc, err error) {
	if c, err = u.enter(ctx, c); err != nil || len(docs) == 0 {
		return nil, err
	}
	if !c.entersIDs() || c.relay != nil || c.hiding != nil || c.stamps {
		return u.importEach(ctx, c, docs)
	}
	u.e.keeps = true
	all, err := u.placeImported(c, docs)
	if err != nil {
		return nil, err
	}
	if err := u.lookImported(ctx, c, all); err != nil {
		return nil, err
	}
	if c.sections != nil { // the windows here need not be those of the donor
		slices.SortFunc(all, func(a, b imported) int { return bytes.Compare(a.record, b.record) })
	}
	entries := make([]importedEntry, 0, len(all)*len(c.indexes))
	size := int64(0)
	for i := range all {
		d := &all[i]
		if d.taken {
			taken = append(taken, d.doc)
			continue
		}
		if entries, err = u.entriesOfImported(c, d, entries); err != nil {
			return nil, err
		}
		write := u.u.Count()
		if err := u.u.Set(c.Ident, d.record, d.doc); err != nil {
			return nil, err
		}
		if u.e.ops.on {
			u.e.ops.add(OpInsert, u.placeOps(c), d.doc, write)
		}
		if c.sections != nil {
			u.record = append(u.record[:0], d.record...)
			u.hint(c)
			u.noteListed(c, u.record, d.doc)
			u.countWindow(c, 1, int64(len(d.doc)), u.third(c, d.doc))
		}
		size += int64(len(d.doc))
	}
	if err := u.writeImported(c, entries); err != nil {
		return nil, err
	}
	added := len(all) - len(taken)
	u.docs += added
	u.u.Add(c.live.counter, sumDocs, int64(added))
	u.u.Add(c.live.counter, sumBytes, size)
	return taken, nil
}

// importEach is Import of another collection.
func (u *Unit) importEach(ctx context.Context, c *Collection, docs []bson.Doc) (taken []bson.Doc, err error) {
	for _, d := range docs {
		err := u.Insert(ctx, c, d)
		if mongoerr.Is(err, mongoerr.DuplicateKey) {
			taken = append(taken, d)
		} else if err != nil {
			return nil, err
		}
	}
	return taken, nil
}

// placeImported makes the record keys of documents.
func (u *Unit) placeImported(c *Collection, docs []bson.Doc) ([]imported, error) {
	all := make([]imported, len(docs))
	var room []byte
	for i, d := range docs {
		from := len(room)
		room = c.appendID(room, d.Lookup("_id"))
		id := room[from:]
		at := len(room)
		room = c.layout.Append(room, layout.Place{Doc: d, ID: id, Low: c.live.lowWater.Load()})
		all[i] = imported{doc: d, id: room[from:at:at], record: room[at:len(room):len(room)]}
	}
	return all, nil
}

// lookImported locks the _ids of documents, and marks those that are taken.
func (u *Unit) lookImported(ctx context.Context, c *Collection, all []imported) error {
	u.locks = u.locks[:0]
	for i := range all {
		u.locks = append(u.locks, storage.LockKey{Class: storage.LockRecord, ID: c.Ident, Key: all[i].id})
	}
	fresh, err := u.u.LockAll(ctx, u.locks)
	if err != nil {
		return err
	}
	if free, err := u.landFree(c, all, fresh); err != nil || free {
		return err
	}
	byID := make([]int32, len(all)) // numbers, as sorting does not have to tell the collector of them
	for i := range byID {
		byID[i] = int32(i)
	}
	slices.SortFunc(byID, func(a, b int32) int { return cmp.Or(bytes.Compare(all[a].id, all[b].id), cmp.Compare(a, b)) })
	it, err := u.reader(fresh).NewIter(c.indexes[0].Ident, all[byID[0]].id, nil)
	if err != nil {
		return err
	}
	defer it.Close()
	more := it.First()
	for i, n := range byID {
		d := &all[n]
		if i > 0 && bytes.Equal(d.id, all[byID[i-1]].id) {
			d.taken = true
			continue
		}
		if more && bytes.Compare(it.Key(), d.id) < 0 {
			more = it.SeekGE(d.id)
		}
		if d.taken = more && bytes.Equal(it.Key(), d.id); d.taken && c.sections != nil {
			v, err := it.Value()
			if err != nil {
				return err
			}
			d.taken = !c.dead(v)
		}
	}
	return it.Err()
}

// landFree reports whether no _id of documents is taken, where one look at the records tells
// it: the record keys follow from the _ids, they rise, and none is from the first to the last.
// It says no where it cannot tell.
func (u *Unit) landFree(c *Collection, all []imported, fresh bool) (bool, error) {
	if c.layout.FoundByID() != layout.ByValue || c.collator() != nil {
		return false, nil
	}
	for i := range all {
		if !hashesAsItCompares(all[i].doc.Lookup("_id").Type) || i > 0 && bytes.Compare(all[i-1].record, all[i].record) >= 0 {
			return false, nil
		}
	}
	last := all[len(all)-1].record
	it, err := u.reader(fresh).NewIter(c.Ident, all[0].record, append(last[:len(last):len(last)], 0))
	if err != nil {
		return false, err
	}
	defer it.Close()
	return !it.First() && it.Err() == nil, it.Err()
}

// hashesAsItCompares reports whether equal values of which one has the type have one hash.
// Of a decimal and a double with a fraction that is not so.
func hashesAsItCompares(t bson.Type) bool {
	switch t {
	case bson.TypeObjectID, bson.TypeInt32, bson.TypeInt64, bson.TypeString, bson.TypeBinary, bson.TypeDate, bson.TypeBool:
		return true
	}
	return false
}

// entriesOfImported appends the entries of a document.
func (u *Unit) entriesOfImported(c *Collection, d *imported, entries []importedEntry) ([]importedEntry, error) {
	u.record, u.keyRoom = append(u.record[:0], d.record...), 0
	for i, ix := range c.indexes {
		u.plan = u.plan[:0]
		if err := u.planKeys(c, ix, d.doc, slot(&u.fresh, i)); err != nil {
			return nil, err
		}
		for _, w := range u.plan {
			if w.placed {
				continue // its owner has checked that it is the only one
			}
			u.entry, u.value = ix.appendEntry(u.entry[:0], u.value[:0], w.key, u.record)
			both := append(append(make([]byte, 0, len(u.entry)+len(u.value)), u.entry...), u.value...)
			entries = append(entries, importedEntry{ix, i, both[:len(u.entry):len(u.entry)], both[len(u.entry):]})
		}
	}
	return entries, nil
}

// writeImported writes entries in the order of their keyspaces.
func (u *Unit) writeImported(c *Collection, entries []importedEntry) error {
	order := make([]int32, len(entries))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(entries[a].n, entries[b].n), bytes.Compare(entries[a].key, entries[b].key))
	})
	watch := c.live.watch.Load()
	for _, i := range order {
		e := &entries[i]
		watch.note(e.ix, e.key)
		if err := u.u.Set(e.ix.Ident, e.key, e.value); err != nil {
			return err
		}
	}
	u.added += int64(len(entries))
	return nil
}

// store makes an effect's writes visible, at an index of the log of a group. Records in a range
// that the collection receives, which it hides, may be there before the rest.
func (e *Effect) store(at uint64) error {
	if id, into := e.fills(); at > 0 && id != 0 {
		return e.u.ApplyApart(at, id, into.From, into.To)
	}
	return e.u.Apply(at)
}

// fills returns where an effect may store records apart: a keyspace, and a range of it; 0 for
// nowhere.
func (e *Effect) fills() (id storage.Ident, into layout.KeyRange) {
	if e.u.Size() < storage.ApartMin {
		return 0, into
	}
	for one := range e.u.Counted {
		if l := e.c.liveOf(one); l != nil && id == 0 {
			id, into = l.receives()
		}
	}
	return id, into
}

// receives returns the keyspace of the records, and the range of them that is being received
// from another shard; 0 for none.
func (l *live) receives() (id storage.Ident, r layout.KeyRange) {
	c := l.current.Load()
	if c == nil || c.sharding == nil {
		return 0, r
	}
	for _, h := range c.sharding.Hidden {
		if !h.Receiving {
			continue
		}
		if k, ok := c.Chunk(h.ShardRange); ok {
			if r, ok = k.Whole(); ok {
				return c.Ident, r
			}
		}
	}
	return 0, r
}
