package exec

import (
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// TestMeasurementIndex asks for few measurements of many buckets by a field
// that has an index, and sees that few buckets are looked at; questions about
// the buckets themselves do not use it.
func TestMeasurementIndex(t *testing.T) {
	h := openHouse(t, storage.NewMemFS())
	defer h.close(t)
	ns := schema.Namespace{DB: "db", Coll: "c"}
	if _, err := h.catalog.Create(t.Context(), ns, parseDoc(t, `{timeseries: {timeField: "t", metaField: "m", granularity: "seconds"}}`)); err != nil {
		t.Fatal(err)
	}
	specs := []bson.Doc{parseDoc(t, `{v: 2, key: {v: 1}, name: "v"}`)}
	if _, _, err := h.catalog.CreateIndexes(t.Context(), ns, specs); err != nil {
		t.Fatal(err)
	}
	c := h.catalog.Lookup(ns)
	var ms []timeseries.Measurement
	for i := range 1000 {
		d := new(bson.Builder).Int32("_id", int32(i)).Int32("m", int32(i%100)).Date("t", int64(i)).Int32("v", int32(i%100*10+i/100)).Finish()
		m, err := timeseries.NewMeasurement(d, c.Settings.Timeseries)
		if err != nil {
			t.Fatal(err)
		}
		ms = append(ms, m)
	}
	w := h.exec.NewWriter(storage.Buffered)
	if err := w.InsertMeasurements(t.Context(), c, ms); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := h.catalog.SealAll(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	ask := func(c *catalog.Collection, filter string) (n, keys, docs int64, summary string) {
		r, err := h.exec.start(t.Context(), c, asked{filter: filter}.query(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.close()
		var row stage.Row
		for {
			ok, err := r.next(t.Context(), &row)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			n++
		}
		keys, docs = totals(r.winner.stage)
		return n, keys, docs, Summary(r.winner.node)
	}
	for _, tc := range []struct {
		filter  string
		n, keys int64
	}{
		{`{v: 555}`, 1, 60}, {`{v: {$gt: 980}}`, 19, 105}, {`{v: {$lt: 15}}`, 15, 5}, {`{v: {$in: [0, 3, 12]}}`, 3, 5}, {`{v: {$gte: 2000}}`, 0, 105},
	} {
		n, keys, docs, summary := ask(c, tc.filter)
		if n != tc.n || keys > tc.keys || docs > 50 || !strings.HasPrefix(summary, "IXSCAN { control.min.v: 1") {
			t.Errorf("%s: %d found, %d keys, %d documents, %s", tc.filter, n, keys, docs, summary)
		}
	}
	if n, _, _, summary := ask(c.Buckets(), `{"control.min.v": {$lt: 15}}`); n != 2 || summary != "COLLSCAN" {
		t.Errorf("%d buckets by %s", n, summary)
	}
}
