package cosmos

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/schema"
)

// A container's time to live is a rule of expiry of its collection: an index
// {_ts: 1} by last writes, which reads an item's own ttl as well (see schema,
// lastWrite). So the server's TTL monitor removes expired items, and MongoDB clients do
// not see them either. The index is created when a container has a defaultTtl for the
// first time; without a defaultTtl the rule is paused.

// ruleName is the name of the index.
const ruleName = "ttl"

// ruleEngine are the rule's settings.
func ruleEngine(paused bool) bson.Doc {
	var b bson.Builder
	b.OpenDoc("mayfly").OpenDoc("expiry").String("by", schema.ByLastWrite.String()).String("visibility", string(schema.Immediate))
	if paused {
		b.Bool("paused", true)
	}
	return b.Finish()
}

// expireAfter returns the rule's expireAfterSeconds.
func (p ttlPolicy) expireAfter() int64 {
	if p.seconds == 0 {
		return -1
	}
	return p.seconds
}

// rule returns the index that is the rule of a container with a defaultTtl.
func (c *container) rule() bson.Doc {
	var b bson.Builder
	b.Int32("v", 2).OpenDoc("key").Int32(schema.LastWriteField, 1).Close().String("name", ruleName).Int64("expireAfterSeconds", c.ttl.expireAfter())
	// Items always have _ts.
	return b.Int64("since", 0).Doc("storageEngine", ruleEngine(false)).Finish()
}

// setRule sets the collection's rule by the container's definition.
func (s *Server) setRule(ctx context.Context, c *container) error {
	now := c.collection.Latest()
	if now == nil {
		return errNotFound
	}
	ix := now.Index(ruleName)
	if ix == nil {
		if !c.ttl.on {
			return nil
		}
		_, _, err := s.o.Catalog.CreateIndexes(ctx, now.Namespace, []bson.Doc{c.rule()})
		return err
	}
	if ix.Expiry.Paused == !c.ttl.on && (!c.ttl.on || ix.ExpireAfterSeconds == c.ttl.expireAfter()) {
		return nil
	}
	_, err := s.o.Catalog.Modify(ctx, now.Namespace, func(now *catalog.Collection) (catalog.Modification, error) {
		changes := map[string]bson.Value{"storageEngine": bson.Document(ruleEngine(!c.ttl.on))}
		if c.ttl.on {
			changes["expireAfterSeconds"] = bson.Int64(c.ttl.expireAfter())
		}
		to, err := now.Index(ruleName).With(changes)
		return catalog.Modification{Indexes: map[string]*schema.Index{ruleName: to}}, err
	})
	return err
}
