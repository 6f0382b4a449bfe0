package catalog

import (
	"cmp"
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// change is one DDL: what it writes commits in one unit, then what it publishes
// becomes visible. It holds the gates of the collections it changes until then,
// so no writer uses an older descriptor.
//
// Gates are closed in the order of their collections, and before the lock that
// admits one DDL at a time: the holder of that lock waits for no writer. So
// Create, which closes no gate, may also be called while a unit is open.
type change struct {
	c     *Catalog
	e     *Effect
	u     *storage.Unit // the effect's
	gates []*live
	begun *build // which begins when the change is visible, or nil
	// internal says that streams of changes do not tell of it (Internally).
	internal bool
}

// touches returns the collections that a DDL changes in the current state:
// those whose gates it must close.
type touches func() []*live

// named touches the collections with some names.
func (c *Catalog) named(names ...schema.Namespace) touches {
	return func() (all []*live) {
		for _, ns := range names {
			if coll := c.Lookup(ns); coll != nil {
				all = append(all, coll.live)
			}
		}
		return all
	}
}

// database touches all collections of a database.
func (c *Catalog) database(db string) touches {
	return func() (all []*live) {
		for _, coll := range c.Collections(db) {
			all = append(all, coll.live)
		}
		return all
	}
}

// only touches one collection, whatever its name.
func only(l *live) touches { return func() []*live { return []*live{l} } }

// nothing touches no collection that exists.
func nothing() []*live { return nil }

// internally is the key of a context's value.
type internally struct{}

// Internally returns a context in which DDL is an operation of the cluster, of which change
// streams do not tell (Operation.Internal): it makes or drops what this shard has of a
// collection.
func Internally(ctx context.Context) context.Context {
	return context.WithValue(ctx, internally{}, true)
}

// ddlTurn lets one DDL run at a time. Who has it waits for its commit by other members, so who
// waits for it can be interrupted.
type ddlTurn chan struct{}

// take waits for the turn. Errors: the cause of ctx's end.
func (t ddlTurn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t ddlTurn) leave() { <-t }

// change runs one DDL. f stages it; where f or the commit fails, nothing has
// changed.
func (c *Catalog) change(ctx context.Context, which touches, f func(*change) error) error {
	t := &change{c: c, e: &Effect{c: c, u: c.engine.Begin(), at: c.evaluate()}, internal: ctx.Value(internally{}) != nil}
	t.u = t.e.u
	t.e.ops.on = c.operations
	defer t.u.Abort()
	if err := t.begin(ctx, which); err != nil {
		return err
	}
	defer t.end()
	if err := f(t); err != nil {
		return err
	}
	if t.e.Empty() {
		return nil
	}
	if err := c.commit(ctx, t.e, storage.Buffered); err != nil {
		return err
	}
	if t.begun != nil {
		c.builds.add(t.begun)
	}
	return nil
}

// begin closes the gates, waiting for the units that write to the collections,
// and keeps other DDL out. Where what is touched has changed during the wait,
// it begins again. Errors: the cause of ctx's end, where it ends first.
func (t *change) begin(ctx context.Context, which touches) error {
	for {
		t.gates = which()
		slices.SortFunc(t.gates, func(a, b *live) int { return cmp.Compare(a.id, b.id) })
		t.gates = slices.Compact(t.gates)
		for i, l := range t.gates {
			if err := l.gate.LockWithin(ctx); err != nil {
				t.open(t.gates[:i])
				return err
			}
		}
		if err := t.c.ddl.take(ctx); err != nil {
			t.open(t.gates)
			return err
		}
		if !slices.ContainsFunc(which(), func(l *live) bool { return !slices.Contains(t.gates, l) }) {
			return nil
		}
		t.end()
	}
}

// end opens the gates again.
func (t *change) end() {
	t.c.ddl.leave()
	t.open(t.gates)
}

func (t *change) open(gates []*live) {
	for _, l := range gates {
		l.gate.Unlock()
	}
}

// find returns the newest descriptor under a name. Errors: 26.
func (t *change) find(ns schema.Namespace) (*Collection, error) {
	coll := t.c.Lookup(ns)
	if coll == nil {
		return nil, mongoerr.New(mongoerr.NamespaceNotFound, "ns not found %s", ns)
	}
	if coll.virtual != nil {
		return nil, mongoerr.New(mongoerr.IllegalOperation, "cannot change %s: it is a read-only view of data that the replica set maintains", ns)
	}
	return coll, nil
}

// store stages a new or changed descriptor.
func (t *change) store(coll *Collection) error {
	t.e.own = coll.own()
	t.e.note(&descriptorNote{about: of(coll), coll: coll})
	return t.u.Set(storage.IdentCatalog, identKey(coll.id), coll.encode())
}

// drop stages the removal of a collection and everything in it.
func (t *change) drop(coll *Collection) error {
	t.e.own = coll.own()
	t.e.note(&droppedNote{about: of(coll)})
	for _, ix := range coll.indexes {
		if err := t.dropEntries(ix); err != nil {
			return err
		}
	}
	if coll.Ident != 0 {
		if err := t.u.DeleteRange(coll.Ident, nil, nil); err != nil {
			return err
		}
		if err := t.u.DropCounter(coll.live.counter); err != nil {
			return err
		}
		if coll.sections != nil {
			if err := t.u.DeleteRange(storage.IdentWindows, identKey(coll.Ident), identKey(coll.Ident+1)); err != nil {
				return err
			}
		}
	}
	if coll.Open != 0 {
		if err := t.u.DeleteRange(coll.Open, nil, nil); err != nil {
			return err
		}
		if err := t.u.DropCounter(coll.live.measurements.Counter()); err != nil {
			return err
		}
	}
	return t.u.Delete(storage.IdentCatalog, identKey(coll.id), -1)
}

// dropEntries stages the removal of an index's entries.
func (t *change) dropEntries(ix *Index) error {
	if !ix.Records {
		if err := t.u.DeleteRange(ix.Ident, nil, nil); err != nil {
			return err
		}
	}
	if ix.Records && ix.OnPlace != nil {
		return nil // it has never been multikey
	}
	return t.u.Delete(storage.IdentMultikey, identKey(ix.Ident), -1)
}
