package catalog

import (
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// TestStagedTakesOfTheBudget holds that staged measurements are in the budget of
// operations, that they give way where operations are short of memory, and that all
// comes back.
func TestStagedTakesOfTheBudget(t *testing.T) {
	b := memory.NewBudget(memory.MinBudget)
	held := func() int64 { return b.Stats().Operations.Held }
	fs := storage.NewMemFS()
	e, c := openProved(t, storage.Options{Dir: "db", FS: fs, CacheBytes: 1 << 20, MemtableBytes: 4 << 20}, Options{Memory: b})
	coll, err := c.Create(t.Context(), schema.Namespace{DB: "db", Coll: "readings"}, parse(t, `{timeseries: {timeField: "t", metaField: "m"}}`))
	if err != nil {
		t.Fatal(err)
	}
	at := int64(1000)
	insert := func(n int) {
		t.Helper()
		if err := c.FlushStep(t.Context(), coll); err != nil {
			t.Fatal(err)
		}
		var ms []timeseries.Measurement
		for range n {
			at++
			doc := new(bson.Builder).Date("t", at).Int32("m", int32(at%100)).String("pad", strings.Repeat("x", 10_000)).Finish()
			m, err := timeseries.NewMeasurement(doc, coll.Settings.Timeseries)
			if err != nil {
				t.Fatal(err)
			}
			ms = append(ms, m)
		}
		if err := c.Run(t.Context(), storage.Buffered, func(u *Unit) error { return u.InsertMeasurements(t.Context(), coll, ms) }); err != nil {
			t.Fatal(err)
		}
	}
	inBudget := func(when string) {
		t.Helper()
		if staged := c.staged.Used(); held() < staged || held() > 3*staged {
			t.Fatalf("%s: %d bytes are staged, %d held", when, staged, held())
		}
	}
	for range 10 {
		insert(10)
		inBudget("while they are inserted")
	}
	if c.staged.Used() < 1_000_000 {
		t.Errorf("%d bytes are staged", c.staged.Used())
	}

	// An operation that takes all but a little.
	var a memory.Account
	a.Open(b)
	op := a.Hold(nil)
	for n := int(memory.MinBudget); op.Set(n) != nil; n -= 1 << 20 {
	}
	least := c.staged.Used()
	for range 20 {
		insert(10)
		least = min(least, c.staged.Used())
	}
	if most := int64(512 << 10); least > most {
		t.Errorf("never less than %d bytes are staged while there is no memory", least)
	}
	a.Close()
	insert(10)
	inBudget("with memory again")

	before := c.staged.Used()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if held() != 0 {
		t.Errorf("%d bytes are held by a catalog that is closed", held())
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	_, c = openProved(t, storage.Options{Dir: "db", FS: fs, CacheBytes: 1 << 20, MemtableBytes: 4 << 20}, Options{Memory: b})
	coll = c.LookupUUID(coll.UUID)
	if c.staged.Used() != before {
		t.Errorf("%d bytes are staged after a restart, %d before", c.staged.Used(), before)
	}
	inBudget("after a restart")
	if err := c.FlushStaged(t.Context(), coll); err != nil {
		t.Fatal(err)
	}
	if held() != 0 {
		t.Errorf("%d bytes are held where nothing is staged", held())
	}
}
