package timeseries

import (
	"sort"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Rows are the measurements of a bucket, unpacked column by column and put
// together one by one, in the order of time.
type Rows struct {
	Count   int
	bucket  *Bucket
	meta    string // the metaField where it is wanted, else ""
	time    bool   // the time is wanted
	times   []bson.Value
	names   []string
	columns [][]bson.Value
	b       bson.Builder
	buf     []byte
}

// Rows opens the columns of the fields that want says yes to, all where it is
// nil. The rows share the bucket's bytes.
func (b *Bucket) Rows(want func(name string) bool) (*Rows, error) {
	r := &Rows{Count: b.Count, bucket: b, time: want == nil || want(b.o.TimeField)}
	if b.o.MetaField != "" && b.o.MetaField != b.o.TimeField && (want == nil || want(b.o.MetaField)) {
		r.meta = b.o.MetaField
	}
	for it := b.data.Iter(); it.Next(); {
		isTime := it.Key == b.o.TimeField
		if !isTime && want != nil && !want(it.Key) {
			continue
		}
		values, err := b.column(it.Value, make([]bson.Value, 0, b.Count))
		if err != nil {
			return nil, err
		}
		if isTime {
			r.times = values
			continue
		}
		r.names, r.columns = append(r.names, it.Key), append(r.columns, values)
	}
	for _, t := range r.times {
		if t.Type != bson.TypeDate {
			return nil, errBucket
		}
	}
	if len(r.times) != b.Count {
		return nil, errBucket
	}
	return r, nil
}

// Time is the time of row i, in milliseconds.
func (r *Rows) Time(i int) int64 { return r.times[i].Date() }

// Between are the rows from the first one not before from to the last one not
// behind to: [lo, hi).
func (r *Rows) Between(from, to int64) (lo, hi int) {
	lo = sort.Search(r.Count, func(i int) bool { return r.Time(i) >= from })
	hi = sort.Search(r.Count, func(i int) bool { return r.Time(i) > to })
	return lo, hi
}

// Doc puts row i together; valid until the next call.
func (r *Rows) Doc(i int) bson.Doc {
	r.b.Reset(r.buf[:0])
	if r.time {
		r.b.Value(r.bucket.o.TimeField, r.times[i])
	}
	if r.meta != "" {
		r.b.Value(r.meta, r.bucket.Meta)
	}
	for c, name := range r.names {
		r.b.Value(name, r.columns[c][i])
	}
	d := r.b.Finish()
	r.buf = d
	return d
}
