package shardsvr

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/shard"
)

// A collection gets another shard key: what its owners, the donors, answer. The recipients
// ask each of them for the documents whose new key lies in their ranges. (reshard.go)

// shardKey returns the field key of the request. Errors: 2.
func (r *request) shardKey() (*schema.ShardKey, error) {
	v := r.body.Lookup("key")
	if v.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.BadValue, "the request needs a key: %s", r.body)
	}
	return schema.ParseShardKey(v.Doc())
}

// donated returns the collection of the request, which must have its UUID. Errors: 26, 118, 361.
func (r *request) donated() (*catalog.Collection, error) {
	c, err := r.sharded()
	if err == nil && !r.isUUID(c) {
		err = mongoerr.New(mongoerr.CollectionUUIDMismatch, "%s is %s", r.ns, c.UUID)
	}
	return c, err
}

// reshard answers {_shardsvrReshard: ns, uuid, key} with {ready: bool, documents, bytes, options,
// indexes}. It is ready when all that lies here is the shard's own, and no index is being built.
// Errors: 20 for a time series, 72 for a unique index that another key does not allow.
func (r *request) reshard(context.Context) error {
	c, err := r.donated()
	if err != nil {
		return err
	}
	if c.IsTimeseries() {
		return mongoerr.New(mongoerr.IllegalOperation, "resharding a time-series collection is not supported")
	}
	k, err := r.shardKey()
	if err != nil {
		return err
	}
	key := shard.NewKey(k)
	ready := len(c.Sharding().Hidden) == 0 && c.Sharding().Blocked == nil
	options := c.Options
	if options == nil {
		options = bson.Empty
	}
	r.reply.Int64("documents", c.Count()).Int64("bytes", c.DataSize()).Doc("options", options).OpenArray("indexes")
	for i, ix := range c.Indexes() {
		if ix.Unique && !ix.IsID() && !key.AllowsUnique(ix.Key) {
			return mongoerr.New(mongoerr.InvalidOptions, "can't shard collection '%s' with unique index on %s and proposed shard key %s. Uniqueness can't be maintained unless shard key is a prefix", c.Namespace, ix.Key, key)
		}
		ready = ready && ix.Ready
		r.reply.Doc(bson.Index(i), ix.Spec)
	}
	// Blocked by this operation already: a config primary has taken it over.
	if b := c.Sharding().Blocked; b != nil && b.Operation == r.fence.Number {
		ready = true
	}
	r.reply.Close().Bool("ready", ready)
	return nil
}

// reshardSample answers {_shardsvrReshardSample: ns, uuid, key, size} with keys, the bounds at
// which the new keys of so many documents lie, chosen at random.
func (r *request) reshardSample(ctx context.Context) error {
	c, err := r.donated()
	if err != nil {
		return err
	}
	key, err := r.shardKey()
	if err != nil {
		return err
	}
	size, _ := bson.ExactInt64(r.body.Lookup("size"))
	b := new(bson.Builder).String("aggregate", r.ns.Coll).OpenArray("pipeline")
	b.OpenDoc("0").OpenDoc("$sample").Int64("size", max(size, 1)).Close().Close()
	b.OpenDoc("1").OpenDoc("$project").Int32("_id", 0)
	for field := range key.Pattern().All() {
		if field == "_id" {
			continue
		}
		b.Int32(field, 1)
	}
	if key.Has("_id") {
		b.Int32("_id", 1)
	}
	b.Close().Close().Close().OpenDoc("cursor").Int64("batchSize", max(size, 1)).Close()
	reply, err := r.s.run(ctx, c.Namespace.DB, b.Finish())
	if err != nil {
		return err
	}
	n := 0
	r.reply.OpenArray("keys")
	for v := range reply.Lookup("cursor").Doc().Lookup("firstBatch").Doc().Values() {
		at, err := key.BoundOf(v.Doc())
		if err != nil {
			return err
		}
		r.reply.Doc(bson.Index(n), key.Doc(at))
		n++
	}
	r.reply.Close()
	return nil
}

// donateTime is how long a donor looks for documents that a recipient wants before it
// answers, with those that it has found.
const donateTime = time.Second

// donate answers a recipient: {_shardsvrDonate: ns, uuid, key, ranges, after} with documents
// whose key lies in one of the ranges, in the order of _id, and where to continue;
// {…, ids} with those of them that exist. Errors: 61 for a document that cannot have the key.
func (r *request) donate(ctx context.Context) error {
	c, err := r.donated()
	if err != nil {
		return err
	}
	key, err := r.shardKey()
	if err != nil {
		return err
	}
	ranges, err := key.ParseRanges(r.body.Lookup("ranges"))
	if err != nil {
		return err
	}
	cur, err := r.s.byID(ctx, c, r.body.Lookup("ids"), r.body.Lookup("after"))
	if err != nil {
		return err
	}
	defer cur.Close()
	after := bson.Value{Type: bson.Missing}
	if v := r.body.Lookup("after"); v.Type == bson.TypeDocument {
		after = v.Doc().Lookup("_id")
	}
	began, bytes, n := time.Now(), 0, 0
	var last bson.Value
	var room []byte
	r.reply.OpenArray("documents")
	for {
		doc, err := cur.Next(ctx)
		if err != nil {
			return err
		}
		if doc == nil {
			r.reply.Close()
			return nil
		}
		id := doc.Lookup("_id")
		if !after.IsMissing() && bson.Equal(id, after) {
			continue // where it continues is included
		}
		if room, err = key.Append(room[:0], doc); err != nil {
			return err
		}
		if ranges.Hold(room) {
			if bytes > 0 && bytes+len(doc) > cloneBytes {
				break
			}
			r.reply.Doc(bson.Index(n), doc)
			n, bytes = n+1, bytes+len(doc)
		}
		if last = id.Clone(); time.Since(began) > donateTime {
			break
		}
	}
	r.reply.Close().OpenDoc("next").Value("_id", last).Close()
	return nil
}
