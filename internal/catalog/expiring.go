package catalog

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Expiring does additional work in the unit that removes an expired document. Where it
// returns an error, the document stays until a later attempt; after storage.ErrLockBusy
// it is called again in a new unit.
type Expiring func(ctx context.Context, u *Unit, doc bson.Doc) error

// OnExpiry registers f, which runs for every expired document that the TTL monitor, or
// a write that needs its keys, removes from the collection; nil for nothing. It stays
// registered until the process ends.
func (c *Collection) OnExpiry(f Expiring) {
	if f == nil {
		c.live.expiring.Store(nil)
		return
	}
	c.live.expiring.Store(&f)
}

// expiring runs what OnExpiry has been given.
func (u *Unit) expiring(ctx context.Context, c *Collection, doc bson.Doc) error {
	if f := c.live.expiring.Load(); f != nil {
		return (*f)(ctx, u, doc.Clone())
	}
	return nil
}

// DeleteExpired is Delete for an expired document.
func (u *Unit) DeleteExpired(ctx context.Context, c *Collection, key RecordKey, doc bson.Doc) error {
	if err := u.expiring(ctx, c, doc); err != nil {
		return err
	}
	return u.Delete(ctx, c, key, doc)
}

// OnEnd registers f, which runs when the unit has ended, committed or not.
func (u *Unit) OnEnd(f func()) { u.onEnd = append(u.onEnd, f) }
