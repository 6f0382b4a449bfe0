package shardsvr

import (
	"context"
	"slices"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// cleanupPause is how long cleanupOrphaned waits before it looks again.
const cleanupPause = 20 * time.Millisecond

// cleanupOrphaned answers {cleanupOrphaned: ns, startingFromKey}, on a shard itself, when nothing lies
// there of the ranges of a collection, from that key on, that have moved away. It only waits: the
// shard removes them by itself. A collection that is not here, or not sharded, has none. (Manual:
// cleanupOrphaned.) Errors: 73, 125.
func (s *Shard) cleanupOrphaned() *command.Command {
	return &command.Command{
		Name: "cleanupOrphaned", Flags: command.AdminOnly | command.TakesWriteConcern, Help: "wait until nothing is left of what has moved away",
		Fields: command.NewFields("cleanupOrphaned", command.Value(command.String("").Required()), command.Object("startingFromKey")),
		Run: func(ctx context.Context, op *command.Op) error {
			_, v := op.Body.First()
			ns := schema.ParseNamespace(v.Str())
			if ns.Coll == "" || ns.Validate() != nil {
				return mongoerr.New(mongoerr.InvalidNamespace, "Invalid namespace: %s", v.Str())
			}
			op.SetNS(ns.String())
			for {
				left, err := s.leaves(ns, op.Args.Doc("startingFromKey"))
				if err != nil || !left {
					return err
				}
				if err := client.Sleep(ctx, cleanupPause); err != nil {
					return err
				}
			}
		},
	}
}

// leaves reports whether documents are still stored that are in ranges that have moved away, from a
// key on; from the lowest one if that is empty. Errors: 125 for a key of another pattern.
func (s *Shard) leaves(ns schema.Namespace, from bson.Doc) (bool, error) {
	c := s.cat.Lookup(ns)
	if c == nil || c.Sharding() == nil {
		return false, nil
	}
	asked := c.Sharding().Key.Whole()
	if !from.IsEmpty() {
		var ok bool
		if asked.Min, ok = c.Sharding().Key.ParseBound(from); !ok {
			return false, mongoerr.New(mongoerr.CommandFailed, "could not cleanup orphaned data, start key %s does not match shard key pattern %s", from, c.Sharding().Key)
		}
	}
	return slices.ContainsFunc(c.Sharding().Hidden, func(h schema.HiddenRange) bool { return !h.Receiving && h.Overlaps(asked) }), nil
}
