package node

import (
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

const (
	// measurementUnitDocs and measurementUnitBytes bound what one unit inserts into
	// a time-series collection: inserting many of a source together is cheapest.
	measurementUnitDocs  = 10000
	measurementUnitBytes = 4 << 20
	// measurementMemory is the memory that measurements of a command share.
	measurementMemory = 32 << 10
)

// sealedBuckets returns the collection of a time-series collection's buckets,
// after sealing all its measurements; nil if ns is not one.
func (n *Node) sealedBuckets(ns schema.Namespace) (*catalog.Collection, error) {
	c := n.bucketsOf(ns)
	if c == nil {
		return nil, nil
	}
	// What is sealed stays sealed, even if the operation fails.
	if err := n.Catalog.SealAll(context.Background(), c); err != nil {
		return nil, err
	}
	return c.Buckets(), nil
}

// insertMeasurements is the insert into a time-series collection. (Manual:
// "Time Series Collections", behaviour.)
func (n *Node) insertMeasurements(ctx context.Context, op *command.Op, c *catalog.Collection, docs []bson.Doc, try *attempt) error {
	ordered := op.Args.BoolOr("ordered", true)
	now := n.stamp(&op.Args)
	w := n.newWriter(op)
	defer w.Abort()
	var errs writeErrors
	b := measurementBatch{w: w, c: c, errs: &errs, ordered: ordered, try: try}
	for _, doc := range docs {
		b.coming += len(doc)
	}
	err := eachDocument(ctx, op, docs, ordered, try, &errs, func(i int, doc bson.Doc) (ended bool, err error) {
		err = b.add(ctx, i, doc, now)
		if err != nil && ordered && !b.ended { // those before it may fail, too
			if err := b.flush(ctx); err != nil {
				return false, err
			}
		}
		return b.ended, err
	})
	if err == nil {
		err = b.flush(ctx)
	}
	if err != nil {
		return err
	}
	errs.sort()
	return endInsert(ctx, op, w, b.inserted, &errs, try)
}

// eachDocument calls add with those documents of an insert that no earlier attempt has
// inserted, until it says that the insert has ended, or one fails and they are ordered.
func eachDocument(ctx context.Context, op *command.Op, docs []bson.Doc, ordered bool, try *attempt, errs *writeErrors, add func(i int, doc bson.Doc) (ended bool, err error)) error {
	for i, doc := range docs {
		_, before, err := try.executed(i)
		if before {
			continue
		}
		ended := false
		if err == nil {
			err = op.MayWrite(op.DB)
		}
		if err == nil {
			ended, err = add(i, doc)
		}
		if ended {
			break
		}
		if err == nil {
			continue
		}
		if err := fails(ctx, op, err); err != nil {
			return err
		}
		errs.add(i, err)
		if endsBatch(ordered, err) {
			break
		}
	}
	return nil
}

// measurementBatch collects measurements into units.
type measurementBatch struct {
	w        *exec.Writer
	c        *catalog.Collection
	errs     *writeErrors // nil: the first error ends it all
	ordered  bool
	ended    bool     // by an error, behind which no measurement is inserted
	try      *attempt // nil if they are not part of a retryable write
	ms       []timeseries.Measurement
	memory   []byte // for the next ones, after those that are kept
	coming   int    // bytes of documents that are known to follow
	places   []int  // in the command
	bytes    int
	inserted int64
}

// add checks a document, and inserts what is collected once that is enough.
func (b *measurementBatch) add(ctx context.Context, place int, doc bson.Doc, now func() uint64) error {
	doc, err := schema.PrepareInsert(doc, now)
	if err != nil {
		return err
	}
	if cap(b.memory)-len(b.memory) < len(doc) {
		b.memory = make([]byte, 0, max(len(doc), min(b.coming, measurementMemory)))
	}
	b.coming -= len(doc)
	m, memory, err := timeseries.AppendMeasurement(b.memory, doc, b.c.Settings.Timeseries)
	b.memory = memory
	if err != nil {
		return err
	}
	b.ms, b.places = append(b.ms, m), append(b.places, place)
	b.bytes += len(m.Doc)
	if len(b.ms) >= measurementUnitDocs || b.bytes >= measurementUnitBytes {
		return b.flush(ctx)
	}
	return nil
}

// flush inserts what is collected: all in one unit or, where one of them cannot
// be inserted, one by one, and notes which failed.
func (b *measurementBatch) flush(ctx context.Context) error {
	ms := b.ms
	b.ms, b.bytes = nil, 0
	places := b.places
	b.places = nil
	if len(ms) == 0 {
		return nil
	}
	err := b.w.InsertMeasurements(ctx, b.c, ms)
	if err == nil {
		b.did(places...)
		return nil
	}
	if ctx.Err() != nil || b.errs == nil || endsAttempt(err) {
		return err
	}
	if endsBatch(false, err) {
		b.errs.add(places[0], err)
		b.ended = true
		return nil
	}
	for i := range ms {
		if len(ms) > 1 {
			err = b.w.InsertMeasurements(ctx, b.c, ms[i:i+1])
		}
		if err != nil {
			if ctx.Err() != nil || endsAttempt(err) {
				return err
			}
			b.errs.add(places[i], err)
			if b.ended = endsBatch(b.ordered, err); b.ended {
				return nil
			}
			continue
		}
		b.did(places[i])
	}
	return nil
}

// did notes that measurements are in the writer's unit.
func (b *measurementBatch) did(places ...int) {
	b.inserted += int64(len(places))
	if b.try != nil {
		for _, i := range places {
			b.try.did(retryable.Inserted, i, nil)
		}
	}
}

// checkTimeseriesStage refuses stages that must be first in a pipeline: over a
// time-series collection the server puts another stage before them.
func checkTimeseriesStage(c *catalog.Collection, list []bson.Value) error {
	switch {
	case c == nil || c.Open == 0:
	case startsWith(list, "$rankFusion"):
		return mongoerr.New(mongoerr.Code(10557301), "$rankFusion is unsupported on timeseries collections")
	case startsWith(list, "$planCacheStats") && c.IsTimeseries():
		return mongoerr.New(40602, "$planCacheStats is only valid as the first stage in a pipeline")
	}
	return nil
}
