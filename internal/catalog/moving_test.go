package catalog

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// mover is a time-series collection whose staged measurements move in small
// parts, and the numbers of all its measurements.
type mover struct {
	fs   *storage.MemFS
	c    *Catalog
	coll *Collection
	next int32
	want []int32
}

// TestMoving moves staged measurements part by part, with others inserted,
// deleted and sealed in between and the process ended at any place, and sees each
// measurement once.
func TestMoving(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &mover{fs: storage.NewMemFS()}
		m.open(rt)
		defer m.close(rt)
		var err error
		m.coll, err = m.c.Create(t.Context(), schema.Namespace{DB: "db", Coll: "readings"}, parse(rt, `{timeseries: {timeField: "t", metaField: "s", bucketMaxSpanSeconds: 3600, bucketRoundingSeconds: 3600}}`))
		if err != nil {
			rt.Fatal(err)
		}
		m.coll.live.open.part = 150
		held := func(f func() error) {
			m.coll.live.open.staging.moving.Lock()
			defer m.coll.live.open.staging.moving.Unlock()
			if err := f(); err != nil {
				rt.Fatal(err)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"": m.check,
			"insert": func(rt *rapid.T) {
				m.insert(rt, rapid.IntRange(1, 20).Draw(rt, "readings"))
			},
			"freeze": func(*rapid.T) {
				held(func() error {
					if m.coll.live.open.staging.frozen.Load() == 0 {
						m.coll.live.open.freeze()
					}
					return nil
				})
			},
			"part": func(*rapid.T) { held(func() error { return m.c.movePart(t.Context(), m.coll) }) },
			"room": func(rt *rapid.T) {
				if err := m.c.MakeRoom(t.Context(), m.coll); err != nil {
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
				m.close(rt)
				m.open(rt)
				m.coll = m.c.Lookup(m.coll.Namespace)
				m.coll.live.open.part = 150
			},
		})
	})
}

func (m *mover) open(t *rapid.T) {
	e, err := storage.Open(storage.Options{Dir: "db", FS: m.fs, CacheBytes: 1 << 20, MemtableBytes: 256 << 10})
	if err != nil {
		t.Fatal(err)
	}
	if m.c, err = Open(e, Options{}); err != nil {
		t.Fatal(err)
	}
}

func (m *mover) close(t *rapid.T) {
	if err := m.c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := m.c.engine.Close(); err != nil {
		t.Fatal(err)
	}
}

func (m *mover) insert(t *rapid.T, n int) {
	var ms []timeseries.Measurement
	for range n {
		d := new(bson.Builder).Int32("_id", m.next).Date("t", int64(rapid.IntRange(0, 5).Draw(t, "hour"))*3600_000).
			Int32("s", int32(rapid.IntRange(0, 7).Draw(t, "source"))).Finish()
		x, err := NewMeasurement(d, m.coll.Settings.Timeseries)
		if err != nil {
			t.Fatal(err)
		}
		ms = append(ms, x)
		m.want = append(m.want, m.next)
		m.next++
	}
	if err := m.c.Run(t.Context(), storage.Buffered, func(u *Unit) error { return u.InsertMeasurements(t.Context(), m.coll, ms) }); err != nil {
		t.Fatal(err)
	}
}

// delete removes every second open measurement of a source.
func (m *mover) delete(t *rapid.T) {
	all := m.coll.OpenSources()
	if len(all) == 0 {
		return
	}
	var gone []int32
	err := m.c.EditOpen(t.Context(), m.coll, rapid.SampledFrom(all).Draw(t, "source").Key, storage.Buffered, func(ms []timeseries.Measurement) (keep []timeseries.Measurement, _ error) {
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
func (m *mover) check(t *rapid.T) {
	if m.coll == nil {
		return
	}
	snapshot, sources, err := m.c.MeasurementView(m.coll, nil)
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
	v, err := m.c.Validate(t.Context(), m.coll, true)
	if err != nil || len(v.Errors) > 0 {
		t.Fatalf("%v %v", v.Errors, err)
	}
}
