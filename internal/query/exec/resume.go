package exec

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/fnv"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
)

// A forward scan of a collection can be resumed by another command: each batch returns
// the id of its last record, and a scan can start after the record with an id. (Used by
// tools that copy collections.)

// Resume is where a scan begins.
type Resume struct {
	// Record is the id of a record: the number that showRecordId shows or, in a
	// collection clustered by its options, the record's key as binary data; null for
	// the end of a scan.
	Record bson.Value
	// Inclusive lets the scan begin with the record, not behind it.
	Inclusive bool
}

// recordID is the permanent number of a record: its position in the order of insertion
// in a capped collection, else a hash of its key.
func recordID(c *catalog.Collection, record []byte) int64 {
	if c.Capped && len(record) == 8 {
		return int64(binary.BigEndian.Uint64(record))
	}
	h := fnv.New64a()
	h.Write(c.Identity(record))
	if c.FindsByID() && !catalog.RecordKey(record).OfID() {
		h.Write([]byte{1}) // under another layout it is another position
	}
	return int64(h.Sum64() >> 1)
}

// resume moves the scan to q.Resume. Error 211 if that record does not exist.
func (r *running) resume(ctx context.Context) error {
	at := r.query.Resume
	scan, ok := scanUnder(r.winner.stage)
	if at == nil || !ok {
		return nil
	}
	record, err := r.source.recordWith(ctx, at.Record)
	switch {
	case err != nil:
		return err
	case record == nil:
		return mongoerr.New(mongoerr.KeyNotFound,
			"Failed to resume collection scan: the recordId from which we are attempting to resume no longer exists in the collection: %s", at.Record)
	case at.Inclusive:
		scan.lower = record
	default:
		scan.last = record
	}
	return nil
}

// scanUnder returns the collection scan at the bottom of a plan that has no other source.
func scanUnder(s stage.Stage) (*collScan, bool) {
	for {
		if scan, ok := s.(*collScan); ok {
			return scan, true
		}
		in := s.Inputs()
		if len(in) != 1 {
			return nil, false
		}
		s = in[0]
	}
}

// recordWith finds the record with an id, nil if there is none. A hash says nothing
// about a record's position, so all keys are scanned.
func (s *source) recordWith(ctx context.Context, id bson.Value) ([]byte, error) {
	switch {
	case id.Type == bson.TypeBinary:
		_, record := id.Binary()
		return s.present(record)
	case id.Type != bson.TypeInt64:
		return nil, nil
	case s.coll.Capped:
		return s.present(binary.BigEndian.AppendUint64(nil, uint64(id.Int64())))
	}
	it, err := s.records(nil, nil)
	if err != nil {
		return nil, err
	}
	defer it.Close()
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		if n++; n%stage.CtxEvery == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if recordID(s.coll, it.Key()) == id.Int64() {
			return bytes.Clone(it.Key()), nil
		}
	}
	return nil, it.Err()
}

// present returns a record's key, nil if the record does not exist.
func (s *source) present(record []byte) ([]byte, error) {
	if v := s.coll.Virtual(); v != nil {
		it, err := v.Walk(record, after(record))
		if err != nil {
			return nil, err
		}
		if !it.First() {
			record = nil
		}
		return record, it.Close()
	}
	doc, closer, err := s.stored(record)
	if err != nil || doc == nil {
		return nil, err
	}
	return record, closer.Close()
}

// AppendToken writes what the batch at hand can be resumed behind, as
// postBatchResumeToken: {$recordId}; nothing where the query was not asked for
// it. held says that the last document is left to the next batch.
func (c *Cursor) AppendToken(b *bson.Builder, held bool) {
	if !c.r.query.ResumeToken {
		return
	}
	record := c.token
	if held {
		record = c.before
	}
	id := bson.Value{Type: bson.TypeNull}
	if scan, ok := scanUnder(c.r.winner.stage); ok && len(record) > 0 && !scan.stats.EOF {
		if id = bson.Int64(recordID(c.r.coll, record)); c.r.coll.Settings.Clustered != nil {
			id = bson.Binary(0, record)
		}
	}
	b.OpenDoc("postBatchResumeToken").Value("$recordId", id).Close()
}

// passed records the record of a returned document.
func (c *Cursor) passed() {
	if c.r.query.ResumeToken {
		c.before, c.token = c.token, append(c.before[:0], c.row.Record...)
	}
}
