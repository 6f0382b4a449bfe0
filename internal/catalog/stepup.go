package catalog

import (
	"context"
	"fmt"
	"sync"
)

// stepUps are the functions to call when this member has become writable.
type stepUps struct {
	sync.Mutex
	all []func(context.Context) error
}

// OnStepUp registers f to run at the end of each later StepUp, for code that keeps in
// memory what another member may have written. StepUp returns the error of f.
func (c *Catalog) OnStepUp(f func(context.Context) error) {
	c.steppedUp.Lock()
	defer c.steppedUp.Unlock()
	c.steppedUp.all = append(c.steppedUp.all, f)
}

// StepUp prepares the catalog for taking writes on this member: everything that others
// committed has been applied. It reads again the numbers that only writers count, and
// removes what an earlier writer left: unfinished index builds and temporary
// collections. Then it takes the locks of all that is prepared: from here on DDL on those
// collections waits.
func (c *Catalog) StepUp(ctx context.Context) error {
	c.EndTransactions(false) // those that this member began when it was primary before
	for _, coll := range c.all() {
		if coll.Capped {
			if err := coll.live.readSequence(c.engine, coll.Ident); err != nil {
				return fmt.Errorf("collection %s: %w", coll.Namespace, err)
			}
		}
	}
	if err := c.removeLeft(ctx, false); err != nil {
		return err
	}
	if err := c.takePrepared(ctx); err != nil {
		return err
	}
	c.steppedUp.Lock()
	defer c.steppedUp.Unlock()
	for _, f := range c.steppedUp.all {
		if err := f(ctx); err != nil {
			return err
		}
	}
	return nil
}

// all lists all collections, those of open transactions among them.
func (c *Catalog) all() (all []*Collection) {
	for _, db := range c.Databases() {
		all = append(all, c.Collections(db)...)
	}
	c.listed.RLock()
	defer c.listed.RUnlock()
	for _, coll := range c.listed.forming {
		all = append(all, coll)
	}
	return all
}

// removeLeft removes temporary collections and unfinished builds of an earlier process
// or another member: of this member's own collections, or of the others.
func (c *Catalog) removeLeft(ctx context.Context, own bool) error {
	for _, coll := range c.all() {
		if coll.own() != own {
			continue
		}
		if coll.Settings.Temp {
			c.log.Info("dropping a temporary collection of an earlier process", "namespace", coll.Namespace.String())
			if _, err := c.Drop(ctx, coll.Namespace); err != nil {
				return fmt.Errorf("temporary collection %s: %w", coll.Namespace, err)
			}
			continue
		}
		if err := c.removeUnfinished(ctx, coll); err != nil {
			return fmt.Errorf("unfinished index build of %s: %w", coll.Namespace, err)
		}
	}
	return nil
}

// removeUnfinished drops the indexes of a collection whose build was interrupted.
func (c *Catalog) removeUnfinished(ctx context.Context, coll *Collection) error {
	var gone []*Index
	for _, ix := range coll.indexes {
		if !ix.Ready && !ix.live.build.isRunning() {
			gone = append(gone, ix)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	c.log.Info("removing indexes whose build did not finish", "collection", coll.Namespace.String(), "count", len(gone))
	return c.change(ctx, only(coll.live), func(t *change) error {
		for _, ix := range gone {
			t.dropsIndex(coll, ix)
		}
		return t.dropIndexes(coll, gone)
	})
}
