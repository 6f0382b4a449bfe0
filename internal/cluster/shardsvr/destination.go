package shardsvr

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
)

// destination is the collection here into which documents of other shards are written, those
// of a time series as buckets.
type destination struct {
	cat  *catalog.Catalog
	coll *catalog.Collection          // with the documents, or the buckets
	here map[string]catalog.RecordKey // where the buckets of a batch are, by IDName
}

// find finds the buckets with some _ids that are here. Nobody else adds or removes any of what
// is received: expiry rests.
func (d *destination) find(ctx context.Context, ids []bson.Value) (err error) {
	if d.coll.HoldsBuckets() {
		d.here, err = d.coll.FindBuckets(ctx, d.cat.Engine(), ids)
	}
	return err
}

// lock locks the document or the bucket with an _id, and returns it; nil for none. Of buckets,
// those that find has found are there.
func (d *destination) lock(ctx context.Context, u *catalog.Unit, id bson.Value) (catalog.RecordKey, bson.Doc, error) {
	if !d.coll.HoldsBuckets() {
		return u.LockID(ctx, d.coll, id)
	}
	record := d.here[catalog.IDName(id)]
	if record == nil {
		return nil, nil, nil
	}
	doc, err := u.LockRecord(ctx, d.coll, record)
	return record, doc, err
}

func (d *destination) insert(ctx context.Context, u *catalog.Unit, doc bson.Doc) error {
	if d.coll.HoldsBuckets() {
		return u.InsertBucket(ctx, d.coll, doc.Clone())
	}
	return u.Insert(ctx, d.coll, doc.Clone())
}

// replace replaces old, which lock returned with record, by the same document as another
// shard has it now.
func (d *destination) replace(ctx context.Context, u *catalog.Unit, record catalog.RecordKey, old, doc bson.Doc) error {
	if d.coll.HoldsBuckets() {
		return u.ReplaceBucket(ctx, d.coll, record, old, doc.Clone())
	}
	return u.Update(ctx, d.coll, record, old, doc.Clone())
}

func (d *destination) batch() int {
	if d.coll.HoldsBuckets() {
		return bucketBatch
	}
	return idBatch
}

// idBatch and bucketBatch are how many documents, or buckets, each of which costs a part of a
// walk over keys, are fetched at once by their _ids.
const (
	idBatch     = 100
	bucketBatch = 1000
)
