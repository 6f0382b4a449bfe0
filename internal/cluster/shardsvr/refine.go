package shardsvr

import (
	"context"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/shard"
)

// refine answers {_shardsvrRefine: ns, key, version} or {…, check: true}. Errors: 72 if no
// index supports the key, 117 while a range is hidden.
func (r *request) refine(ctx context.Context) error {
	v := r.body.Lookup("key")
	if v.Type != bson.TypeDocument {
		return mongoerr.New(mongoerr.BadValue, "the request needs a key: %s", r.body)
	}
	key, err := shard.ParseKey(v.Doc())
	if err != nil {
		return err
	}
	if r.body.Lookup("check").Truthy() {
		c := r.s.cat.Lookup(r.ns)
		if c == nil || c.Sharding() == nil {
			return mongoerr.New(mongoerr.NamespaceNotSharded, "%s is not sharded here", r.ns)
		}
		if len(c.Sharding().Hidden) > 0 {
			return errBusy
		}
		if ix, reasons := catalog.IndexForShardKey(c.Indexes(), key.ShardKey); ix == nil && !r.body.Lookup("unsplittable").Truthy() {
			return mongoerr.New(mongoerr.InvalidOptions, "Please create an index that starts with the proposed shard key before refining it. %s", strings.Join(reasons, " "))
		}
		return nil
	}
	return r.tell(ctx, func(s *schema.Sharding) error {
		if len(s.Hidden) > 0 {
			return errBusy
		}
		s.Key, s.Blocked = key.ShardKey, nil
		s.Unique = s.Unique && !r.body.Lookup("unsplittable").Truthy()
		return r.toVersion(s)
	})
}

var errBusy = mongoerr.New(mongoerr.ConflictingOperationInProgress, "ranges of the collection are being received or removed")
