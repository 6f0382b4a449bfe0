package catalog

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Rename gives a collection another name, within its database or in another
// one; nothing is copied. A collection with the new name is dropped in the same
// step if dropTarget is true. The UUID stays within a database, and is new in
// another one, as after the server's copy. It is no longer a temporary
// collection. Errors: 26, 48.
func (c *Catalog) Rename(ctx context.Context, from, to schema.Namespace, dropTarget bool) (*Collection, error) {
	return c.rename(ctx, from, to, dropTarget, false)
}

// RenameTemporary is Rename for stayTemp: a temporary collection stays one.
func (c *Catalog) RenameTemporary(ctx context.Context, from, to schema.Namespace, dropTarget bool) (*Collection, error) {
	return c.rename(ctx, from, to, dropTarget, true)
}

// CanBecome reports whether Rename can give the collection a name. It cannot where one of
// the two names belongs to this member alone and the other does not.
func (c *Collection) CanBecome(to schema.Namespace) bool { return c.own() == ownNamespace(to) }

func (c *Catalog) rename(ctx context.Context, from, to schema.Namespace, dropTarget, stayTemp bool) (*Collection, error) {
	var renamed *Collection
	err := c.change(ctx, c.named(from, to), func(t *change) error {
		coll, err := t.find(from)
		if err != nil {
			return mongoerr.New(mongoerr.NamespaceNotFound, "Source collection %s does not exist", from)
		}
		if !coll.CanBecome(to) {
			return mongoerr.New(mongoerr.IllegalOperation, "Cannot rename collections between a replicated and an unreplicated database")
		}
		if to.DB != from.DB && coll.archiving != nil {
			return mongoerr.New(mongoerr.IllegalOperation, "Cannot rename '%s' to another database: a TTL index of it archives what expires, and what was archived is found in its database only", from)
		}
		target := c.Lookup(to)
		if target != nil && target.live == coll.live {
			target = nil
		}
		if target != nil {
			if !dropTarget {
				return mongoerr.New(mongoerr.NamespaceExists, "target namespace exists")
			}
			if err := t.drop(target); err != nil {
				return err
			}
		}
		t.recordRename(coll, to, target, stayTemp)
		renamed = coll.with(func(n *Collection) {
			n.Namespace = to
			if to.DB != from.DB {
				n.UUID = bson.NewUUID()
			}
		})
		if coll.Settings.Temp && !stayTemp {
			renamed.Options = withoutTemp(coll.Options)
			if err := renamed.applyOptions(); err != nil {
				return err
			}
		}
		return t.store(renamed)
	})
	if err != nil {
		return nil, err
	}
	return renamed, nil
}

// recordRename records that a collection gets another name, which was target's or
// free.
func (t *change) recordRename(coll *Collection, to schema.Namespace, target *Collection, stayTemp bool) {
	if !t.e.ops.on || coll.own() {
		return
	}
	b := new(bson.Builder).String("renameCollection", coll.Namespace.String()).String("to", to.String()).Bool("stayTemp", stayTemp)
	if target != nil {
		b.Binary("dropTarget", uuidSubtype, target.UUID[:])
	}
	t.recordCommand(coll.placeOps(), b.Finish(), nil)
}
