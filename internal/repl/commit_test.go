package repl

import (
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

func TestLocalCommits(t *testing.T) {
	e, err := storage.Open(storage.Options{Dir: "db", FS: storage.NewMemFS(), CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	var committer Committer = Local{}
	if err := committer.Writable(); err != nil {
		t.Fatal(err)
	}
	c, err := catalog.Open(e, catalog.Options{Committer: committer})
	if err != nil {
		t.Fatal(err)
	}
	coll, err := c.Create(t.Context(), schema.Namespace{DB: "d", Coll: "c"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = c.Run(t.Context(), storage.Journaled, func(u *catalog.Unit) error {
		return u.Insert(t.Context(), coll, new(bson.Builder).Int32("_id", 1).Finish())
	})
	if err != nil {
		t.Fatal(err)
	}
	if coll.Count() != 1 {
		t.Errorf("count %d", coll.Count())
	}
}
