package catalog

import (
	"bytes"
	"io"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Reading a collection during a relayout, or after one in this process. A reader may
// have a descriptor and a state of the store from before, during or after the
// relayout; the code here finds a document in each, in its one place (invariant
// one-place).

// relaid is the state of a collection's relayouts.
type relaid struct {
	// ids is the keyspace of the index on _id that has entries of what is in windows.
	ids storage.Ident
	// turns is how often a relayout has begun or ended.
	turns int
	// over says that the collection was emptied since, and then laid by its shard key, or by
	// windows or slots with a keyspace of entries that is not ids: all documents of before were gone
	// when that began, and there are no two halves any more.
	over bool
}

// noteRelaid records that c replaces another descriptor, or none. The gate is closed.
func (c *Collection) noteRelaid(old *Collection) {
	was := c.live.relaid.Load()
	switch {
	case c.relay != nil && (old == nil || old.relay == nil):
		n := &relaid{ids: c.indexes[0].Ident, turns: 1}
		if was != nil {
			n.turns = was.turns + 1
		}
		c.live.relayed.Store(nil)
		c.live.relaid.Store(n)
	case c.relay == nil && old != nil && old.relay != nil:
		c.live.relaid.Store(&relaid{ids: was.ids, turns: was.turns + 1})
	case was != nil && !was.over && c.entersIDs() && (c.sections == nil || c.relay == nil && c.indexes[0].Ident != was.ids):
		// A reader that saw one of those states does not know what it has seen.
		c.live.relaid.Store(&relaid{ids: was.ids, turns: was.turns + 4, over: true})
	}
}

// Relaid reports whether documents may be in either half of a layout.Relay, in some
// state of the store since the process began.
func (c *Collection) Relaid() bool {
	r := c.live.relaid.Load()
	return r != nil && !r.over
}

// Relaying reports whether a relayout of the collection is in progress.
func (c *Collection) Relaying() bool { return c.relay != nil }

// Moves reports whether documents may move now, so that a reader that continues in another state
// of the store would miss some: in a relayout, in a time-series collection, whose measurements
// move into buckets, and where a change of the shard key, by which documents lie, moves them.
func (c *Collection) Moves() bool {
	now := c.live.current.Load()
	return c.IsTimeseries() || now.relay != nil || now.liesByShardKey()
}

// Turns returns how often a relayout of the collection has begun or ended since the
// process began. A scan that continues in another state of the store compares it:
// see CheckTurns.
func (c *Collection) Turns() int {
	if r := c.live.relaid.Load(); r != nil {
		return r.turns
	}
	return 0
}

// CheckTurns returns error 175 if the layout has changed so often since a scan
// began that it is not known what the scan has seen.
func (c *Collection) CheckTurns(begun int) error {
	if now := c.Turns(); (now+1)/2 > begun/2+1 {
		return mongoerr.New(mongoerr.QueryPlanKilled, "the layout of the collection was changed while the query waited. UUID %s", c.UUID)
	}
	return nil
}

// findEither is FindID in either half, in any state. If another relayout has
// begun in the meantime, it tries again.
func (c *Collection) findEither(dst RecordKey, r storage.Reader, id bson.Value) (record RecordKey, doc bson.Doc, closer io.Closer, err error) {
	n := len(dst)
	for {
		turns := c.Turns()
		record, doc, closer, err = c.findEitherOnce(dst[:n], r, id)
		if err != nil || doc != nil || c.Turns() == turns {
			return record, doc, closer, err
		}
	}
}

func (c *Collection) findEitherOnce(dst RecordKey, r storage.Reader, id bson.Value) (record RecordKey, doc bson.Doc, closer io.Closer, err error) {
	n := len(dst)
	byID := func() {
		record = c.appendID(dst[:n], id)
		doc, closer, err = c.find(r, record[n:])
	}
	now := c.live.current.Load()
	back := now.ClusteredByID() || now.relay != nil && now.relay.Back
	stays := !back && now.relay != nil && c.likelyStays(id)
	if back || stays {
		if byID(); err != nil || doc != nil {
			return record, doc, closer, err
		}
	}
	if record, doc, closer, err = c.findByEntry(dst, r, id); err != nil || doc != nil {
		return record, doc, closer, err
	}
	if stays { // both were asked in the order in which documents move
		return record, nil, nil, nil
	}
	if byID(); err != nil || doc != nil {
		return record, doc, closer, err
	}
	// Where r reads the latest state, it may have moved to a window between the
	// lookups.
	return c.findByEntry(dst, r, id)
}

// likelyStays reports whether a document probably has not left the half by _id yet, so
// that a lookup asks there first.
func (c *Collection) likelyStays(id bson.Value) bool {
	var room [64]byte
	key := c.appendID(room[:0], id)
	if _, moved := c.live.hints.get(hintHash(c.Ident, key)); moved {
		return false
	}
	passed := c.live.relayed.Load()
	return passed == nil || bytes.Compare(key, *passed) > 0
}

// findAgain finds a document by the key string of its _id if it has moved.
func (c *Collection) findAgain(r storage.Reader, id []byte) (to RecordKey, doc bson.Doc, closer io.Closer, err error) {
	if c.entersIDs() {
		to, found, err := c.entryOf(nil, r, id)
		if err != nil {
			return nil, nil, nil, err
		}
		if found {
			if doc, closer, err = c.find(r, to); err != nil || doc != nil {
				return to, doc, closer, err
			}
		}
	}
	if !c.Relaid() {
		return nil, nil, nil, nil
	}
	to = bytes.Clone(id)
	doc, closer, err = c.find(r, to)
	return to, doc, closer, err
}

// Ranges returns the records of the collection in the order in which a scan must read
// them: of two halves the one that documents leave comes first, so that none moves
// from what is still to be read to what has been read already when a scan continues in
// a later state. Backward, each range is read from its end.
func (c *Collection) Ranges(backward bool) []layout.KeyRange {
	if !c.Relaid() {
		return []layout.KeyRange{{}}
	}
	first, then := layout.HalfByID, layout.HalfWindows
	if now := c.live.current.Load(); now.ClusteredByID() || now.relay != nil && now.relay.Back {
		first, then = then, first
	}
	var all []layout.KeyRange
	for _, half := range []layout.Half{first, then} {
		for i := range half {
			if backward {
				i = len(half) - 1 - i
			}
			all = append(all, half[i])
		}
	}
	return all
}

// EntryIter opens an iterator over the entries of an index between two bounds, in a
// state of the store. For the index on _id it may merge the entries of documents in
// windows with the records by _id, and for one on the shard key the records with the entries of
// documents that are set apart: SplitEntry splits them.
func (c *Collection) EntryIter(r storage.Reader, ix *Index, lower, upper []byte) (*storage.Iter, error) {
	if ix.IsID() && c.Relaid() {
		return c.idIter(r, lower, upper)
	}
	if ix.OnPlace == nil {
		return r.NewIter(ix.Ident, lower, upper)
	}
	end := upper
	if end == nil {
		end = layout.PlacesEnd
	}
	placed, err := storage.NewIterUnder(r, c.Ident, layout.First, lower, end)
	if err != nil || !ix.Multikey().Any() { // so none is apart (invariant multikey-first)
		return placed, err
	}
	others, err := r.NewIter(ix.Ident, lower, upper)
	if err != nil {
		placed.Close()
		return nil, err
	}
	return storage.Join(others, placed), nil
}

// SplitEntry splits the current entry of an index, of an iterator that EntryIter has opened, into
// its parts: see Index.Split; of an index OnPlace the record key is always appended to dst. doc is
// the document, where the record is the entry; else nil.
func (c *Collection) SplitEntry(dst RecordKey, ix *Index, it *storage.Iter, value []byte) (keyString []byte, record RecordKey, typeBits []byte, doc bson.Doc) {
	switch {
	case it.Joined() && ix.IsID():
		return c.splitID(dst, it, value)
	case ix.OnPlace != nil && it.Joined() && it.Part() == 0:
		if keyString, record, typeBits = splitEntry(it.Key(), value); record != nil {
			record = append(dst, record...)
		}
		return keyString, record, typeBits, nil
	case ix.OnPlace != nil:
		keyString, record, typeBits = ix.splitRecord(dst, it.Key(), value)
		return keyString, record, typeBits, value
	}
	keyString, record, typeBits = ix.Split(dst, it.Key(), value)
	if ix.Records {
		doc = value
	}
	return keyString, record, typeBits, doc
}

func (c *Collection) idIter(r storage.Reader, lower, upper []byte) (*storage.Iter, error) {
	var parts []*storage.Iter
	open := func(id storage.Ident, lower, upper []byte) error {
		it, err := r.NewIter(id, lower, upper)
		if err == nil {
			parts = append(parts, it)
		}
		return err
	}
	err := open(c.live.relaid.Load().ids, lower, upper)
	for _, of := range layout.HalfByID {
		from, to := max(string(lower), string(of.From)), string(of.To)
		if upper != nil {
			to = min(to, string(upper))
		}
		if err == nil && from < to {
			err = open(c.Ident, []byte(from), []byte(to))
		}
	}
	if err != nil {
		for _, it := range parts {
			it.Close()
		}
		return nil, err
	}
	return storage.Join(parts...), nil
}

// splitID splits the current entry of a merged iterator: the key string of _id, the
// record key, and the type bits. doc is the document where the record is by _id, else
// nil. What is not part of the current key and value is appended to dst.
func (c *Collection) splitID(dst []byte, it *storage.Iter, value []byte) (key []byte, record RecordKey, typeBits []byte, doc bson.Doc) {
	key = it.Key()
	if it.Part() == 0 {
		prefix, bits := layout.SplitInRelay(value)
		if prefix == nil {
			return nil, nil, nil, nil
		}
		n := len(dst)
		dst = append(append(dst, prefix...), key...)
		return key, dst[n:], bits, nil
	}
	doc = bson.Doc(value)
	return key, key, keystring.TrimTypeBits(keystring.AppendTypeBits(nil, doc.Lookup("_id"))), doc
}
