package shardsvr

import (
	"bytes"
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// A range of a collection that is laid out by the shard key is scanned in the order of its
// records (catalog.Collection.Resumable), else by an index on the shard key, so the cost depends
// on the range alone. If there is no such index (a hashed one may be dropped), the whole
// collection is scanned in the order of _id, and documents outside the range are skipped.
//
// A walk can be resumed at a place, on any member and in any later snapshot: {_id} in
// the order of _id; {record}, binary, in that of the records, which stays while the shard
// key does, and in slots while {of}, the ident of the index on _id, does; else {key, id}, binary,
// and {of}, the ident of the index: the key there, and, of the documents that have that key, the
// identity of the last one. Another index has them in another order, so the walk begins anew
// where it takes the place of the first. Documents with one key come in the order of their identities,
// not of their records: a record's key may change between two requests (windows of expiry),
// and the document would be missed.

// runEntries and runBytes bound the buffered documents with one key, if their records are in
// another order than their identities: those with the lowest identities are buffered, and
// the others need another walk.
const (
	runEntries = 4096
	runBytes   = 1 << 20
)

// all stands for all _ids.
var all = bson.Value{Type: bson.Missing}

// each calls f with the documents of a range, in a stable order, starting after a place
// unless that is missing, until f returns false. at makes the document's place.
func (s *Shard) each(ctx context.Context, c *catalog.Collection, span schema.ShardRange, after bson.Value, f func(doc bson.Doc, at func() bson.Value) bool) error {
	var id bson.Value
	if chunk, ok := c.Resumable(span); ok {
		latest, err := s.eachRecord(ctx, c, chunk, after, f)
		if err != nil || latest == c {
			return err
		}
		return s.each(ctx, latest, span, after, f) // which lies in another way now
	}
	w := keyWalk{s: s, coll: c, span: span, f: f}
	if c.HoldsBuckets() && (c.ShardKeyIndex() == nil || after.Type == bson.TypeDocument && after.Doc().Has("record")) {
		return s.eachBucket(ctx, c, span, after, f)
	}
	if after.Type == bson.TypeDocument {
		id = after.Doc().Lookup("_id")
		w.key, w.id = binary(after, "key"), binary(after, "id")
		of, _ := bson.ExactInt64(after.Doc().Lookup("of"))
		w.of = storage.Ident(of)
	}
	if id.IsMissing() {
		if walked, err := w.all(ctx); walked || err != nil {
			return err
		}
	}
	return s.eachByID(ctx, c, span, all, id, f)
}

// eachBucket is each for buckets that no index has in the order of the shard key: all records
// are walked.
func (s *Shard) eachBucket(ctx context.Context, c *catalog.Collection, span schema.ShardRange, after bson.Value, f func(doc bson.Doc, at func() bson.Value) bool) error {
	key := c.Sharding().Key
	_, err := s.eachRecord(ctx, c, layout.Chunk{}, after, func(doc bson.Doc, at func() bson.Value) bool {
		place, err := key.Append(nil, doc)
		return err != nil || !span.Holds(place) || f(doc, at)
	})
	return err
}

// eachRecord is each for the records of a chunk. It returns the collection or, without a call
// of f, another descriptor of it if that has come meanwhile: the state of the store may be of
// that one's layout.
func (s *Shard) eachRecord(ctx context.Context, c *catalog.Collection, chunk layout.Chunk, after bson.Value, f func(doc bson.Doc, at func() bson.Value) bool) (latest *catalog.Collection, err error) {
	var of int64 // records of another time in which the collection had windows are in another order
	if c.Windowed() {
		of = int64(c.Indexes()[0].Ident)
	}
	if after.Type == bson.TypeDocument {
		is, _ := bson.ExactInt64(after.Doc().Lookup("of"))
		if last := binary(after, "record"); last != nil && is == of {
			chunk.From = append(last, 0)
		}
	}
	scan, err := s.exec.ScanRecords(c, chunk)
	if err != nil {
		return c, err
	}
	defer func() {
		if cerr := scan.Close(); err == nil {
			err = cerr
		}
	}()
	if now := c.Latest(); now != c && (c.Windowed() || c.ClusteredByID()) {
		if now == nil {
			return c, mongoerr.New(mongoerr.NamespaceNotFound, "the collection was dropped")
		}
		return now, nil
	}
	for {
		record, doc, err := scan.Next(ctx)
		if doc == nil || err != nil {
			return c, err
		}
		if !f(doc, func() bson.Value {
			b := new(bson.Builder).Binary("record", 0, record)
			if of != 0 {
				b.Int64("of", of)
			}
			return bson.Document(b.Finish())
		}) {
			return c, nil
		}
	}
}

func binary(doc bson.Value, name string) []byte {
	if v := doc.Doc().Lookup(name); v.Type == bson.TypeBinary {
		_, b := v.Binary()
		return bytes.Clone(b)
	}
	return nil
}

// keyWalk is a walk of a range by an index.
type keyWalk struct {
	s     *Shard
	coll  *catalog.Collection
	index *catalog.Index
	span  schema.ShardRange
	f     func(doc bson.Doc, at func() bson.Value) bool
	key   []byte // the place: everything up to it was passed to f
	id    []byte
	of    storage.Ident // the index that the place is of
	// ordered says that records with one key are in the order of identities.
	ordered bool

	scan  *exec.KeyScan
	run   []entry // of the documents with the key at hand, in the order of identities
	held  int     // its bytes
	short bool    // there are more than fit into run
}

// all walks to the end, or until f returns false; walked is false if no index supports the key.
func (w *keyWalk) all(ctx context.Context) (walked bool, err error) {
	for again := true; again; {
		if again, err = w.walk(ctx); err != nil {
			return false, err
		}
		if w.coll == nil {
			return false, mongoerr.New(mongoerr.NamespaceNotFound, "the collection was dropped")
		}
	}
	return w.index != nil, nil
}

// entry is the entry of a document; id is its identity.
type entry struct{ id, record []byte }

// open opens a scan of the current collection; its index is nil if none supports the key.
func (w *keyWalk) open() error {
	for {
		latest := w.coll.Latest()
		if latest == nil {
			w.coll = nil
			return nil
		}
		w.coll = latest.Stored()
		if w.index = w.coll.ShardKeyIndex(); w.index == nil {
			return nil
		}
		if w.index.Ident != w.of { // one became multikey, and another takes its place
			w.key, w.id, w.of = nil, nil, w.index.Ident
		}
		from := w.span.Min.Key
		if bytes.Compare(w.key, from) > 0 {
			from = bytes.Clone(w.key)
		}
		w.scan = w.s.exec.ScanKeys(w.coll, w.index, from, w.span.Max.Key)
		// Otherwise the snapshot may be of a later layout.
		if w.coll.Latest() == latest {
			w.ordered = !w.coll.Windowed() && !w.coll.Relaid()
			return nil
		}
		if err := w.scan.Close(); err != nil {
			return err
		}
	}
}

// walk passes the documents after the place to f. again says that it must be called again
// for documents that did not fit into the run.
func (w *keyWalk) walk(ctx context.Context) (again bool, err error) {
	if err := w.open(); err != nil || w.coll == nil || w.index == nil {
		return false, err
	}
	defer func() {
		if cerr := w.scan.Close(); err == nil {
			err = cerr
		}
	}()
	var at []byte
	for {
		key, record, err := w.scan.Next(ctx)
		if err != nil {
			return false, err
		}
		if key == nil {
			_, again, err = w.flush(at)
			return again, err
		}
		if !bytes.Equal(key, at) || at == nil {
			if more, again, err := w.flush(at); err != nil || again || !more {
				return again, err
			}
			at = append(at[:0], key...)
		}
		id := w.coll.Identity(record)
		if bytes.Equal(key, w.key) && bytes.Compare(id, w.id) <= 0 {
			continue
		}
		if !w.ordered {
			w.remember(id, record)
			continue
		}
		if more, err := w.pass(at, id, record); err != nil || !more {
			return false, err
		}
	}
}

// remember adds an entry to the run.
func (w *keyWalk) remember(id, record []byte) {
	i, _ := slices.BinarySearchFunc(w.run, id, func(e entry, id []byte) int { return bytes.Compare(e.id, id) })
	if i == len(w.run) && w.short {
		return
	}
	w.run = slices.Insert(w.run, i, entry{bytes.Clone(id), bytes.Clone(record)})
	w.held += len(id) + len(record)
	for last := len(w.run) - 1; last > 0 && (last >= runEntries || w.held > runBytes); last-- {
		w.held -= len(w.run[last].id) + len(w.run[last].record)
		w.run, w.short = w.run[:last], true
	}
}

// flush passes the run of a key to f. more is false if f returned false, again is true if
// the key has more documents.
func (w *keyWalk) flush(key []byte) (more, again bool, err error) {
	for _, e := range w.run {
		if more, err := w.pass(key, e.id, e.record); err != nil || !more {
			return false, false, err
		}
	}
	again = w.short
	w.run, w.held, w.short = w.run[:0], 0, false
	return true, again, nil
}

// pass passes a document to f, and returns its result.
func (w *keyWalk) pass(key, id, record []byte) (more bool, err error) {
	err = w.scan.Document(record, func(doc bson.Doc) error {
		if err := invariant.Require(doc != nil, "shardsvr: an entry in a state of the store has a document"); err != nil {
			return err
		}
		more = w.f(doc, func() bson.Value {
			return bson.Document(new(bson.Builder).Binary("key", 0, key).Binary("id", 0, id).Int64("of", int64(w.of)).Finish())
		})
		return nil
	})
	if more {
		w.key, w.id = append(w.key[:0], key...), append(w.id[:0], id...)
	}
	return more, err
}

// eachByID is each in the order of _id, for those of the range that have some _ids, an array,
// or all of them.
func (s *Shard) eachByID(ctx context.Context, c *catalog.Collection, span schema.ShardRange, ids, after bson.Value, f func(doc bson.Doc, at func() bson.Value) bool) error {
	place := bson.Value{Type: bson.Missing}
	if !after.IsMissing() {
		place = bson.Document(new(bson.Builder).Value("_id", after).Finish())
	}
	cur, err := s.byID(ctx, c, ids, place)
	if err != nil {
		return err
	}
	defer cur.Close()
	key := c.Sharding().Key
	var room []byte
	for {
		doc, err := cur.Next(ctx)
		if err != nil || doc == nil {
			return err
		}
		id := doc.Lookup("_id")
		if !after.IsMissing() && bson.Equal(id, after) {
			continue // where it continues is included
		}
		if room, err = key.Append(room[:0], doc); err != nil || !span.Holds(room) {
			continue
		}
		if !f(doc, func() bson.Value { return bson.Document(new(bson.Builder).Value("_id", id).Finish()) }) {
			return nil
		}
	}
}

// byID reads a collection in the order of _id from a place {_id} on, missing for the first,
// all of it or the documents with some _ids, an array.
func (s *Shard) byID(ctx context.Context, c *catalog.Collection, ids, after bson.Value) (*exec.Cursor, error) {
	filter := bson.Empty
	if ids.Type == bson.TypeArray {
		filter = new(bson.Builder).OpenDoc("_id").Value("$in", ids).Close().Finish()
	}
	parsed, err := match.Parse(filter, nil)
	if err != nil {
		return nil, err
	}
	q := &exec.Query{Query: plan.Query{Filter: parsed}, All: true}
	if q.Sort, err = sortkey.Parse(new(bson.Builder).Int32("_id", 1).Finish()); err != nil {
		return nil, err
	}
	if after.Type == bson.TypeDocument {
		q.Hint, q.Min = bson.Document(new(bson.Builder).Int32("_id", 1).Finish()), after.Doc()
	}
	return s.exec.Find(ctx, c, q)
}
