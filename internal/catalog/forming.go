package catalog

import (
	"context"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// A collection that an open transaction has created is there under a name of its own, which
// no list has and no operation records, and is temporary: what a primary that has died leaves
// of it is dropped by the next one. Its transaction sees it under the name that it is to have,
// and it gets that name in the unit of the commit (docs/rfcs/0027-transactions.md).

// formingPrefix begins the names of such collections.
const formingPrefix = "system.forming."

// forming reports whether the collection is one of an open transaction.
func (c *Collection) forming() bool { return strings.HasPrefix(c.Namespace.Coll, formingPrefix) }

// formed is a collection that a transaction has created.
type formed struct {
	live *live
	ns   schema.Namespace // the name that it is to have
	// of is the descriptor of which seen was made, with the name.
	of, seen *Collection
}

// see returns the newest descriptor with the name that the collection is to have; nil if it
// was dropped.
func (f *formed) see() *Collection {
	now := f.live.current.Load()
	if f.live.dropped.Load() {
		return nil
	}
	if now != f.of {
		f.of, f.seen = now, now.with(func(n *Collection) { n.Namespace, n.Options = f.ns, withoutTemp(now.Options) })
	}
	return f.seen
}

// Create creates a collection with options, nil for none. Nobody else sees it before the
// commit. Errors: 112, if there is one of that name, those of commits.
func (t *Transaction) Create(ctx context.Context, ns schema.Namespace, options bson.Doc) (*Collection, error) {
	if t.past || t.c.Lookup(ns) != nil || t.Lookup(ns) != nil {
		return nil, storage.ErrConflict
	}
	if err := t.c.CheckCase(ns.DB); err != nil {
		return nil, err
	}
	id := bson.NewUUID()
	hidden := schema.Namespace{DB: ns.DB, Coll: formingPrefix + hex.EncodeToString(id[:])}
	c, err := t.c.CreateWith(ctx, hidden, NewCollection{Options: WithTemp(options), UUID: id})
	if err != nil {
		return nil, err
	}
	f := &formed{live: c.live, ns: ns}
	t.created = append(t.created, f)
	return f.see(), nil
}

// Lookup finds a collection that the transaction has created, or returns nil.
func (t *Transaction) Lookup(ns schema.Namespace) *Collection {
	for _, f := range t.created {
		if f.ns == ns {
			return f.see()
		}
	}
	return nil
}

// Created reports whether the transaction has created a collection.
func (t *Transaction) Created(c *Collection) bool { return t.formedOf(c.live) != nil }

// Knows reports whether a descriptor is that of the transaction's state: the collection has not
// changed since, or the transaction itself has created it. Otherwise LookupAt tells.
func (t *Transaction) Knows(c *Collection) bool {
	return t.Created(c) || !t.past && c.live.changed.Load() <= t.changes && c.readableAt() == nil
}

func (t *Transaction) formedOf(l *live) *formed {
	for _, f := range t.created {
		if f.live == l {
			return f
		}
	}
	return nil
}

// CreateIndexes creates indexes on a collection that the transaction has created, as
// Catalog.CreateIndexesWhen does.
// REQUIRES: Created.
func (t *Transaction) CreateIndexes(ctx context.Context, c *Collection, specs []bson.Doc) (before, after int, err error) {
	if err := invariant.Require(t.Created(c), "catalog: a transaction creates indexes on what it has created"); err != nil {
		return 0, 0, err
	}
	return t.c.CreateIndexesWhen(ctx, c.live.current.Load().Namespace, specs, nil)
}

// reveal gives what the transaction has created its names, in the unit of the commit. The
// caller has the lock of DDL. Errors: 112 if a name is taken by now, or a collection was dropped.
func (t *Transaction) reveal(u *Unit) error {
	for _, f := range t.created {
		c := f.see()
		if c == nil || t.c.Lookup(f.ns) != nil {
			return storage.ErrConflict
		}
		if err := t.c.CheckCase(f.ns.DB); err != nil {
			return err
		}
		c = c.with(func(*Collection) {})
		if err := c.applyOptions(); err != nil {
			return err
		}
		d := change{c: t.c, e: u.e, u: u.u}
		u.e.ops.on = t.c.operations
		d.command(c, "create", func(b *bson.Builder) { b.Fields(c.Options) })
		d.recordIndexes(c, slices.DeleteFunc(slices.Clone(c.indexes), (*Index).IsID), nil)
		if err := d.store(c); err != nil {
			return err
		}
	}
	return nil
}

// dropCreated drops what the transaction has created. What cannot be dropped, since this member
// is no longer primary, the next one drops.
func (t *Transaction) dropCreated(ctx context.Context) {
	for _, f := range t.created {
		_ = t.c.change(ctx, only(f.live), func(d *change) error {
			c := f.live.current.Load()
			if f.live.dropped.Load() || !c.forming() {
				return nil
			}
			return d.drop(c)
		})
	}
	t.created = nil
}
