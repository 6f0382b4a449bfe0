package measurements

import (
	"bytes"
	"errors"
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// CheckBucket checks the record key of a bucket, and returns how many measurements
// it has. If full is set, it also unpacks the bucket and compares it with its
// statistics.
func CheckBucket(key layout.Key, bucket bson.Doc, o *schema.Timeseries, full bool) (count int64, err error) {
	b, err := timeseries.Open(bucket, o)
	if err != nil {
		return 0, err
	}
	count = int64(b.Count)
	end := layout.BucketEnd(key)
	switch {
	case b.Last > end:
		return count, errors.New("the bucket ends after the time in its record key")
	case !timeseries.Accepts(b.Start, end, o):
		return count, errors.New("the time in the record key is after the span of the bucket")
	case full:
		return count, timeseries.Check(bucket, o)
	}
	return count, nil
}

var errOpenKey = errors.New("the key does not match their times and meta value")

// CheckOpen checks all records of a table's keyspace in a state of the store, and
// counts the measurements and their bytes. depth is how deep a document may be. bad
// is called for each damaged record, and next before each record; an error of next
// ends the check.
func CheckOpen(r storage.Reader, id storage.Ident, o *schema.Timeseries, depth int, next func() error, bad func(key []byte, err error)) (count, size int64, err error) {
	it, err := r.NewIter(id, nil, nil)
	if err != nil {
		return 0, 0, err
	}
	defer it.Close()
	p, err := readProgress(r, id)
	if err != nil {
		return 0, 0, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		if err := next(); err != nil {
			return 0, 0, err
		}
		v, err := it.Value()
		if err != nil {
			return 0, 0, err
		}
		if it.Key()[0] == progressKey {
			continue
		}
		n, bytes, err := checkRecord(&p, it.Key(), v, o, depth)
		count += n
		size += bytes
		if err != nil {
			bad(it.Key(), err)
		}
	}
	return count, size, it.Err()
}

// checkRecord checks the measurements of one record, staged ones or those of a
// source, and counts them but those that were flushed.
func checkRecord(p *Progress, key, value []byte, o *schema.Timeseries, depth int) (n, size int64, err error) {
	if !validKey(key) {
		return 0, 0, errOpenKey
	}
	last := int64(math.MinInt64)
	err = p.each(key, value, o, func(source []byte, m timeseries.Measurement) error {
		n, size = n+1, size+int64(len(m.Doc))
		last = max(last, m.Time)
		if err := bson.Validate(m.Doc, depth); err != nil || isStaged(key) {
			return err
		}
		if !bytes.Equal(source, appendSource(nil, m.Meta)) {
			return errOpenKey
		}
		return nil
	})
	if err == nil && !isStaged(key) && timeOf(key) != last {
		err = errOpenKey
	}
	return n, size, err
}
