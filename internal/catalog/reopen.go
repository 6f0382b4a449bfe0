package catalog

import (
	"context"
	"errors"
	"fmt"

	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Reopen moves the catalog to another engine, whose content has replaced that of the
// former one: on a member of a replica set, a snapshot. Collections that callers still
// hold appear to be dropped. Nobody may use the catalog during the call, and EndBuilds
// has been called. After an error the catalog must not be used.
func (c *Catalog) Reopen(e *storage.Engine) error {
	for _, coll := range c.all() {
		c.unpublish(coll)
	}
	invariant.Check(c.Pending().Documents == 0, "catalog: a catalog that is reopened is not in use")
	c.engine = e
	c.stale.clear()
	c.hints.slots.Store(nil)
	c.staged.Forget()
	c.builds.open()
	all, err := readDescriptors(e)
	if err != nil {
		return err
	}
	for _, coll := range all {
		if err := c.revive(coll); err != nil {
			return fmt.Errorf("collection %s: %w", coll.Namespace, err)
		}
	}
	c.staged.Book()
	if err := errors.Join(c.readPrepared(), c.removeLeft(context.Background(), true), c.ShowOplog()); err != nil {
		return err
	}
	c.ttlChanged()
	return nil
}

// EndBuilds ends all index builds; none can begin until Reopen.
func (c *Catalog) EndBuilds() { c.builds.close() }

// open lets builds begin again.
func (bs *builds) open() {
	bs.Lock()
	defer bs.Unlock()
	bs.closed = false
}

// clear forgets all windows.
func (m *staleMarks) clear() {
	for i := range m.slots {
		m.slots[i].Store(nil)
	}
}

// HasData reports whether there are collections other than those that belong to this
// member alone.
func (c *Catalog) HasData() bool {
	c.listed.RLock()
	defer c.listed.RUnlock()
	for _, l := range c.listed.lives {
		if l.id < storage.FirstOwnIdent {
			return true
		}
	}
	return false
}

// OwnAmongCommon returns the name of a collection that by its name belongs to this
// member alone, but has idents that all members share, because an earlier version
// created it; "" if there is none.
func (c *Catalog) OwnAmongCommon() string {
	for _, coll := range c.all() {
		if ownNamespace(coll.Namespace) && !coll.own() {
			return coll.Namespace.String()
		}
	}
	return ""
}
