package exec

import (
	"bytes"
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/query/exec/keyrange"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// KeyScan reads the entries of an index whose keys lie in a range of bytes, in order, over
// one state of the store: those of all documents, hidden or not. It must be closed.
type KeyScan struct {
	scan  indexScan
	row   stage.Row
	works int
	done  func()
}

// ScanKeys opens a scan of the entries of an index from one key up to, but not including,
// another, over a fresh snapshot.
func (x *Executor) ScanKeys(c *catalog.Collection, ix *catalog.Index, from, to []byte) *KeyScan {
	source, done := x.freshSource(c)
	return &KeyScan{scan: source.scanKeys(ix, from, to), done: done}
}

func (s *source) scanKeys(ix *catalog.Index, from, to []byte) indexScan {
	p := planIndex(ix)
	p.Index = ix.Form
	return indexScan{
		stats: stage.Stats{Node: &plan.IndexScan{Index: p}}, index: p, source: s,
		ranges: &keyrange.Ranges{Lower: from, Upper: to, Exact: true, None: bytes.Compare(from, to) >= 0},
	}
}

// Next moves to the next entry: its key, without what follows the fields of the index, and
// its record; both are valid until the following call, and nil at the end.
func (s *KeyScan) Next(ctx context.Context) (key, record []byte, err error) {
	for ; ; s.works++ {
		if s.works%stage.CtxEvery == 0 && ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		state, err := s.scan.Work(ctx, &s.row)
		if err != nil || state == stage.EOF {
			return nil, nil, err
		}
		if state == stage.Advanced {
			s.works++
			return s.row.Key, s.row.Record, nil
		}
	}
}

// RecordScan reads the documents of a chunk, in the order of their records, over one state of
// the store: all of them, hidden or not. It must be closed.
type RecordScan struct {
	it    *catalog.ChunkIter
	begun bool
	works int
	done  func()
}

// ScanRecords opens a scan of the records of a chunk, over a fresh snapshot.
func (x *Executor) ScanRecords(c *catalog.Collection, k layout.Chunk) (*RecordScan, error) {
	source, done := x.freshSource(c)
	scan, err := source.scanRecords(k, done)
	if err != nil {
		done()
	}
	return scan, err
}

func (s *source) scanRecords(k layout.Chunk, done func()) (*RecordScan, error) {
	it, err := s.coll.EachOf(s.reader, k)
	if err != nil {
		return nil, err
	}
	return &RecordScan{it: it, done: done}, nil
}

// Next moves to the next document and its record; both are valid until the following call,
// and nil at the end.
func (s *RecordScan) Next(ctx context.Context) (record []byte, doc bson.Doc, err error) {
	if s.works++; s.works%stage.CtxEvery == 0 && ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	ok := false
	if s.begun {
		ok = s.it.Next()
	} else {
		ok, s.begun = s.it.First(), true
	}
	if !ok {
		return nil, nil, s.it.Err()
	}
	v, err := s.it.Value()
	if err != nil {
		return nil, nil, err
	}
	return s.it.Key(), v, nil
}

// Close gives back what the scan holds.
func (s *RecordScan) Close() error {
	defer s.done()
	return s.it.Close()
}

// Document calls f with the document of a record in the scan's state of the store, nil
// if there is none. It is valid within the call.
func (s *KeyScan) Document(record []byte, f func(bson.Doc) error) error {
	doc, closer, err := s.scan.source.stored(record)
	if err != nil {
		return err
	}
	if doc == nil {
		return f(nil)
	}
	defer closer.Close()
	return f(doc)
}

// Close releases the resources of the scan.
func (s *KeyScan) Close() error {
	defer s.done()
	return s.scan.Close()
}

// countOwned counts the documents of the collection that the shard owns: all in the
// source's state of the store, except those in hidden ranges, which are read without the others
// (Collection.ReadsRanges).
func (s *source) countOwned(ctx context.Context) (int64, error) {
	n, _, err := storage.ReadCounter(s.reader, s.coll.Ident)
	if err != nil {
		return 0, err
	}
	for _, h := range s.coll.Sharding().Hidden {
		hidden, err := s.countRange(ctx, h.ShardRange)
		if err != nil {
			return 0, err
		}
		n -= hidden
	}
	return n, nil
}

// countRange counts the documents in a range of the shard key: by the records, if the layout
// knows them, else by an index.
func (s *source) countRange(ctx context.Context, r schema.ShardRange) (n int64, err error) {
	var next func(context.Context) (key, value []byte, err error)
	var end func() error
	ix := s.coll.ShardKeyIndex()
	// In slots entries are shorter, and may be fewer than windows; and after a relayout, or one that
	// has begun, the state may be of another layout than the descriptor.
	if chunk, ok := s.coll.Chunk(r); ok && (ix == nil || !s.coll.Windowed() && !s.coll.ClusteredByID()) {
		k, err := s.scanRecords(chunk, func() {})
		if err != nil {
			return 0, err
		}
		next, end = func(ctx context.Context) ([]byte, []byte, error) {
			record, _, err := k.Next(ctx)
			return record, nil, err
		}, k.Close
	} else {
		if err := invariant.Require(ix != nil, "exec: the documents of a range can be read without the others"); err != nil {
			return 0, err
		}
		k := &KeyScan{scan: s.again().scanKeys(ix, r.Min.Key, r.Max.Key), done: func() {}}
		next, end = k.Next, k.Close
	}
	defer func() {
		if cerr := end(); err == nil {
			err = cerr
		}
	}()
	for {
		key, _, err := next(ctx)
		if key == nil || err != nil {
			return n, err
		}
		n++
	}
}
