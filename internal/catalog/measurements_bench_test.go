package catalog

import (
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// BenchmarkInsertMeasurements inserts readings of 1,000 sensors in turn, a
// thousand a unit; an operation is one reading, its part of sealing included.
func BenchmarkInsertMeasurements(b *testing.B) {
	c, _ := benchOpen(b, 0)
	options := new(bson.Builder).OpenDoc("timeseries").String("timeField", "t").String("metaField", "s").String("granularity", "seconds").Close().Finish()
	coll, err := c.Create(b.Context(), schema.Namespace{DB: "db", Coll: "readings"}, options)
	if err != nil {
		b.Fatal(err)
	}
	const sensors = 1000
	b.ReportAllocs()
	n := 0
	var ms []timeseries.Measurement
	for b.Loop() {
		var d bson.Builder
		d.ObjectID("_id", bson.NewObjectID()).Date("t", 1_700_000_000_000+int64(n/sensors)*10_000).Int32("s", int32(n%sensors)).
			Double("v", float64(200+n*n%97)/10).Int32("h", int32(n%20))
		m, err := timeseries.NewMeasurement(d.Finish(), coll.Settings.Timeseries)
		if err != nil {
			b.Fatal(err)
		}
		ms = append(ms, m)
		if n++; len(ms) == sensors {
			u := c.Begin()
			if err := u.InsertMeasurements(b.Context(), coll, ms); err != nil {
				b.Fatal(err)
			}
			if err := u.Commit(b.Context(), storage.Buffered); err != nil {
				b.Fatal(err)
			}
			ms = ms[:0]
		}
	}
}
