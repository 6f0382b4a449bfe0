package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// bucket checks the record key of a bucket and, where the validation is full,
// that it unpacks to what its statistics say.
func (x *validation) bucket(key RecordKey, doc bson.Doc) error {
	o := x.coll.Settings.Timeseries
	b, err := timeseries.Open(doc, o)
	if err != nil {
		return err
	}
	x.measured += int64(b.Count)
	end := BucketEnd(key)
	switch {
	case len(key) < endBytes+epochBytes || !bytes.Equal(key[endBytes+epochBytes:], keystring.Append(nil, doc.Lookup("_id"), false, nil)):
		return fmt.Errorf("the record key does not belong to _id %s", doc.Lookup("_id"))
	case b.Last > end:
		return errors.New("the bucket ends behind the time in its record key")
	case !timeseries.Accepts(b.Start, end, o):
		return errors.New("the time in the record key lies behind the span of the bucket")
	}
	if x.full {
		return timeseries.Check(doc, o)
	}
	return nil
}

// open checks the measurements that are in no bucket, and the counts of all.
func (x *validation) open() error {
	it, err := x.s.NewIter(x.coll.Open, nil, nil)
	if err != nil {
		return err
	}
	defer it.Close()
	docs, size := int64(0), int64(0)
	for ok := it.First(); ok; ok = it.Next() {
		if docs%validateCheckDocs == 0 && x.ctx.Err() != nil {
			return context.Cause(x.ctx)
		}
		v, err := it.Value()
		if err != nil {
			return err
		}
		docs++
		size += int64(len(v))
		if err := x.openMeasurement(it.Key(), v); err != nil {
			x.v.InvalidDocuments++
			x.fail("open measurement %x: %v", it.Key(), err)
		}
	}
	if err := it.Err(); err != nil {
		return err
	}
	count, bytes, err := storage.ReadCounter(x.s, x.coll.Open)
	if err != nil {
		return err
	}
	if count != docs+x.measured {
		x.fail("the count is %d, but there are %d measurements in buckets and %d in none", count, x.measured, docs)
	}
	if bytes != size {
		x.fail("the size of the measurements in no bucket is %d, but they have %d bytes", bytes, size)
	}
	return nil
}

// openMeasurement checks one of them under its key.
func (x *validation) openMeasurement(key []byte, doc bson.Doc) error {
	if err := bson.Validate(doc, maxStoredDepth); err != nil {
		return err
	}
	o := x.coll.Settings.Timeseries
	at, meta := doc.Lookup(o.TimeField), bson.Value{}
	if o.MetaField != "" {
		meta = doc.Lookup(o.MetaField)
	}
	if at.Type != bson.TypeDate || len(key) < openSuffix || OpenTime(key) != at.Date() || !bytes.Equal(OpenSource(key), appendSourceKey(nil, meta)) {
		return errors.New("the key does not belong to its time and meta value")
	}
	return nil
}
