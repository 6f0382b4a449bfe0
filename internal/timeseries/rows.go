package timeseries

import (
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Rows are the measurements of a bucket, unpacked column by column and put
// together one by one, in the order of time.
type Rows struct {
	Count   int
	bucket  *Bucket
	meta    string // the metaField where it is wanted, else ""
	time    bool   // the time is wanted
	times   Series
	names   []string
	columns []Series
	b       bson.Builder
	buf     []byte
}

// Rows opens the columns of the fields for which want returns true; all where want is
// nil. The rows share the bucket's bytes.
func (b *Bucket) Rows(want func(name string) bool) (*Rows, error) {
	r, _, _, err := b.RowsBetween(want, math.MinInt64, math.MaxInt64)
	return r, err
}

// RowsBetween is Rows, with the range [lo, hi) of the measurements whose times are
// within [from, to]. Where there are none, no other column is opened.
func (b *Bucket) RowsBetween(want func(name string) bool, from, to int64) (r *Rows, lo, hi int, err error) {
	r = &Rows{Count: b.Count, bucket: b, time: want == nil || want(b.o.TimeField)}
	if b.o.MetaField != "" && b.o.MetaField != b.o.TimeField && (want == nil || want(b.o.MetaField)) {
		r.meta = b.o.MetaField
	}
	if lo, hi, err = b.Between(from, to, &r.times); err != nil || lo >= hi {
		return r, lo, hi, err
	}
	for it := b.data.Iter(); it.Next(); {
		if it.Key == b.o.TimeField || want != nil && !want(it.Key) {
			continue
		}
		r.names, r.columns = append(r.names, it.Key), append(r.columns, Series{})
		if err := b.series(it.Value, &r.columns[len(r.columns)-1]); err != nil {
			return nil, 0, 0, err
		}
	}
	return r, lo, hi, nil
}

// Time returns the time of row i, in milliseconds.
func (r *Rows) Time(i int) int64 { return r.times.date(i) }

// Doc returns row i as a document, valid until the next call.
func (r *Rows) Doc(i int) bson.Doc {
	r.b.Reset(r.buf[:0])
	if r.time {
		r.b.Value(r.bucket.o.TimeField, r.times.At(i))
	}
	if r.meta != "" {
		r.b.Value(r.meta, r.bucket.Meta)
	}
	for c, name := range r.names {
		r.b.Value(name, r.columns[c].At(i))
	}
	d := r.b.Finish()
	r.buf = d
	return d
}
