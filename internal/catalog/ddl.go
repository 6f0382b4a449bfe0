package catalog

import (
	"context"

	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// change is one DDL: what it writes commits in one unit, then what it
// publishes becomes visible. It holds the gates of the collections it changes
// until then, so no writer works by an older descriptor.
type change struct {
	c       *Catalog
	u       *storage.Unit
	gates   []*live
	put     []*Collection
	removed []*Collection
	after   []func()
	ttl     bool // the list of TTL must be made anew
}

// change runs one DDL. f stages it; where f or the commit fails, nothing has
// happened.
func (c *Catalog) change(ctx context.Context, f func(*change) error) error {
	c.ddl.Lock()
	defer c.ddl.Unlock()
	t := &change{c: c, u: c.engine.Begin()}
	defer t.u.Abort()
	defer t.open()
	if err := f(t); err != nil {
		return err
	}
	if err := c.committer.Commit(ctx, t.u, storage.Buffered); err != nil {
		return err
	}
	for _, coll := range t.removed {
		c.unpublish(coll)
	}
	for _, coll := range t.put {
		c.publish(coll)
	}
	if t.ttl {
		c.refreshTTL()
	}
	for _, f := range t.after {
		f()
	}
	return nil
}

// close shuts the gate of a collection: waits for the units that write to it,
// and keeps others out.
func (t *change) close(coll *Collection) {
	for _, l := range t.gates {
		if l == coll.live {
			return
		}
	}
	coll.live.gate.Lock()
	t.gates = append(t.gates, coll.live)
}

// open opens the gates again.
func (t *change) open() {
	for _, l := range t.gates {
		l.gate.Unlock()
	}
}

// find returns the newest descriptor under a name, with its gate closed.
// Errors: 26.
func (t *change) find(ns schema.Namespace) (*Collection, error) {
	coll := t.c.Lookup(ns)
	if coll == nil {
		return nil, mongoerr.New(mongoerr.NamespaceNotFound, "ns not found %s", ns)
	}
	t.close(coll)
	return coll, nil
}

// store stages a new or changed descriptor.
func (t *change) store(coll *Collection) error {
	t.ttl = t.ttl || expires(coll) || expires(coll.live.current.Load())
	t.put = append(t.put, coll)
	return t.u.Set(storage.IdentCatalog, identKey(coll.id), coll.encode())
}

// drop stages the end of a collection and of all that is in it.
func (t *change) drop(coll *Collection) error {
	t.close(coll)
	t.ttl = t.ttl || expires(coll)
	t.removed = append(t.removed, coll)
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
	}
	return t.u.Delete(storage.IdentCatalog, identKey(coll.id), -1)
}

// dropEntries stages the end of an index's entries.
func (t *change) dropEntries(ix *Index) error {
	if ix.live.build != nil {
		ix.live.build.abort(errDropped)
	}
	if !ix.Records {
		if err := t.u.DeleteRange(ix.Ident, nil, nil); err != nil {
			return err
		}
	}
	return t.u.Delete(storage.IdentMultikey, identKey(ix.Ident), -1)
}
