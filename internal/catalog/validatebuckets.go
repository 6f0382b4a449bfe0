package catalog

import (
	"bytes"
	"context"
	"errors"
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/layout"
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
	end := layout.BucketEnd(key)
	switch {
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
	p, err := progressIn(x.s, x.coll.Open)
	if err != nil {
		return err
	}
	docs, size, records := int64(0), int64(0), 0
	for ok := it.First(); ok; ok = it.Next() {
		if records%validateCheckDocs == 0 && x.ctx.Err() != nil {
			return context.Cause(x.ctx)
		}
		records++
		v, err := it.Value()
		if err != nil {
			return err
		}
		if key := it.Key(); key[0] == progressKey {
			continue
		}
		n, bytes, err := x.openRecord(&p, it.Key(), v)
		docs += n
		size += bytes
		if err != nil {
			x.v.InvalidDocuments++
			x.fail("open measurements %x: %v", it.Key(), err)
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

// openRecord checks the measurements of one record, staged ones or those of a
// source, and counts them but those that were flushed.
func (x *validation) openRecord(p *progress, key, value []byte) (n, size int64, err error) {
	o := x.coll.Settings.Timeseries
	staged := key[0] == stagedKeys
	if !staged && len(key) < openSuffix || len(key) < 9 {
		return 0, 0, errOpenKey
	}
	last := int64(math.MinInt64)
	err = eachStored(value, o.TimeField, func(d bson.Doc, at int64) error {
		meta := bson.Value{}
		if o.MetaField != "" {
			meta = d.Lookup(o.MetaField)
		}
		if staged && p.flushedFrom(key, appendSourceKey(nil, meta)) {
			return nil
		}
		n, size = n+1, size+int64(len(d))
		last = max(last, at)
		if err := bson.Validate(d, maxStoredDepth); err != nil || staged {
			return err
		}
		if !bytes.Equal(OpenSource(key), appendSourceKey(nil, meta)) {
			return errOpenKey
		}
		return nil
	})
	if err == nil && !staged && OpenTime(key) != last {
		err = errOpenKey
	}
	return n, size, err
}

var errOpenKey = errors.New("the key does not belong to their times and meta value")
