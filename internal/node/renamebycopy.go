package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/schema"
)

// renameByCopy is Catalog.Rename into the database local or out of it, where one
// name belongs to this member alone and the other does not. As mongod does between
// databases, it replaces the target with a copy, and then drops the collection.
// Between the two steps both are visible.
func (n *Node) renameByCopy(ctx context.Context, from, to schema.Namespace, dropTarget bool) (*catalog.Collection, error) {
	old := n.Catalog.Lookup(from)
	tmp := schema.Namespace{DB: to.DB, Coll: "tmp" + bson.NewUUID().String()[:5] + ".renameCollection"}
	if _, err := n.Catalog.Create(ctx, tmp, catalog.WithTemp(old.Options)); err != nil {
		return nil, err
	}
	c, err := n.copyAs(ctx, old, tmp, to, dropTarget)
	if err != nil {
		n.Catalog.Drop(context.WithoutCancel(ctx), tmp)
		return nil, err
	}
	_, err = n.Catalog.Drop(context.WithoutCancel(ctx), from)
	return c, err
}

// copyAs copies the indexes and documents of a collection into a temporary one,
// and gives that its new name.
func (n *Node) copyAs(ctx context.Context, old *catalog.Collection, tmp, to schema.Namespace, dropTarget bool) (*catalog.Collection, error) {
	var specs []bson.Doc
	for _, ix := range old.Indexes() {
		if !ix.IsID() {
			specs = append(specs, ix.Spec)
		}
	}
	if len(specs) > 0 {
		if _, _, err := n.Catalog.CreateIndexes(ctx, tmp, specs); err != nil {
			return nil, err
		}
	}
	if err := n.copyDocuments(ctx, old, n.Catalog.Lookup(tmp)); err != nil {
		return nil, err
	}
	return n.Catalog.Rename(ctx, tmp, to, dropTarget)
}
