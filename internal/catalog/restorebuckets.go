package catalog

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/storage"
)

// RestoredBucket is a bucket that a client has dumped, and stores again as it was.
type RestoredBucket struct {
	Bucket       bson.Doc
	Measurements []bson.Doc // its own, for the oplog
}

// RestoreBuckets adds buckets to a time-series collection that is not sharded, and returns
// what became of each: 11000 if a bucket with its _id is there, and errors of the keys of
// indexes. If they are ordered it ends with the first error. The oplog has the measurements,
// as of InsertMeasurements. The unit must not hold anything before. Errors: 26.
func (u *Unit) RestoreBuckets(ctx context.Context, c *Collection, buckets []RestoredBucket, ordered bool) (errs []error, err error) {
	if c, err = u.enter(ctx, c); err != nil {
		return nil, err
	}
	ids, locks := make([]bson.Value, len(buckets)), make([]storage.LockKey, len(buckets))
	for i, b := range buckets {
		ids[i] = b.Bucket.Lookup("_id")
		locks[i] = storage.LockKey{Class: storage.LockRecord, ID: c.Ident, Key: c.appendID(nil, ids[i])}
	}
	if _, err := u.u.LockAll(ctx, locks); err != nil {
		return nil, err
	}
	there, err := c.FindBuckets(ctx, u.c.engine, ids)
	if err != nil {
		return nil, err
	}
	for i, b := range buckets {
		name := IDName(ids[i])
		var err error
		if _, ok := there[name]; ok {
			err = duplicateBucket(c, ids[i])
		} else if err = u.restoreBucket(ctx, c, b); err == nil {
			there[name] = nil
		}
		if errs = append(errs, err); err != nil && ordered {
			break
		}
	}
	return errs, nil
}

func (u *Unit) restoreBucket(ctx context.Context, c *Collection, b RestoredBucket) error {
	if err := u.addBucket(ctx, c, b.Bucket); err != nil {
		return err
	}
	u.AddMeasured(c, measured(b.Bucket))
	if u.e.ops.on {
		at := place{uuid: c.UUID, ns: c.live.current.Load().Namespace, flags: placeSilent}
		for _, m := range b.Measurements {
			u.e.ops.add(OpInsert, at, m, noWrite)
		}
	}
	return nil
}

// duplicateBucket is the error for a bucket whose _id another one has: for the server, which
// keeps them clustered by that, no index is named.
func duplicateBucket(c *Collection, id bson.Value) error {
	key := new(bson.Builder).Value("_id", id).Finish()
	extra := new(bson.Builder).OpenDoc("keyPattern").Int32("_id", 1).Close().Doc("keyValue", key).Finish()
	return mongoerr.New(mongoerr.DuplicateKey, "E11000 duplicate key error collection: %s dup key: %s", c.Namespace, key).WithExtra(extra)
}
