package catalog

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// The sharding of a collection is part of its descriptor. Each change of it is a DDL: no
// unit is inside the collection during the change, and later units are checked against the
// new state (invariant fenced).

// BlockedWait bounds the time that a statement waits for the end of a critical section.
const BlockedWait = 10 * time.Second

// Sharding returns what the shard knows about a sharded collection, nil if it is not sharded.
func (c *Collection) Sharding() *schema.Sharding { return c.sharding }

// ShardKeyIndex returns an index by which a sharded collection's documents are in the order
// of the shard key, each once: the one that is no more than the key, if there is one; nil
// for none.
func (c *Collection) ShardKeyIndex() *Index {
	if c.sharding == nil {
		return nil
	}
	ordered := slices.DeleteFunc(slices.Clone(c.indexes), func(ix *Index) bool { return ix.Plugin != "" && ix.Plugin != "hashed" })
	found, _ := IndexForShardKey(ordered, c.sharding.Key)
	return found
}

// InOrderOfShardKey reports whether the documents of a range of the shard key can be read in
// its order: the records are in that, or there is an index.
func (c *Collection) InOrderOfShardKey() bool {
	return c.ShardKeyIndex() != nil || c.sections == nil && c.ReadsRanges()
}

// ReadsRanges reports whether the documents of a range of the shard key can be read without
// the others in any state of the store: there is an index, or the layout, which has not
// changed, knows their records.
func (c *Collection) ReadsRanges() bool {
	if c.sharding == nil {
		return false
	}
	_, laid := c.Chunk(c.sharding.Key.Whole())
	return laid && !c.Relaid() || c.ShardKeyIndex() != nil
}

// IndexForShardKey returns the one of some indexes that supports a shard key, the exact one
// if there is one. If there is none, reasons says why those that begin with the key do not
// support it. The key of a time series is that of its buckets.
func IndexForShardKey(among []*Index, key *schema.ShardKey) (found *Index, reasons []string) {
	for _, ix := range among {
		if ix.Form == nil {
			continue // buckets have no entries in it
		}
		ok, reason := key.Serves(ix.Form, ix.Multikey().Any())
		switch {
		case ok && ix.Ready && (found == nil || len(ix.Form.Parts) == len(key.Parts)):
			found = ix
		case reason != "":
			reasons = append(reasons, reason)
		}
	}
	return found, reasons
}

// decodeSharding reads the sharding part of a descriptor.
func (c *Collection) decodeSharding(v bson.Value, sharded bool) (err error) {
	if (v.Type == bson.TypeDocument) != sharded {
		return errors.New("sharding and version do not agree")
	}
	if sharded {
		c.sharding, err = schema.LoadSharding(v.Doc())
	}
	return err
}

// SetSharding sets the sharding of a collection to the result of f for the newest
// descriptor: nil for an unsharded collection, the same pointer for no change. No unit is
// inside the collection during the change. It returns the new
// descriptor. Errors: 26, and those of f.
func (c *Catalog) SetSharding(ctx context.Context, ns schema.Namespace, f func(*Collection) (*schema.Sharding, error)) (*Collection, error) {
	return c.ChangeSharding(ctx, ns, func(coll *Collection) (*schema.Sharding, bson.Doc, error) {
		s, err := f(coll)
		return s, nil, err
	})
}

// ChangeSharding is SetSharding where f also returns the command that the log and change
// streams tell of it, {name: collection, …}; nil for none.
func (c *Catalog) ChangeSharding(ctx context.Context, ns schema.Namespace, f func(*Collection) (*schema.Sharding, bson.Doc, error)) (*Collection, error) {
	var changed *Collection
	err := c.change(ctx, c.named(ns), func(t *change) error {
		coll, err := t.find(ns)
		if err != nil {
			return err
		}
		if coll.IsView() {
			return mongoerr.New(mongoerr.CommandNotSupportedOnView, "Namespace %s is a view, not a collection", ns)
		}
		s, command, err := f(coll)
		if changed = coll; err != nil || s == coll.sharding {
			return err
		}
		if command != nil && t.e.ops.on && !coll.IsTimeseries() {
			p := coll.placeOps()
			p.key = ""
			t.e.ops.command(p, command, nil)
		}
		changed = coll.with(func(n *Collection) { n.sharding = s })
		return t.store(changed)
	})
	if err != nil {
		return nil, err
	}
	return changed, nil
}

// Drain waits until all units have ended that were inside a collection of a database when it
// was called.
func (c *Catalog) Drain(ctx context.Context, db string) error {
	return c.change(ctx, c.database(db), func(*change) error { return nil })
}

// Guard carries a statement's view of the ownership, which its units check.
type Guard struct {
	// Received is the version that the statement came with, for errors.
	Received schema.ShardVersion
	// Admit returns nil if the statement may write to a collection in its current state.
	Admit func(*Collection) error
	// Again returns nil if a collection that is not sharded is still written to where the
	// statement did: for transactions, which write once more when they end. It keeps nothing of
	// the statement. Nil for no check.
	Again func(*Collection) error
	// Multi says that the statement may write many documents, Retryable that it has a
	// transaction number.
	Multi, Retryable bool
	// Keeps says that the documents come from another shard, as they are: they keep the time
	// of their last write.
	Keeps bool
	// Wanted returns a channel that is closed when the statement is not to wait for the end
	// of a critical section, nil if it never is.
	Wanted func() <-chan struct{}
	// KeyMayBe are the ranges {min, max} to which an update may change a document's shard key.
	KeyMayBe []bson.Doc
}

// admit checks that a unit's statement may write to the collection that the unit has just
// entered, and waits for the end of a critical section. On an error the unit has left the
// collection. Errors: 26, 13388, those of the guard, ErrLockBusy if the unit must not wait,
// and the cause of ctx.
func (u *Unit) admit(ctx context.Context, c *Collection) (*Collection, error) {
	var timeout <-chan time.Time
	for {
		now := c.Latest()
		if gone := now == nil || now.Namespace != c.Namespace && !now.hasBuckets(c); gone && c.sharding != nil && u.Guard != nil && !u.Moving {
			// Another one may have the name by now, here or on other shards.
			u.leave(c)
			return nil, schema.StaleConfig(c.Namespace.String(), c.sharding.Shard, "the collection was dropped or renamed: version not known", u.Guard.Received, nil)
		} else if gone {
			return now, nil
		}
		if u.Moving || now.sharding == nil || now.sharding.Blocked == nil {
			if u.Guard != nil {
				if err := u.Guard.Admit(now); err != nil {
					u.leave(c)
					return nil, err
				}
			}
			return now, nil
		}
		next := now.live.arrivals.Next()
		u.leave(c)
		if len(u.gates) > 0 || u.u.HoldsLocks() {
			return nil, storage.ErrLockBusy
		}
		if timeout == nil {
			timer := time.NewTimer(BlockedWait)
			defer timer.Stop()
			timeout = timer.C
		}
		var wanted <-chan struct{}
		if u.Guard != nil && u.Guard.Wanted != nil {
			wanted = u.Guard.Wanted()
		}
		select {
		case <-next:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-wanted:
			return nil, schema.StaleConfig(now.Namespace.String(), now.sharding.Shard, "a range is being handed over: version not known", u.Guard.Received, nil)
		case <-timeout:
			var received schema.ShardVersion
			if u.Guard != nil {
				received = u.Guard.Received
			}
			return nil, schema.StaleConfig(now.Namespace.String(), now.sharding.Shard, "a range is being handed over: version not known", received, nil)
		}
		if err := c.live.gate.RLock(ctx); err != nil {
			return nil, err
		}
		u.gates = append(u.gates, c.live)
	}
}

// hasBuckets reports whether c is a time series that has its buckets in a collection.
func (c *Collection) hasBuckets(of *Collection) bool {
	return c.IsTimeseries() && c.Buckets().Namespace == of.Namespace
}

// leave undoes the last enter.
func (u *Unit) leave(c *Collection) {
	u.gates = u.gates[:len(u.gates)-1]
	c.live.gate.RUnlock()
}

// OwnedElsewhere reports whether a document that the unit has locked is another shard's: its
// range may have been handed over since the unit's caller found the document, as a unit waits
// at the gate meanwhile. What the server removes on its own is asked for with this; statements
// of routers have a version that is checked, and index builds and relayouts take all documents.
// REQUIRES: the unit is inside the collection's gate.
func (u *Unit) OwnedElsewhere(c *Collection, doc bson.Doc) bool {
	if !invariant.Check(u.inside(c.live), "catalog: OwnedElsewhere is asked inside the gate") {
		return true
	}
	now := c.Latest()
	return now != nil && now.sharding.Hides(doc)
}

// checkOwned rejects a new document in a range that another shard owns. Errors: 13388.
func (u *Unit) checkOwned(c *Collection, doc bson.Doc) error {
	if u.Moving || !c.sharding.Hides(doc) {
		return nil
	}
	var received schema.ShardVersion
	if u.Guard != nil {
		received = u.Guard.Received
	}
	return schema.StaleConfig(c.Namespace.String(), c.sharding.Shard, "the document is in a range that this shard does not own", received, &c.sharding.Version)
}

// checkShardKey checks whether an update changes a document's shard key so that another
// shard may own it. Errors: those of ShardKey.KeyChange, and 283 with both
// documents.
func (u *Unit) checkShardKey(c *Collection, old, doc bson.Doc) error {
	if u.Guard == nil || u.Moving {
		return nil
	}
	key := c.sharding.Key
	var was, is [64]byte
	from, err := key.Append(was[:0], old)
	if err != nil {
		return err
	}
	to, err := key.Append(is[:0], doc)
	if err != nil || bytes.Equal(from, to) {
		return err
	}
	moved, err := key.KeyChange(old, doc, u.Guard.Multi, u.Guard.Retryable)
	if err != nil || !moved {
		return err
	}
	for _, d := range u.Guard.KeyMayBe {
		if r, ok := key.ParseRange(d); ok && r.Holds(to) && !c.sharding.Hides(doc) {
			return nil
		}
	}
	return schema.WouldChangeShard(old, doc)
}
