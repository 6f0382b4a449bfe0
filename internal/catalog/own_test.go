package catalog

import (
	"context"
	"errors"
	"testing"

	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// TestOwnCollections: what is of this member alone has idents of its own, does not
// pass the committer, and stays what it is.
func TestOwnCollections(t *testing.T) {
	c := open(t, storage.NewMemFS())
	refused := mongoerr.New(mongoerr.NotWritablePrimary, "not primary")
	c.committer = refusing{refused}
	for _, ns := range []schema.Namespace{{DB: "local", Coll: "a"}, {DB: "d", Coll: "system.profile"}} {
		coll, err := c.Create(t.Context(), ns, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.CreateIndexes(t.Context(), ns, specs(t, ns, `{"key": {"a": 1}, "name": "a"}`)); err != nil {
			t.Fatal(err)
		}
		if err := write(c, coll, nil, parse(t, `{"_id": 1, "a": [1]}`)); err != nil {
			t.Fatal(err)
		}
		for _, ix := range c.Lookup(ns).Indexes() {
			if ix.Ident < storage.FirstOwnIdent {
				t.Errorf("%s: index %s is in keyspace %d", ns, ix.Name, ix.Ident)
			}
		}
		if _, err := c.Rename(t.Context(), ns, schema.Namespace{DB: "d", Coll: "b"}, false); !mongoerr.Is(err, mongoerr.IllegalOperation) {
			t.Errorf("rename: %v", err)
		}
	}
	if _, err := c.Create(t.Context(), testNS, nil); !errors.Is(err, refused) {
		t.Errorf("create: %v", err)
	}
	c.committer = engineCommitter{}
	common, err := c.Create(t.Context(), testNS, nil)
	if err != nil || common.Ident != storage.FirstIdent {
		t.Fatalf("the first common ident is %d, %v", common.Ident, err)
	}
	if _, err := c.Rename(t.Context(), testNS, schema.Namespace{DB: "local", Coll: "b"}, false); !mongoerr.Is(err, mongoerr.IllegalOperation) {
		t.Errorf("rename: %v", err)
	}
	u := c.Begin()
	defer u.Abort()
	if err := u.Insert(t.Context(), common, parse(t, `{"_id": 1}`)); err != nil {
		t.Fatal(err)
	}
	if err := u.Insert(t.Context(), c.Lookup(schema.Namespace{DB: "local", Coll: "a"}), parse(t, `{"_id": 2}`)); err != storage.ErrLockBusy {
		t.Errorf("a unit of both: %v", err)
	}
	u.Abort()
	gone, err := c.DropDatabase(t.Context(), testNS.DB)
	if err != nil || len(gone) != 2 || len(c.Collections(testNS.DB)) != 0 {
		t.Errorf("dropped %d, %v", len(gone), err)
	}
}

// refusing is a Committer that commits nothing.
type refusing struct{ err error }

func (r refusing) Commit(context.Context, *Effect, storage.Durability) error { return r.err }
func (r refusing) Writable() error                                           { return r.err }
