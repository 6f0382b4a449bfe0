package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/schema"
)

// renameByCopy is Catalog.Rename where the collection is of this member alone and
// the other name is not, or the other way round: into the database local, or out of
// it. As the server does between databases, a copy takes the place of the target,
// and then the collection goes. Who looks between the two steps sees both.
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

// copyAs fills a temporary collection with the indexes and documents of another
// one, and gives it its name.
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
