package catalog

import (
	"context"
	"fmt"

	"github.com/mayflydb/mayfly/internal/storage"
)

// Reopen makes the catalog that of another engine, whose content has taken the place
// of the one before: on a member of a replica set, a snapshot. Collections that
// somebody still has are dropped ones to him. Nobody uses the catalog meanwhile, and
// EndBuilds has been called; where it fails the catalog is of no use.
func (c *Catalog) Reopen(e *storage.Engine) error {
	for _, coll := range c.all() {
		c.unpublish(coll)
	}
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
	if err := c.removeLeft(context.Background(), true); err != nil {
		return err
	}
	c.ttlChanged()
	return nil
}

// EndBuilds ends all index builds, and lets none begin until Reopen.
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

// HasData says whether there are collections that all members of a set would have, and
// not this one alone.
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
