package timeseries

import (
	"errors"
	"math"
	"sort"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
)

const (
	// MaxMeasurements bounds the measurements that a bucket can hold; Capacity is how
	// many the server puts into one before it opens the next (MongoDB's
	// timeseriesBucketMaxCount).
	MaxMeasurements = 1 << 16
	Capacity        = 1000
	// MaxBytes is how many bytes of measurements go into one bucket
	// (timeseriesBucketMaxSize).
	MaxBytes = 125 << 10
	// version says how the data are packed, as control.version has it.
	version = 2
	// columnSubtype is the subtype of a column as a binary value, from the range
	// that BSON leaves to users: it is not MongoDB's BSONColumn, which is 7.
	columnSubtype = 0x80
)

var errBucket = errors.New("timeseries: a bucket is corrupt")

// Start is where the bucket of a first measurement at time t begins, both in
// milliseconds since 1970: the time rounded down. (Manual: "Set Granularity for
// Time Series Data".)
func Start(t int64, o *schema.Timeseries) int64 {
	r := max(o.RoundingSeconds, 1) * 1000
	m := t % r
	if m < 0 {
		m += r
	}
	if t < math.MinInt64+m {
		return math.MinInt64
	}
	return t - m
}

// Accepts reports whether a bucket that begins at start may hold a measurement of time t,
// both in milliseconds.
func Accepts(start, t int64, o *schema.Timeseries) bool {
	return t >= start && uint64(t)-uint64(start) < uint64(o.MaxSpanSeconds)*1000 // the difference of two Dates may be no int64
}

// ID makes the _id of a bucket: an ObjectId with the second at which the bucket begins,
// of which an ObjectId keeps 32 bits.
func ID(start int64) [12]byte {
	id := bson.NewObjectID()
	sec := uint32(floorDiv(start, 1000))
	id[0], id[1], id[2], id[3] = byte(sec>>24), byte(sec>>16), byte(sec>>8), byte(sec)
	return id
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// Bucket is a packed bucket, opened.
type Bucket struct {
	Count int
	Meta  bson.Value // Missing if it has none
	// Start is control.min of the time, Last control.max: milliseconds.
	Start, Last int64
	Min, Max    bson.Doc // statistics by field
	data        bson.Doc
	o           *schema.Timeseries
}

// Open reads a bucket's frame and leaves its columns packed.
func Open(doc bson.Doc, o *schema.Timeseries) (*Bucket, error) {
	control := doc.Lookup("control")
	data := doc.Lookup("data")
	if control.Type != bson.TypeDocument || data.Type != bson.TypeDocument {
		return nil, errBucket
	}
	c := control.Doc()
	count, whole := bson.ExactInt64(c.Lookup("count"))
	v, _ := bson.ExactInt64(c.Lookup("version"))
	lo, hi := c.Lookup("min"), c.Lookup("max")
	if !whole || count < 1 || count > MaxMeasurements || v != version || lo.Type != bson.TypeDocument || hi.Type != bson.TypeDocument {
		return nil, errBucket
	}
	b := &Bucket{Count: int(count), Meta: doc.Lookup("meta"), Min: lo.Doc(), Max: hi.Doc(), data: data.Doc(), o: o}
	first, last := b.Min.Lookup(o.TimeField), b.Max.Lookup(o.TimeField)
	if first.Type != bson.TypeDate || last.Type != bson.TypeDate {
		return nil, errBucket
	}
	b.Start, b.Last = first.Date(), last.Date()
	return b, nil
}

// Series unpacks one field into s, and reuses its memory: gaps where a measurement does
// not have the field.
func (b *Bucket) Series(name string, s *Series) error {
	v := b.data.Lookup(name)
	if v.IsMissing() {
		s.SetGaps(b.Count)
		return nil
	}
	return b.series(v, s)
}

func (b *Bucket) series(v bson.Value, s *Series) error {
	if v.Type != bson.TypeBinary {
		return errBucket
	}
	subtype, content := v.Binary()
	if subtype != columnSubtype {
		return errBucket
	}
	c, err := OpenColumn(content, b.Count)
	if err != nil {
		return err
	}
	return c.unpack(s)
}

// Between returns the range [lo, hi) of the measurements whose times are within [from,
// to]: lo is at most hi, also where from is after to. It unpacks all times into times.
func (b *Bucket) Between(from, to int64, times *Series) (lo, hi int, err error) {
	if err := b.times(times); err != nil {
		return 0, 0, err
	}
	lo, hi = between(times, from, to)
	return lo, hi, nil
}

// times unpacks the times, all of which must be dates.
func (b *Bucket) times(s *Series) error {
	if err := b.Series(b.o.TimeField, s); err != nil {
		return err
	}
	if t, _ := s.Fixed(); t != bson.TypeDate {
		return errBucket
	}
	return nil
}

func between(times *Series, from, to int64) (lo, hi int) {
	lo = sort.Search(times.n, func(i int) bool { return times.date(i) >= from })
	hi = sort.Search(times.n, func(i int) bool { return times.date(i) > to })
	return lo, max(lo, hi)
}

// NormalMeta returns a meta value with the fields of its documents sorted by name, so
// that sources whose drivers order fields differently share buckets.
func NormalMeta(v bson.Value) bson.Value {
	if v.Type != bson.TypeDocument {
		return v
	}
	var b bson.Builder
	for _, f := range sortedFields(v.Doc()) {
		b.Value(f.name, NormalMeta(f.value))
	}
	return bson.Value{Type: bson.TypeDocument, Data: b.Finish()}
}

// WithMeta returns a bucket with another meta value.
func WithMeta(bucket bson.Doc, meta bson.Value) bson.Doc {
	var b bson.Builder
	for it := bucket.Iter(); it.Next(); {
		if it.Key == "data" {
			b.Value("meta", meta)
		}
		if it.Key != "meta" {
			b.Value(it.Key, it.Value)
		}
	}
	return b.Finish()
}
