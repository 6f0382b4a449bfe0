package timeseries

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Measurement is one measurement before it is packed: its time first, then its
// meta value, if there is one, then its other fields.
type Measurement struct {
	Doc  bson.Doc
	Meta bson.Value // Missing if it has none
	Time int64      // milliseconds since 1970
}

// Place returns the fields of the bucket that would begin with the measurement on which its
// place in a shard key depends.
func (m *Measurement) Place(o *schema.Timeseries) bson.Doc {
	return o.PlaceOf(m.Meta, Start(m.Time, o))
}

// PlaceOf is Measurement.Place of a document. Errors: 2 if its time is not a date.
func PlaceOf(doc bson.Doc, o *schema.Timeseries) (bson.Doc, error) {
	at := doc.Lookup(o.TimeField)
	if at.Type != bson.TypeDate {
		return nil, mongoerr.New(mongoerr.BadValue, "'%s' must be present and contain a valid BSON UTC datetime value", o.TimeField)
	}
	m := Measurement{Time: at.Date()}
	if o.MetaField != "" {
		m.Meta = NormalMeta(doc.Lookup(o.MetaField))
	}
	return m.Place(o), nil
}

// NewMeasurement makes a measurement from a document: its time first, its meta value
// with sorted fields, then the rest as it is. Errors: 2 if its time is not a date.
func NewMeasurement(doc bson.Doc, o *schema.Timeseries) (Measurement, error) {
	m, _, err := AppendMeasurement(make([]byte, 0, len(doc)), doc, o)
	return m, err
}

// AppendMeasurement is NewMeasurement with the measurement's bytes appended to dst,
// where that has the capacity.
func AppendMeasurement(dst []byte, doc bson.Doc, o *schema.Timeseries) (Measurement, []byte, error) {
	at := doc.Lookup(o.TimeField)
	if at.Type != bson.TypeDate {
		return Measurement{}, dst, mongoerr.New(mongoerr.BadValue, "'%s' must be present and contain a valid BSON UTC datetime value", o.TimeField)
	}
	m := Measurement{Time: at.Date()}
	if o.MetaField != "" {
		m.Meta = NormalMeta(doc.Lookup(o.MetaField))
	}
	var b bson.Builder
	b.Reset(dst)
	b.Value(o.TimeField, at)
	if o.MetaField != "" && o.MetaField != o.TimeField {
		b.Value(o.MetaField, m.Meta)
	}
	for it := doc.Iter(); it.Next(); {
		if it.Key != o.TimeField && (o.MetaField == "" || it.Key != o.MetaField) {
			b.Value(it.Key, it.Value)
		}
	}
	d := b.Finish()
	m.Doc = d[:len(d):len(d)]
	if cap(dst)-len(dst) < len(d) {
		return m, dst, nil // it has memory of its own
	}
	return m, dst[:len(dst)+len(d)], nil
}

// Cut divides measurements of one source, which are in the order of time, into those of
// each bucket. REQUIRES: there is at least one.
func Cut(ms []Measurement, o *schema.Timeseries) [][]Measurement {
	if !invariant.Check(len(ms) > 0, "timeseries: Cut has a measurement") {
		return nil
	}
	var pieces [][]Measurement
	from, size := 0, 0
	start := Start(ms[0].Time, o)
	for i, m := range ms {
		if i > from && (i-from >= Capacity || size+len(m.Doc) > MaxBytes || !Accepts(start, m.Time, o)) {
			pieces = append(pieces, ms[from:i:i])
			from, size, start = i, 0, Start(m.Time, o)
		}
		size += len(m.Doc)
	}
	return append(pieces, ms[from:])
}

// IsFull reports whether a bucket of these measurements is full.
func IsFull(ms []Measurement) bool {
	size := 0
	for _, m := range ms {
		size += len(m.Doc)
	}
	return len(ms) >= Capacity || size >= MaxBytes
}
