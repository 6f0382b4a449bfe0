package catalog

import (
	"context"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// TestTemporaryCollections: those of an earlier process go when the catalog
// opens, with their documents; what a rename made of one stays.
func TestTemporaryCollections(t *testing.T) {
	ctx, fs := context.Background(), storage.NewMemFS()
	c := open(t, fs)
	ns := func(name string) schema.Namespace { return schema.Namespace{DB: "d", Coll: name} }
	capped := parse(t, `{"capped": true, "size": 4096}`)
	for name, options := range map[string]bson.Doc{
		"plain": nil, "killed": WithTemp(nil), "done": WithTemp(capped), "moved": WithTemp(capped),
		"series": WithTemp(parse(t, `{"timeseries": {"timeField": "t", "granularity": "seconds", "bucketMaxSpanSeconds": 3600}}`)),
	} {
		coll, err := c.Create(ctx, ns(name), options)
		if err != nil {
			t.Fatal(err)
		}
		if coll.IsTimeseries() {
			continue
		}
		if err := write(c, coll, nil, parse(t, `{"_id": 1}`)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Rename(ctx, ns("done"), ns("result"), false); err != nil {
		t.Fatal(err)
	}
	if _, err := c.RenameTemporary(ctx, ns("moved"), ns("still"), false); err != nil {
		t.Fatal(err)
	}
	c = reopen(t, c, fs)
	for _, name := range []string{"killed", "done", "moved", "still", "series"} {
		if c.Lookup(ns(name)) != nil {
			t.Errorf("%s is there after a start", name)
		}
	}
	for _, name := range []string{"plain", "result"} {
		coll := c.Lookup(ns(name))
		if coll == nil {
			t.Fatalf("%s is not there after a start", name)
		}
		mustValidate(t, c, coll)
		if _, docs := records(t, c.engine, coll); len(docs) != 1 || coll.Settings.Temp {
			t.Errorf("%s: %d documents, options %s", name, len(docs), coll.Options)
		}
	}
	if got := c.Lookup(ns("result")); !got.Capped || got.MaxBytes != 4096 {
		t.Errorf("a rename lost options: %s", got.Options)
	}
}
