package node

import (
	"context"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/replay"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// TestKilledOut stops a server in the middle of an $out: after the next start
// its temporary collection is gone, and the target is what it was.
func TestKilledOut(t *testing.T) {
	ctx, fs := context.Background(), storage.NewMemFS()
	start := func() (*storage.Engine, *Node, *command.Client) {
		e, c := replay.Open(t, storage.Options{Dir: "db", FS: fs, CacheBytes: 8 << 20}, catalog.Options{})
		n, client := over(c)
		n.Register(n.Dispatcher.Registry)
		return e, n, client
	}
	e, n, client := start()
	dispatch(t, n, client, "d", `{"insert": "target", "documents": [{"_id": "old"}]}`, false)
	dispatch(t, n, client, "d", `{"createIndexes": "target", "indexes": [{"key": {"a": 1}, "name": "a"}]}`, false)
	w := &world{n: n, op: &command.Op{Client: client, Dispatcher: n.Dispatcher}, ns: schema.Namespace{DB: "d", Coll: "source"}}
	target, err := w.Out(ctx, &pipeline.Out{Into: pipeline.Namespace{DB: "d", Coll: "target"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := target.Add(ctx, new(bson.Builder).String("_id", "new").Finish()); err != nil {
		t.Fatal(err)
	}
	if all := n.Catalog.Collections("d"); len(all) != 2 {
		t.Fatalf("%d collections while the $out runs", len(all))
	}
	target.(*outing).writer.Abort()
	if err := n.Catalog.Close(); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}

	e, n, client = start()
	defer e.Close()
	defer n.Catalog.Close()
	if all := n.Catalog.Collections("d"); len(all) != 1 || all[0].Namespace.Coll != "target" || len(all[0].Indexes()) != 2 {
		t.Errorf("%d collections after the start", len(all))
	}
	// One that ends is no temporary collection.
	for _, text := range []string{
		`{"aggregate": "target", "pipeline": [{"$out": "target"}], "cursor": {}}`,
		`{"convertToCapped": "target", "size": 4096}`,
	} {
		if got := dispatch(t, n, client, "d", text, false).Body; got.Lookup("ok").Double() != 1 {
			t.Fatalf("%s: %s", text, got)
		}
		if c := n.Catalog.Lookup(schema.Namespace{DB: "d", Coll: "target"}); c == nil || c.Settings.Temp {
			t.Fatalf("after %s the collection is temporary, or not there", text)
		}
	}
}
