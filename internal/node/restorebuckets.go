package node

import (
	"cmp"
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/retryable"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// maxBucketBytes bounds the measurements of a bucket that is restored, in bytes.
const maxBucketBytes = 16 << 20

// restoring returns the time-series collection whose buckets an insert stores as a tool has
// dumped them; nil for any other insert, and where buckets cannot be written.
func (n *Node) restoring(op *command.Op) *catalog.Collection {
	if op.Transaction != nil {
		return nil
	}
	c := n.bucketsOf(namespace(op))
	if c == nil || c.Sharding() != nil {
		return nil
	}
	return c
}

// restoreBuckets is the insert into the buckets of a time-series collection, as mongorestore
// does it. Errors of documents: 121 for what is not a bucket of this server, 11000.
func (n *Node) restoreBuckets(ctx context.Context, op *command.Op, c *catalog.Collection, docs []bson.Doc, try *attempt) error {
	ordered := op.Args.BoolOr("ordered", true)
	now := n.stamp(&op.Args)
	w := n.newWriter(op)
	defer w.Abort()
	var errs writeErrors
	b := bucketBatch{w: w, c: c, errs: &errs, ordered: ordered, try: try}
	err := eachDocument(ctx, op, docs, ordered, try, &errs, func(i int, doc bson.Doc) (ended bool, err error) {
		err = b.add(ctx, i, doc, now)
		return b.ended, err
	})
	if err == nil {
		err = b.flush(ctx)
	}
	if err != nil {
		return err
	}
	return endInsert(ctx, op, w, b.inserted, &errs, try)
}

// bucketBatch collects buckets into units.
type bucketBatch struct {
	w        *exec.Writer
	c        *catalog.Collection
	errs     *writeErrors
	ordered  bool
	ended    bool // by an error, behind which no bucket is inserted
	try      *attempt
	buckets  []catalog.RestoredBucket
	places   []int // in the command
	bytes    int
	inserted int64
}

// add checks a bucket, and inserts what is collected once that is enough, or before the error
// of a bucket is noted.
func (b *bucketBatch) add(ctx context.Context, place int, doc bson.Doc, now func() uint64) error {
	r, err := restored(b.c, doc, now)
	if err != nil {
		return cmp.Or(b.flush(ctx), err)
	}
	b.buckets, b.places = append(b.buckets, r), append(b.places, place)
	b.bytes += len(r.Bucket)
	for _, m := range r.Measurements {
		b.bytes += len(m)
	}
	if b.bytes >= measurementUnitBytes {
		return b.flush(ctx)
	}
	return nil
}

// flush inserts what is collected in one unit, and notes which buckets failed.
func (b *bucketBatch) flush(ctx context.Context) error {
	if b.ended || len(b.buckets) == 0 {
		return nil
	}
	outcomes, err := b.w.RestoreBuckets(ctx, b.c, b.buckets, b.ordered)
	if err != nil {
		return err
	}
	for i, err := range outcomes {
		if err == nil {
			b.inserted++
			b.try.did(retryable.Inserted, b.places[i], nil)
			continue
		}
		b.errs.add(b.places[i], err)
		b.ended = b.ended || endsBatch(b.ordered, err)
	}
	b.buckets, b.places, b.bytes = nil, nil, 0
	return nil
}

// restored checks a bucket, and unpacks its measurements. Errors: 121.
func restored(c *catalog.Collection, doc bson.Doc, now func() uint64) (b catalog.RestoredBucket, err error) {
	if b.Bucket, err = schema.PrepareInsert(doc, now); err != nil {
		return b, err
	}
	if b.Measurements, err = timeseries.Restored(b.Bucket, c.Settings.Timeseries, maxBucketBytes); err != nil {
		info := new(bson.Builder).Value("failingDocumentId", b.Bucket.Lookup("_id")).OpenDoc("details").String("reason", err.Error()).Close().Finish()
		return b, mongoerr.New(mongoerr.DocumentValidationFailure, "Document failed validation: %s", err).WithInfo(info)
	}
	return b, nil
}
