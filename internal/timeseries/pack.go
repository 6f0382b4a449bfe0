package timeseries

import (
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/schema"
)

// frame is what a bucket is made of: columns of one length, that of the times
// first.
type frame struct {
	id      [12]byte
	start   int64
	meta    bson.Value // Missing if the measurements have none
	names   []string
	columns []*Series
	o       *schema.Timeseries
}

// Pack makes a bucket. meta is Missing if the measurements have none; each
// measurement has a Date in the time field, and its meta field is left out. REQUIRES: 1
// ≤ len(measurements) ≤ MaxMeasurements, all of them, but for the first, in the span of
// start.
func Pack(id [12]byte, start int64, meta bson.Value, measurements []bson.Doc, o *schema.Timeseries) bson.Doc {
	invariant.Check(len(measurements) >= 1 && len(measurements) <= MaxMeasurements, "timeseries: a bucket has 1 to MaxMeasurements")
	if invariant.Enabled && len(measurements) > 1 {
		for _, m := range measurements[1:] { // Cut makes a bucket of the first in any case
			invariant.Check(Accepts(start, m.Lookup(o.TimeField).Date(), o), "timeseries: a bucket's measurements are in the span of its start")
		}
	}
	f := frame{id: id, start: start, meta: meta, o: o}
	f.transpose(measurements)
	return f.pack()
}

// transpose makes columns of measurements, the time first and the others in
// the order in which they come up.
func (f *frame) transpose(measurements []bson.Doc) {
	place := map[string]int{f.o.TimeField: 0}
	n := len(measurements)
	f.names = []string{f.o.TimeField}
	f.columns = []*Series{{data: make([]byte, 0, 8*n)}}
	for i, m := range measurements {
		next := 0 // most have their fields in the order of the one before
		for it := m.Iter(); it.Next(); {
			if f.o.MetaField != "" && it.Key == f.o.MetaField && it.Key != f.o.TimeField {
				continue
			}
			c := next
			if c >= len(f.names) || f.names[c] != it.Key {
				var known bool
				if c, known = place[it.Key]; !known {
					c = len(f.names)
					place[it.Key] = c
					f.names = append(f.names, it.Key)
					f.columns = append(f.columns, &Series{data: make([]byte, 0, n*widthOf(it.Value.Type))})
				}
			}
			if f.columns[c].Len() <= i { // of a field twice, the first one counts, as in queries
				f.columns[c].put(i, it.Value)
			}
			next = c + 1
		}
	}
	for _, c := range f.columns {
		if c.n < n {
			c.extend(n)
		}
	}
}

// pack makes the bucket.
func (f *frame) pack() bson.Doc {
	var b bson.Builder
	b.ObjectID("_id", f.id)
	b.OpenDoc("control").Int32("version", version)
	b.OpenDoc("min")
	for i, name := range f.names {
		if name == f.o.TimeField {
			b.Date(name, f.start)
		} else {
			b.Value(name, f.columns[i].extreme(-1))
		}
	}
	b.Close().OpenDoc("max")
	for i, name := range f.names {
		b.Value(name, f.columns[i].extreme(1))
	}
	b.Close().Int32("count", int32(f.columns[0].n)).Close()
	b.Value("meta", f.meta)
	b.OpenDoc("data")
	var buf []byte
	for i, name := range f.names {
		buf = AppendColumn(buf[:0], f.columns[i])
		b.Binary(name, columnSubtype, buf)
	}
	return b.Close().Finish()
}

// WithoutUpTo returns a bucket without its measurements up to a time, and how many were
// removed: a nil document if none is left, the bucket itself where none was removed.
// The start of the bucket stays.
func WithoutUpTo(doc bson.Doc, upTo int64, o *schema.Timeseries) (bson.Doc, int, error) {
	b, err := Open(doc, o)
	if err != nil {
		return nil, 0, err
	}
	var times Series
	_, n, err := b.Between(math.MinInt64, upTo, &times)
	switch {
	case err != nil:
		return nil, 0, err
	case n == 0:
		return doc, 0, nil
	case n == b.Count:
		return nil, n, nil
	}
	f := frame{id: doc.Lookup("_id").ObjectID(), start: b.Start, meta: b.Meta, o: o}
	for it := b.data.Iter(); it.Next(); {
		var whole, part Series
		if err := b.series(it.Value, &whole); err != nil {
			return nil, 0, err
		}
		if part.Part(&whole, n, b.Count); part.hasValue() {
			f.names, f.columns = append(f.names, it.Key), append(f.columns, &part)
		}
	}
	return f.pack(), n, nil
}
