package catalog

import (
	"bytes"
	"context"
	"errors"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/storage"
)

// place makes u.record the record key of a new document, and locks its lock
// name, so that no other document can have its _id.
func (u *Unit) place(ctx context.Context, c *Collection, doc bson.Doc) error {
	if c.layout.InOrder() {
		return u.placeLast(ctx, c)
	}
	id := doc.Lookup("_id")
	u.id = c.appendID(u.id[:0], id)
	u.record = c.layout.Append(u.record[:0], layout.Place{Doc: doc, ID: u.id, Low: c.live.lowWater.Load()})
	if err := checkClusterKey(c, doc); err != nil {
		return err
	}
	fresh, err := u.u.Lock(ctx, storage.LockRecord, c.Ident, c.lockName(u.record))
	if err != nil {
		return err
	}
	if fresh {
		if free, err := u.absent(c, id.Type); err != nil {
			return err
		} else if free {
			u.hint(c)
			return nil
		}
	}
	holder, err := u.holder(c, fresh)
	if err != nil {
		return err
	}
	if holder != nil {
		made, err := u.makeRoom(ctx, c, holder)
		if err != nil {
			return err
		}
		if !made {
			return duplicateID(c, id)
		}
	}
	u.hint(c)
	return nil
}

// hint notes where the document of u.record is from now on, for lookups by _id.
func (u *Unit) hint(c *Collection) {
	if c.Windowed() && !u.record.OfID() {
		u.e.hints = append(u.e.hints, hintNote{hintHash(c.Ident, c.lockName(u.record)), u.record.Section()})
	}
}

// placeBucket makes u.record the record key of a new bucket, whose _id is unique.
func (u *Unit) placeBucket(c *Collection, bucket bson.Doc) {
	u.id = c.appendID(u.id[:0], bucket.Lookup("_id"))
	u.record = c.layout.Append(u.record[:0], layout.Place{Doc: bucket, ID: u.id, Low: c.live.lowWater.Load()})
}

// holder returns the record key of the document with the _id of a new one, whose record
// key and key string of _id the unit has; nil for none.
func (u *Unit) holder(c *Collection, fresh bool) (RecordKey, error) {
	r := u.reader(fresh)
	if c.entersIDs() {
		record, found, err := c.entryOf(nil, r, u.id)
		if err != nil {
			return nil, err
		}
		if found && !c.dead(record) {
			return record, nil
		}
		if c.relay == nil {
			return nil, nil
		}
	}
	_, closer, err := r.Get(c.Ident, u.id)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return u.id, closer.Close()
}

// follow ends LockRecord where the record does not exist: the document may have
// moved to another window, where Update and Delete then find it.
func (u *Unit) follow(c *Collection, key RecordKey, fresh bool) (bson.Doc, error) {
	to, doc, closer, err := c.findAgain(u.reader(fresh), c.lockName(key))
	if err != nil || doc == nil {
		return nil, err
	}
	defer closer.Close()
	u.reassigned.from, u.reassigned.to = bytes.Clone(key), to
	return doc.Clone(), nil
}

// resolve returns the record key of a document that LockRecord found under key.
func (u *Unit) resolve(key RecordKey) RecordKey {
	if u.reassigned.from != nil && string(u.reassigned.from) == string(key) {
		return u.reassigned.to
	}
	return key
}

// reassignWindow moves a locked document to where it would be stored now. The caller makes
// sure that it is not there already.
func (u *Unit) reassignWindow(c *Collection, key RecordKey, doc bson.Doc) error {
	if err := u.storeMoved(c, key, doc); err != nil {
		return err
	}
	return u.u.Delete(c.Ident, key, len(doc))
}

// storeMoved is reassignWindow but for the record that the document leaves, which the
// caller removes.
func (u *Unit) storeMoved(c *Collection, key RecordKey, doc bson.Doc) error {
	u.record = c.layout.Append(u.record[:0], layout.Place{Doc: doc, ID: c.lockName(key), Low: c.live.lowWater.Load()})
	u.keyRoom, u.e.keeps = 0, true
	u.hint(c)
	for i, ix := range c.indexes {
		was, is := ix.holds(key), ix.holds(u.record)
		if !was && !is {
			continue
		}
		keys, err := u.oldKeys(ix, doc, slot(&u.keys, i))
		if err != nil {
			return err
		}
		for _, k := range keys {
			if was && !(is && ix.ByPrefix != nil) { // there the new entry replaces the old one
				u.entry, u.value = ix.appendEntry(u.entry[:0], u.value[:0], k, key)
				if err := u.u.Delete(ix.Ident, u.entry, len(u.value)); err != nil {
					return err
				}
			}
			if !is {
				continue
			}
			u.entry, u.value = ix.appendEntry(u.entry[:0], u.value[:0], k, u.record)
			c.live.watch.Load().note(ix, u.entry)
			if err := u.u.Set(ix.Ident, u.entry, u.value); err != nil {
				return err
			}
		}
	}
	if err := u.u.Set(c.Ident, u.record, doc); err != nil {
		return err
	}
	u.docs++
	u.noteLeft(c, key, doc)
	u.noteListed(c, key, doc)
	u.noteListed(c, u.record, doc)
	size := int64(len(doc))
	u.countWindow(c, 1, size, u.third(c, doc))
	u.record = append(u.record[:0], key...)
	u.countWindow(c, -1, -size, -u.third(c, doc))
	return nil
}
