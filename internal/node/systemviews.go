package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// The collection system.views of a database shows its views as documents {_id:
// "db.view", viewOn, pipeline, collation}, as mongod's does. The views
// themselves are descriptors of the catalog; writes to system.views change no
// view.

// showView updates the document of a view, and removes it where the view was
// dropped.
func (n *Node) showView(ctx context.Context, ns schema.Namespace) error {
	home := schema.Namespace{DB: ns.DB, Coll: schema.ViewsCollection}
	c := n.Catalog.Lookup(home)
	view := n.Catalog.Lookup(ns)
	if view != nil && !view.IsView() {
		view = nil
	}
	if c == nil {
		if view == nil {
			return nil
		}
		if _, err := n.Catalog.Create(ctx, home, nil); err != nil && !mongoerr.Is(err, mongoerr.NamespaceExists) {
			return err
		}
		if c = n.Catalog.Lookup(home); c == nil {
			return nil
		}
	}
	u := n.Catalog.Begin()
	defer u.Abort()
	id := bson.String(ns.String())
	key := c.AppendIDKey(nil, id)
	old, err := u.LockRecord(ctx, c, key)
	if err != nil {
		return err
	}
	if old != nil {
		if err := u.Delete(ctx, c, key, old); err != nil {
			return err
		}
	}
	if view != nil {
		if err := u.Insert(ctx, c, viewDocument(view)); err != nil {
			return err
		}
	}
	return u.Commit(ctx, storage.Buffered)
}

func viewDocument(view *catalog.Collection) bson.Doc {
	o := view.Settings
	var b bson.Builder
	b.String("_id", view.Namespace.String()).String("viewOn", o.ViewOn)
	if o.Pipeline == nil {
		b.Array("pipeline", bson.Empty)
	} else {
		b.Array("pipeline", o.Pipeline)
	}
	if o.Collation != nil {
		b.Doc("collation", o.Collation.Spec)
	}
	return b.Finish()
}

// viewsOf lists the views of a database.
func (n *Node) viewsOf(db string) (views []*catalog.Collection) {
	for _, c := range n.Catalog.Collections(db) {
		if c.IsView() {
			views = append(views, c)
		}
	}
	return views
}
