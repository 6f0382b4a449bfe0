package catalog

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/measurements"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// flusher is a time-series collection whose staged measurements are flushed in small
// parts, and the numbers of all its measurements.
type flusher struct {
	fs   *storage.MemFS
	c    *Catalog
	coll *Collection
	next int32
	want []int32
}

// TestFlushStaged flushes staged measurements part by part, with others inserted,
// deleted and sealed in between and the process ended at any place, and sees each
// measurement once.
func TestFlushStaged(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &flusher{fs: storage.NewMemFS()}
		m.open(rt)
		defer m.close(rt)
		m.create(rt, 150)
		do := func(f func(context.Context, measurements.Run) error) {
			if err := f(t.Context(), m.c.runIn(m.coll)); err != nil {
				rt.Fatal(err)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"": func(rt *rapid.T) { m.check(rt) },
			"insert": func(rt *rapid.T) {
				m.insert(rt, rapid.IntRange(1, 20).Draw(rt, "readings"))
			},
			"freeze": func(*rapid.T) { do(m.coll.live.measurements.Freeze) },
			"part":   func(*rapid.T) { do(m.coll.live.measurements.FlushPart) },
			"step": func(rt *rapid.T) {
				if err := m.c.FlushStep(t.Context(), m.coll); err != nil {
					rt.Fatal(err)
				}
			},
			"seal": func(rt *rapid.T) {
				if err := m.c.SealAll(t.Context(), m.coll); err != nil {
					rt.Fatal(err)
				}
			},
			"delete": m.delete,
			"restart": func(rt *rapid.T) {
				m.restart(rt, 150)
			},
		})
	})
}

func (m *flusher) open(t failer) {
	_, m.c = openProved(t, storage.Options{Dir: "db", FS: m.fs, CacheBytes: 1 << 20, MemtableBytes: 256 << 10}, Options{})
}

func (m *flusher) close(t failer) {
	if err := m.c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := m.c.engine.Close(); err != nil {
		t.Fatal(err)
	}
}

// create makes the collection, whose parts have so many bytes.
func (m *flusher) create(t failer, part int) {
	var err error
	m.coll, err = m.c.Create(context.Background(), schema.Namespace{DB: "db", Coll: "readings"}, parse(t, `{timeseries: {timeField: "t", metaField: "s", bucketMaxSpanSeconds: 3600, bucketRoundingSeconds: 3600}}`))
	if err != nil {
		t.Fatal(err)
	}
	m.coll.live.measurements.SetLimits(measurements.Limits{PartBytes: part})
}

func (m *flusher) restart(t failer, part int) {
	m.close(t)
	m.open(t)
	m.coll = m.c.Lookup(m.coll.Namespace)
	m.coll.live.measurements.SetLimits(measurements.Limits{PartBytes: part})
}

func (m *flusher) insert(t *rapid.T, n int) {
	var ms []timeseries.Measurement
	for range n {
		ms = append(ms, m.reading(t, int64(rapid.IntRange(0, 5).Draw(t, "hour"))*3600_000, int32(rapid.IntRange(0, 7).Draw(t, "source"))))
	}
	m.put(t, ms...)
}

// reading makes the next reading.
func (m *flusher) reading(t failer, at int64, source int32) timeseries.Measurement {
	d := new(bson.Builder).Int32("_id", m.next).Date("t", at).Int32("s", source).Finish()
	m.next++
	x, err := timeseries.NewMeasurement(d, m.coll.Settings.Timeseries)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// put inserts readings in one unit.
func (m *flusher) put(t failer, ms ...timeseries.Measurement) {
	ctx := context.Background()
	if err := m.c.Run(ctx, storage.Buffered, func(u *Unit) error { return u.InsertMeasurements(ctx, m.coll, ms) }); err != nil {
		t.Fatal(err)
	}
	for _, x := range ms {
		m.want = append(m.want, x.Doc.Lookup("_id").Int32())
	}
}

// source is one with open measurements.
func (m *flusher) source(t failer, n int32) measurements.Source {
	for _, s := range m.coll.OpenSources() {
		if s.Meta.Int32() == n {
			return s
		}
	}
	t.Fatalf("nothing is open of source %d", n)
	return measurements.Source{}
}

// TestFlushStagedNumbers ends the process when a part was flushed, and with it nothing
// is left that has a number behind those that were handed out when it was frozen:
// what is inserted next is not taken for what was flushed.
func TestFlushStagedNumbers(t *testing.T) {
	m := &flusher{fs: storage.NewMemFS()}
	m.open(t)
	defer func() { m.close(t) }()
	m.create(t, 1)
	first, second := m.reading(t, 0, 1), m.reading(t, 0, 2)
	m.put(t, first)
	m.put(t, second)
	u := m.c.Begin()
	if err := u.InsertMeasurements(t.Context(), m.coll, []timeseries.Measurement{m.reading(t, 0, 1)}); err != nil {
		t.Fatal(err)
	}
	u.Abort()
	table := m.coll.live.measurements
	if err := table.Freeze(t.Context(), m.c.runIn(m.coll)); err != nil {
		t.Fatal(err)
	}
	if err := table.FlushPart(t.Context(), m.c.runIn(m.coll)); err != nil {
		t.Fatal(err)
	}
	m.check(t)
	err := m.c.EditOpen(t.Context(), m.coll, m.source(t, 1).Key, storage.Buffered, nil, func([]timeseries.Measurement) ([]timeseries.Measurement, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	m.want = m.want[1:]
	m.check(t)
	m.restart(t, 1)
	m.put(t, m.reading(t, 0, 1))
	m.check(t)
	if err := m.coll.live.measurements.FlushPart(t.Context(), m.c.runIn(m.coll)); err != nil {
		t.Fatal(err)
	}
	m.restart(t, 1)
	m.check(t)
}

// TestStagedMemory sees memory set aside for what was staged of a source the last
// time, and no more for one that had its measurements long ago.
func TestStagedMemory(t *testing.T) {
	m := &flusher{fs: storage.NewMemFS()}
	m.open(t)
	defer func() { m.close(t) }()
	m.create(t, 0)
	insert := func(source int32, n int) (room int) {
		var ms []timeseries.Measurement
		for i := range n {
			ms = append(ms, m.reading(t, int64(i), source))
		}
		m.put(t, ms...)
		room = cap(m.source(t, source).Staged)
		if err := m.c.FlushStaged(t.Context(), m.coll); err != nil {
			t.Fatal(err)
		}
		return room
	}
	const many = 500
	insert(1, many)
	if n := insert(1, 1); n < many {
		t.Errorf("room for %d is set aside", n)
	}
	insert(1, many)
	insert(2, many)
	if n := insert(1, 1); n >= many {
		t.Errorf("room for %d is set aside, for a source that had its measurements before", n)
	}
	m.check(t)
}

// delete removes every second open measurement of a source.
func (m *flusher) delete(t *rapid.T) {
	all := m.coll.OpenSources()
	if len(all) == 0 {
		return
	}
	var gone []int32
	err := m.c.EditOpen(t.Context(), m.coll, rapid.SampledFrom(all).Draw(t, "source").Key, storage.Buffered, nil, func(ms []timeseries.Measurement) (keep []timeseries.Measurement, _ error) {
		gone = nil
		for i, x := range ms {
			if i%2 == 1 {
				keep = append(keep, x)
			} else {
				gone = append(gone, x.Doc.Lookup("_id").Int32())
			}
		}
		return keep, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	m.want = slices.DeleteFunc(m.want, func(id int32) bool { return slices.Contains(gone, id) })
}

// check reads all measurements, and validates the collection.
func (m *flusher) check(t failer) {
	snapshot, sources, err := m.c.MeasurementView(m.coll)
	if err != nil {
		t.Fatal(err)
	}
	defer snapshot.Close()
	var got []int32
	r := m.coll.NewOpenReader(snapshot)
	defer r.Close()
	for i := range sources {
		ms, err := r.Read(&sources[i], math.MinInt64, math.MaxInt64)
		if err != nil {
			t.Fatal(err)
		}
		if len(ms) != sources[i].Count {
			t.Fatalf("source %x has %d open measurements, and not %d", sources[i].Key, len(ms), sources[i].Count)
		}
		for _, x := range ms {
			got = append(got, x.Doc.Lookup("_id").Int32())
		}
	}
	it, err := snapshot.NewIter(m.coll.Ident, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			t.Fatal(err)
		}
		b, err := timeseries.Open(bson.Doc(v), m.coll.Settings.Timeseries)
		if err != nil {
			t.Fatal(err)
		}
		var ids timeseries.Series
		if err := b.Series("_id", &ids); err != nil {
			t.Fatal(err)
		}
		for i := range ids.Len() {
			got = append(got, ids.At(i).Int32())
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, m.want) {
		t.Fatalf("%v are there, and not %v", got, m.want)
	}
	v, err := m.c.Validate(context.Background(), m.coll, true)
	if err != nil || len(v.Errors) > 0 {
		t.Fatalf("%v %v", v.Errors, err)
	}
}

// TestSeriesKeyspaces sees the buckets of a time-series collection counted as its
// keys, and not the measurements in them.
func TestSeriesKeyspaces(t *testing.T) {
	m := &flusher{fs: storage.NewMemFS()}
	m.open(t)
	defer func() { m.close(t) }()
	m.create(t, 0)
	m.put(t, m.reading(t, 0, 1), m.reading(t, 1, 1), m.reading(t, 2, 1))
	if err := m.c.SealAll(t.Context(), m.coll); err != nil {
		t.Fatal(err)
	}
	for _, s := range m.coll.keyspaces() {
		if s.keys != 1 {
			t.Errorf("%d keys in %d for one bucket", s.keys, s.ident)
		}
	}
}

// TestFlushStepAmongMany inserts into many time-series collections, which together
// have more staged than they may: each insert makes room, and only few of them
// look at all collections for that.
func TestFlushStepAmongMany(t *testing.T) {
	c := open(t, storage.NewMemFS())
	const collections, inserts = 200, 4
	doc := new(bson.Builder).Date("t", 1000).String("pad", strings.Repeat("x", 1000)).Finish()
	bound := collections / 4 * int64(len(doc))
	c.staged = measurements.NewBudget(bound, nil)
	var all []*Collection
	for i := range collections {
		coll, err := c.Create(t.Context(), schema.Namespace{DB: "db", Coll: fmt.Sprint("readings", i)}, parse(t, `{timeseries: {timeField: "t"}}`))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, coll)
	}
	for range inserts {
		for _, coll := range all {
			m, err := timeseries.NewMeasurement(doc, coll.Settings.Timeseries)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.FlushStep(t.Context(), coll); err != nil {
				t.Fatal(err)
			}
			if err := c.Run(t.Context(), storage.Buffered, func(u *Unit) error {
				return u.InsertMeasurements(t.Context(), coll, []timeseries.Measurement{m})
			}); err != nil {
				t.Fatal(err)
			}
			if n := c.staged.Used(); n > bound+int64(len(doc)) {
				t.Fatalf("%d bytes are staged", n)
			}
		}
	}
	if n := float64(c.staged.Compared()) / (collections * inserts); n == 0 || n > collections/4 {
		t.Errorf("an insert compares %.1f collections of %d", n, collections)
	}
}
