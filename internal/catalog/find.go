package catalog

import (
	"bytes"
	"errors"
	"io"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/storage"
)

// lockName identifies a document among the locks: it is the part of its record
// key that it keeps when it moves to another window.
func (c *Collection) lockName(record RecordKey) []byte {
	if c.Relaid() { // a scan that began earlier may have found it
		return record.IDInRelay()
	}
	return c.layout.Identity(record)
}

// Identity returns the part of a record key that a document keeps for its life.
func (c *Collection) Identity(record RecordKey) []byte { return c.lockName(record) }

// FindsByID reports whether FindID finds a document with a few lookups, without a scan.
func (c *Collection) FindsByID() bool { return c.ClusteredByID() || c.entersIDs() }

// FindID reads the document with an _id; both results are nil if there is
// none. The record key is appended to dst.
// REQUIRES: FindsByID.
func (c *Collection) FindID(dst RecordKey, r storage.Reader, id bson.Value) (record RecordKey, doc bson.Doc, closer io.Closer, err error) {
	if err := invariant.Require(c.FindsByID(), "catalog: FindID is of a collection that FindsByID"); err != nil {
		return dst, nil, nil, err
	}
	if c.Relaid() {
		return c.findEither(dst, r, id)
	}
	switch {
	case c.ClusteredByID():
		record = c.appendID(dst, id)
		doc, closer, err = c.find(r, record)
	case c.sections == nil:
		record, doc, closer, err = c.findByPrefix(dst, r, id)
	default:
		record, doc, closer, err = c.findByEntry(dst, r, id)
	}
	if err == nil && doc == nil && c.Relaid() { // since the lookup began
		return c.findEither(dst, r, id)
	}
	return record, doc, closer, err
}

// find reads the document of a record key; nil if there is none.
func (c *Collection) find(r storage.Reader, record RecordKey) (bson.Doc, io.Closer, error) {
	doc, closer, err := r.Get(c.Ident, record)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil, nil
	}
	return doc, closer, err
}

// findByEntry finds a document whose section is in the entry of its _id: where it
// was last seen or, where it no longer is there, where the entry says.
func (c *Collection) findByEntry(dst RecordKey, r storage.Reader, id bson.Value) (record RecordKey, doc bson.Doc, closer io.Closer, err error) {
	var room [64]byte
	name, n := c.appendID(room[:0], id), len(dst)
	hash := hintHash(c.Ident, name)
	window, hinted := c.live.hints.get(hash)
	if hinted && !c.live.lowWater.Load().Below(window) {
		if record, hinted = c.seenIn(dst, window, id, name); hinted {
			doc, closer, err = c.find(r, record[n:])
			if err != nil || doc != nil {
				return record, doc, closer, err
			}
		}
	}
	var last []byte
	for {
		record, found, err := c.entryOf(dst[:n], r, name)
		if err != nil || !found || last != nil && bytes.Equal(record[n:], last) {
			return record, nil, nil, err
		}
		doc, closer, err = c.find(r, record[n:])
		if doc != nil {
			c.live.hints.put(hash, record[n:].Section())
		}
		if err != nil || doc != nil {
			return record, doc, closer, err
		}
		// Where r reads the latest state, it may have moved between the two lookups.
		last = append(last[:0], record[n:]...)
	}
}

// seenIn appends the record key of a document that was last seen in a window; ok is false if
// that does not tell it. The descriptor may be of before the collection had windows.
func (c *Collection) seenIn(dst RecordKey, window uint64, id bson.Value, name []byte) (record RecordKey, ok bool) {
	sections := c.live.current.Load().sections
	if sections == nil {
		return dst, false
	}
	return sections.Seen(dst, window, id, name)
}

// findByPrefix finds a document whose record key follows from its _id or, where it does
// not, is in the entry of that.
func (c *Collection) findByPrefix(dst RecordKey, r storage.Reader, id bson.Value) (record RecordKey, doc bson.Doc, closer io.Closer, err error) {
	var room [64]byte
	name, n := c.appendID(room[:0], id), len(dst)
	if c.layout.FoundByID() == layout.ByValue {
		record = c.layout.Append(dst, layout.Place{IDValue: id, ID: name})
		if doc, closer, err = c.find(r, record[n:]); err != nil || doc != nil {
			return record, doc, closer, err
		}
	}
	for range findTries {
		var found bool
		if record, found, err = c.entryOf(dst[:n], r, name); err != nil || !found {
			return record, nil, nil, err
		}
		if doc, closer, err = c.find(r, record[n:]); err != nil || doc != nil {
			return record, doc, closer, err
		}
	}
	return record, nil, nil, nil
}

// findTries is how often an entry of _id is looked at for a document that is not where it
// says: where the newest state is read, it may have moved between the two lookups.
const findTries = 4

// entryOf appends the record key in the entry of a key string of _id; the entry may be dead.
func (c *Collection) entryOf(dst RecordKey, r storage.Reader, id []byte) (record RecordKey, found bool, err error) {
	in, relaid := c.indexes[0].Ident, c.live.relaid.Load()
	two := relaid != nil && !relaid.over
	if two {
		in = relaid.ids // the descriptor may be older
	}
	v, closer, err := r.Get(in, id)
	if errors.Is(err, storage.ErrNotFound) {
		return dst, false, nil
	}
	if err != nil {
		return dst, false, err
	}
	defer closer.Close()
	prefix, _ := layout.SplitInRelay(v)
	if !two {
		prefix = v[:c.layout.Prefix(v)]
	}
	return append(append(dst, prefix...), id...), true, nil
}
