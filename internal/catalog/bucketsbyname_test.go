package catalog

import (
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// A collection that a client creates under the name of buckets, with the options of a time
// series, is a plain one. A store with one opens, and so does one of an earlier build, which
// gave its descriptor the version of a time series: no member applied it, and no server with
// it started again.
func TestBucketsByName(t *testing.T) {
	fs := storage.NewMemFS()
	c := open(t, fs)
	ns := schema.Namespace{DB: "d", Coll: schema.BucketsPrefix + "x"}
	made, err := c.Create(t.Context(), ns, parse(t, `{timeseries: {timeField: "t", granularity: "seconds", bucketMaxSpanSeconds: 3600}}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Run(t.Context(), storage.Journaled, func(u *Unit) error { return u.Insert(t.Context(), made, parse(t, `{_id: 1}`)) }); err != nil {
		t.Fatal(err)
	}
	c = reopen(t, c, fs)
	found := c.Lookup(ns)
	if found == nil || found.IsTimeseries() || found.HoldsBuckets() || found.Count() != 1 {
		t.Fatalf("after a start: %+v", found)
	}
	var earlier bson.Builder
	for name, v := range found.encode().All() {
		if name == "v" {
			v = bson.Int32(seriesVersion)
		}
		earlier.Value(name, v)
	}
	if again, err := decode(found.id, earlier.Finish()); err != nil || again.Namespace != ns {
		t.Fatalf("of an earlier build: %v", err)
	}
}
