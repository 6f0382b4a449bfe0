package cosmos

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/storage"
)

const (
	// sweepInterval is the time between two sweeps: what is expired is invisible
	// meanwhile, it only takes room.
	sweepInterval = 5 * time.Second
	// sweepBatch is how many items one unit removes.
	sweepBatch = 100
	// sweepLimit bounds the items that a sweep removes from one container before
	// it looks at the next.
	sweepLimit = 50000
)

// Sweep removes expired items, in the background and at no charge, until ctx
// ends.
func (s *Server) Sweep(ctx context.Context) {
	t := time.NewTicker(sweepInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		for _, d := range s.registry.databases() {
			for _, c := range s.registry.list(d) {
				if err := s.sweep(ctx, c); err != nil && ctx.Err() == nil {
					s.o.Log.Warn("Expired items could not be removed", "database", c.db, "container", c.id, "error", err)
				}
			}
		}
	}
}

// sweep removes a container's expired items, oldest first.
func (s *Server) sweep(ctx context.Context, c *container) error {
	if !c.ttl.on || c.collection.Latest() == nil {
		return nil
	}
	now := s.o.Now().Unix()
	if err := s.sweepOrder(ctx, c, due(expiryOwn, now)); err != nil || c.ttl.seconds == 0 {
		return err
	}
	return s.sweepOrder(ctx, c, due(expiryAge, now-c.ttl.seconds))
}

func (s *Server) sweepOrder(ctx context.Context, c *container, filter bson.Doc) error {
	sort := new(bson.Builder).Int32(fieldExpiry, 1).Finish()
	var ids []bson.Value
	err := find(ctx, s.o.Exec, c.collection, filter, sort, sweepLimit, func(d bson.Doc) (bool, error) {
		if ids = append(ids, d.Lookup("_id").Clone()); len(ids) < sweepBatch {
			return true, nil
		}
		err := s.purge(ctx, c, ids)
		ids = ids[:0]
		return true, err
	})
	if err != nil {
		return err
	}
	return s.purge(ctx, c, ids)
}

// purge removes those of some items that are expired still, by the policy of
// this moment, in one unit.
func (s *Server) purge(ctx context.Context, c *container, ids []bson.Value) error {
	now, err := s.registry.container(c.db, c.id)
	if err != nil || now.rid != c.rid {
		return nil // it is gone
	}
	if err := now.ensure(ctx, s.registry); err != nil {
		return err
	}
	first := now.writes.take(len(ids))
	defer now.writes.done(first)
	return s.o.Catalog.Run(ctx, storage.Buffered, func(u *catalog.Unit) error {
		for i, id := range ids {
			if _, err := now.remove(ctx, u, id, s.o.Now().Unix(), first+int64(i)); err != nil {
				return err
			}
		}
		return nil
	})
}
