package catalog

import (
	"fmt"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/measurements"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// TestOpenSourcesBound inserts more sources than may be open, with the oldest
// last in the order of keys, and sees those sealed; and that the table knows as
// much when it is read again.
func TestOpenSourcesBound(t *testing.T) {
	fs := storage.NewMemFS()
	c := open(t, fs)
	ns := schema.Namespace{DB: "db", Coll: "readings"}
	coll, err := c.Create(t.Context(), ns, parse(t, `{timeseries: {timeField: "t", metaField: "s"}}`))
	if err != nil {
		t.Fatal(err)
	}
	const bound, sources = 100, 1000
	coll.live.measurements.SetLimits(measurements.Limits{Sources: bound})
	insert := func(from, to int) {
		var ms []timeseries.Measurement
		for i := from; i < to; i++ {
			d := new(bson.Builder).Int32("_id", int32(i)).Date("t", int64(sources-i%sources)*1000).Int32("s", int32(i%sources)).Finish()
			m, err := timeseries.NewMeasurement(d, coll.Settings.Timeseries)
			if err != nil {
				t.Fatal(err)
			}
			ms = append(ms, m)
		}
		if err := c.SealOldest(t.Context(), coll, len(ms)+1); err != nil {
			t.Fatal(err)
		}
		err := c.Run(t.Context(), storage.Buffered, func(u *Unit) error { return u.InsertMeasurements(t.Context(), coll, ms) })
		if err != nil {
			t.Fatal(err)
		}
		if n := coll.BucketStats().Open; n > int64(bound+len(ms)) {
			t.Fatalf("%d sources are open", n)
		}
	}
	for i := 0; i < 2*sources; i += 20 {
		insert(i, i+20)
	}
	if err := c.SealOldest(t.Context(), coll, sources); err != nil {
		t.Fatal(err)
	}
	show := func() string {
		s := coll.BucketStats()
		all := coll.OpenSources()
		return fmt.Sprint(s.Open, s.Buckets, coll.Count(), all[0].First, all[len(all)-1].First)
	}
	before := show()
	if n := coll.BucketStats().Open; n != bound {
		t.Errorf("%d sources are open", n)
	}
	c = reopen(t, c, fs)
	coll = c.Lookup(ns)
	if now := show(); now != before {
		t.Errorf("%s became %s", before, now)
	}
	if err := c.SealAll(t.Context(), coll); err != nil {
		t.Fatal(err)
	}
	if s := coll.BucketStats(); s.Open != 0 || coll.Count() != 2*sources {
		t.Errorf("%+v, %d readings", s, coll.Count())
	}
}

// TestIndexOfOpenMeasurements makes indexes in which the buckets of open
// measurements cannot be, before and after those measurements: one of the two is
// refused, and what is open can always be sealed.
func TestIndexOfOpenMeasurements(t *testing.T) {
	c := open(t, storage.NewMemFS())
	for i, of := range []struct{ key, meta string }{
		{`{"m.a": 1, "m.b": 1}`, `{a: [1, 2], b: [1, 2]}`},
		{`{m: "hashed"}`, `[1, 2]`},
		{`{"m.at": "2dsphere"}`, `{at: "nowhere"}`},
		{`{m: "2dsphere"}`, `"nowhere"`},
		{`{m: "2d"}`, `{x: "nowhere"}`},
	} {
		for _, late := range []bool{false, true} {
			ns := schema.Namespace{DB: "db", Coll: fmt.Sprint(i, late)}
			coll, err := c.Create(t.Context(), ns, parse(t, `{timeseries: {timeField: "t", metaField: "m"}}`))
			if err != nil {
				t.Fatal(err)
			}
			spec, err := schema.ParseIndexSpec(ns, parse(t, `{key: `+of.key+`, name: "x"}`), false)
			if err != nil {
				t.Fatal(err)
			}
			index := func() error {
				_, _, err := c.CreateIndexes(t.Context(), ns, []bson.Doc{spec})
				return err
			}
			insert := func() error {
				m, err := timeseries.NewMeasurement(parse(t, `{t: {$date: {$numberLong: "1000"}}, m: `+of.meta+`}`), coll.Settings.Timeseries)
				if err != nil {
					t.Fatal(err)
				}
				return c.Run(t.Context(), storage.Buffered, func(u *Unit) error {
					return u.InsertMeasurements(t.Context(), coll, []timeseries.Measurement{m})
				})
			}
			first, second := index, insert
			if late {
				first, second = insert, index
			}
			if err := first(); err != nil {
				t.Fatal(err)
			}
			if err := second(); err == nil {
				t.Errorf("%s takes %s, index late: %v", of.key, of.meta, late)
			}
			if err := c.SealAll(t.Context(), coll); err != nil {
				t.Errorf("%s: %s cannot be sealed: %v", of.key, of.meta, err)
			}
		}
	}
}
