package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// profileCollectionSize is the size of a system.profile that was not created
// explicitly.
const profileCollectionSize = 1 << 20

// writeProfile adds an entry to the database's system.profile, and creates the
// collection if there is none.
func (n *Node) writeProfile(ctx context.Context, db string, entry bson.Doc) error {
	if n.Catalog == nil || n.Dispatcher.Gate.Locks() > 0 || entry.Lookup("command").Doc().Has("dropDatabase") {
		return nil
	}
	// The operation that the entry is about may have been killed, and is outside
	// the door.
	return n.inside(context.WithoutCancel(ctx), func(ctx context.Context) error {
		c, err := n.profileCollection(ctx, db)
		if err != nil {
			return err
		}
		var b bson.Builder
		doc := b.ObjectID("_id", bson.NewObjectID()).Fields(entry).Finish()
		return n.Catalog.Run(ctx, storage.Buffered, func(u *catalog.Unit) error { return u.Insert(ctx, c, doc) })
	})
}

func (n *Node) profileCollection(ctx context.Context, db string) (*catalog.Collection, error) {
	ns := schema.Namespace{DB: db, Coll: "system.profile"}
	if c := n.Catalog.Lookup(ns); c != nil {
		return c, nil
	}
	c, err := n.Catalog.Create(ctx, ns, new(bson.Builder).Bool("capped", true).Int32("size", profileCollectionSize).Finish())
	if mongoerr.Is(err, mongoerr.NamespaceExists) {
		if c := n.Catalog.Lookup(ns); c != nil {
			return c, nil
		}
	}
	return c, err
}
