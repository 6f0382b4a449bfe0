package expire

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/schema"
)

// TestIdleSealing inserts readings of two sensors, a late one and an early
// one, and sees them packed when their spans are over, and no sooner.
func TestIdleSealing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.close()
		w.must(new(bson.Builder).String("create", "r").OpenDoc("timeseries").String("timeField", "t").String("metaField", "s").Close().Finish())
		insert := func(sensor int32, at time.Duration) {
			var b bson.Builder
			b.String("insert", "r").OpenArray("documents").OpenDoc("0").Date("t", time.Now().Add(at).UnixMilli()).Int32("s", sensor)
			w.must(b.Close().Close().Finish())
		}
		expect := func(open, buckets int64) {
			t.Helper()
			synctest.Wait()
			s := w.readings().BucketStats()
			if s.Open != open || s.Buckets != buckets || w.count("r") != 5 {
				t.Errorf("%s: %d open, %d buckets, %d readings", time.Now(), s.Open, s.Buckets, w.count("r"))
			}
		}
		insert(1, 0)
		insert(2, 0)
		insert(2, -48*time.Hour)
		insert(3, 5*time.Hour)
		insert(3, 5*time.Hour)
		time.Sleep(59*time.Minute + time.Second)
		expect(3, 0)
		time.Sleep(2 * time.Minute) // the span of granularity "seconds" is an hour
		expect(1, 3)
		time.Sleep(3 * time.Hour)
		expect(1, 3)
		time.Sleep(2 * time.Hour)
		expect(0, 4)
	})
}

// TestIdleSealingWaitsForLock sees nothing packed while writes are locked out.
func TestIdleSealingWaitsForLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.close()
		w.must(parse(t, `{create: "r", timeseries: {timeField: "t"}}`))
		w.must(parse(t, `{insert: "r", documents: [{t: {$date: "1999-01-01T00:00:00Z"}}]}`))
		if _, err := w.d.Gate.Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if s := w.readings().BucketStats(); s.Open != 1 || s.Buckets != 0 {
			t.Errorf("%+v", s)
		}
		if _, err := w.d.Gate.Unlock(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := w.readings().BucketStats(); s.Open != 0 || s.Buckets != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func parse(t *testing.T, s string) bson.Doc {
	t.Helper()
	d, err := bson.ParseJSON(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (w *world) readings() *catalog.Collection {
	return w.cat.Lookup(schema.Namespace{DB: "d", Coll: "r"})
}

func (w *world) count(c string) int32 {
	return w.must(new(bson.Builder).String("count", c).Finish()).Lookup("n").Int32()
}
