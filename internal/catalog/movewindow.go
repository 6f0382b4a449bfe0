package catalog

import (
	"bytes"
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/storage"
)

// insertWindowed is Insert for a collection that is clustered by windows.
func (u *Unit) insertWindowed(ctx context.Context, c *Collection, doc bson.Doc) error {
	id := doc.Lookup("_id")
	u.id = c.appendID(u.id[:0], id)
	fresh, err := u.u.Lock(ctx, storage.LockRecord, c.Ident, u.id)
	if err != nil {
		return err
	}
	window, found, err := c.windowOf(u.reader(fresh), u.id)
	if err != nil {
		return err
	}
	if found && !c.live.lowWater.Load().below(window) {
		u.record = append(appendWindow(u.record[:0], window), u.id...)
		made, err := u.makeRoom(ctx, c, u.record)
		if err != nil {
			return err
		}
		if !made {
			return duplicateID(c, id)
		}
	}
	window = c.placeOf(doc)
	u.e.hints = append(u.e.hints, hintNote{hintHash(c.Ident, u.id), window})
	u.record = append(appendWindow(u.record[:0], window), u.id...)
	return u.insert(ctx, c, doc)
}

// placeOf is the window in which a document is stored: its own, or the first
// one that is not gone.
func (c *Collection) placeOf(doc bson.Doc) uint64 {
	return c.live.lowWater.Load().lift(c.windows.of(doc))
}

// follow is the end of LockRecord where the record is not there: the document
// may have moved to another window, and Update and Delete then find it there.
func (u *Unit) follow(c *Collection, key RecordKey, fresh bool) (bson.Doc, error) {
	r := u.reader(fresh)
	id := c.lockName(key)
	window, found, err := c.windowOf(r, id)
	if err != nil || !found {
		return nil, err
	}
	to := append(appendWindow(nil, window), id...)
	doc, closer, err := c.find(r, to)
	if err != nil || doc == nil {
		return nil, err
	}
	defer closer.Close()
	u.moved.from, u.moved.to = bytes.Clone(key), to
	return doc.Clone(), nil
}

// resolve is the record key of a document that LockRecord found under key.
func (u *Unit) resolve(key RecordKey) RecordKey {
	if u.moved.from != nil && string(u.moved.from) == string(key) {
		return u.moved.to
	}
	return key
}

// move takes a document, which is locked, to the window of its date. That it
// is not in it already is for the caller to see to.
func (u *Unit) move(c *Collection, key RecordKey, doc bson.Doc) error {
	u.record = append(appendWindow(u.record[:0], c.placeOf(doc)), c.lockName(key)...)
	for i, ix := range c.indexes {
		if !ix.hasEntries() {
			continue
		}
		for _, k := range ix.oldKeys(doc, slot(&u.keys, i)) {
			if !ix.ByWindow { // there the new entry takes the place of the old one
				u.entry, u.value = ix.appendEntry(u.entry[:0], u.value[:0], k, key)
				if err := u.u.Delete(ix.Ident, u.entry, len(u.value)); err != nil {
					return err
				}
			}
			u.entry, u.value = ix.appendEntry(u.entry[:0], u.value[:0], k, u.record)
			c.live.watch.Load().note(ix, u.entry)
			if err := u.u.Set(ix.Ident, u.entry, u.value); err != nil {
				return err
			}
		}
	}
	if err := u.u.Delete(c.Ident, key, len(doc)); err != nil {
		return err
	}
	if err := u.u.Set(c.Ident, u.record, doc); err != nil {
		return err
	}
	u.docs++
	size := int64(len(doc))
	u.countWindow(c, 1, size, u.stayed(c, doc))
	u.record = append(u.record[:0], key...)
	u.countWindow(c, -1, -size, -u.stayed(c, doc))
	return nil
}
