package node

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/shard"
)

// ShardKeyIndex returns an index that supports a shard key, the exact one if it exists. If
// there is none, reasons says why the indexes that begin with the key do not support it.
func ShardKeyIndex(c *catalog.Collection, key *shard.Key) (found *catalog.Index, reasons []string) {
	return keyIndexAmong(c.Indexes(), key)
}

func keyIndexAmong(all []*catalog.Index, key *shard.Key) (found *catalog.Index, reasons []string) {
	for _, ix := range all {
		ok, reason := key.Serves(ix.Index, ix.Multikey().Any())
		switch {
		case ok && ix.Ready && (found == nil || bson.CompareDocs(ix.Key, key.Pattern(), nil) == 0):
			found = ix
		case reason != "":
			reasons = append(reasons, reason)
		}
	}
	return found, reasons
}

// keepShardKey returns the indexes that may be dropped of those that a client wants to
// drop. A sharded collection keeps an index that supports its shard key: all means that
// the client named none, and does not want that one to go. A hashed key needs no index.
// Error 370.
func keepShardKey(c *catalog.Collection, dropped []*catalog.Index, all bool) ([]*catalog.Index, error) {
	if c.Sharding() == nil || c.Sharding().Key.IsHashed() {
		return dropped, nil
	}
	key := shard.NewKey(c.Sharding().Key)
	had, _ := ShardKeyIndex(c, key)
	if had == nil || !slices.Contains(dropped, had) {
		return dropped, nil
	}
	left := slices.DeleteFunc(slices.Clone(c.Indexes()), func(ix *catalog.Index) bool { return slices.Contains(dropped, ix) })
	switch other, _ := keyIndexAmong(left, key); {
	case other != nil:
		return dropped, nil
	case all:
		return slices.DeleteFunc(slices.Clone(dropped), func(ix *catalog.Index) bool { return ix == had }), nil
	}
	return nil, mongoerr.New(mongoerr.CannotDropShardKeyIndex, "Cannot drop the only compatible index for this collection's shard key")
}
