package shardsvr

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/layout"
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
// Errors: 72 for a unique index that another key does not allow.
func (r *request) reshard(context.Context) error {
	c, err := r.donated()
	if err != nil {
		return err
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
// which the new keys of so many documents lie, chosen at random; of a time series, of buckets.
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
	if c.IsTimeseries() {
		if err := r.s.cat.SealAll(ctx, c); err != nil {
			return err
		}
		c = c.Buckets()
	}
	b := new(bson.Builder).String("aggregate", c.Namespace.Coll).OpenArray("pipeline")
	b.OpenDoc("0").OpenDoc("$sample").Int64("size", max(size, 1)).Close().Close()
	b.OpenDoc("1").OpenDoc("$project")
	hasID := false
	for field := range key.Pattern().All() {
		hasID = hasID || field == "_id" || strings.HasPrefix(field, "_id.")
		b.Int32(field, 1)
	}
	if !hasID { // which must not be there twice
		b.Int32("_id", 0)
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
// {…, ids} with those of them that exist. Of a time series it sends buckets, in the order of
// their records. Errors: 61 for a document that cannot have the key.
func (r *request) donate(ctx context.Context) error {
	c, err := r.donated()
	if err != nil {
		return err
	}
	d := donating{reply: r.reply, began: time.Now(), next: all}
	if d.key, err = r.shardKey(); err != nil {
		return err
	}
	if d.ranges, err = d.key.ParseRanges(r.body.Lookup("ranges")); err != nil {
		return err
	}
	ids, after := r.body.Lookup("ids"), r.body.Lookup("after")
	r.reply.OpenArray("documents")
	if c = c.Stored(); !c.HoldsBuckets() {
		err = r.donateByID(ctx, c, ids, after, &d)
	} else {
		err = r.donateBuckets(ctx, c, ids, after, &d)
	}
	if err = cmp.Or(err, d.err); err != nil {
		return err
	}
	r.reply.Close()
	if !d.next.IsMissing() {
		r.reply.Value("next", d.next)
	}
	return nil
}

// donating is a reply with documents for a recipient.
type donating struct {
	key    *schema.ShardKey
	ranges schema.ShardRanges
	reply  *bson.Builder
	began  time.Time
	room   []byte
	n      int
	bytes  int
	last   bson.Value // the place of the document before
	next   bson.Value // where to continue; missing for nowhere
	err    error
}

// add writes a document that lies in the ranges. It reports whether there is room and time for
// more.
func (d *donating) add(doc bson.Doc, at func() bson.Value) (more bool) {
	if d.room, d.err = d.key.Append(d.room[:0], doc); d.err != nil {
		return false
	}
	if d.ranges.Hold(d.room) {
		if d.bytes > 0 && d.bytes+len(doc) > cloneBytes {
			d.next = d.last
			return false
		}
		d.reply.Doc(bson.Index(d.n), doc)
		d.n, d.bytes = d.n+1, d.bytes+len(doc)
	}
	if d.last = at(); time.Since(d.began) > donateTime {
		d.next = d.last
		return false
	}
	return true
}

// donateByID adds documents in the order of _id, or those with some _ids.
func (r *request) donateByID(ctx context.Context, c *catalog.Collection, ids, after bson.Value, d *donating) error {
	cur, err := r.s.byID(ctx, c, ids, after)
	if err != nil {
		return err
	}
	defer cur.Close()
	last := bson.Value{Type: bson.Missing}
	if after.Type == bson.TypeDocument {
		last = after.Doc().Lookup("_id")
	}
	for more := true; more; {
		doc, err := cur.Next(ctx)
		if doc == nil || err != nil {
			return err
		}
		id := doc.Lookup("_id")
		if !last.IsMissing() && bson.Equal(id, last) {
			continue // where it continues is included
		}
		more = d.add(doc, func() bson.Value { return placeOf(id) })
	}
	return nil
}

// placeOf is the place {_id} of a document.
func placeOf(id bson.Value) bson.Value {
	return bson.Document(new(bson.Builder).Value("_id", id).Finish())
}

// donateBuckets adds buckets in the order of their records, or those with some _ids, in their
// order.
func (r *request) donateBuckets(ctx context.Context, c *catalog.Collection, ids, after bson.Value, d *donating) error {
	if ids.Type != bson.TypeArray {
		_, err := r.s.eachRecord(ctx, c, layout.Chunk{}, after, d.add)
		return err
	}
	list := ids.Doc().Slice()
	if after.Type == bson.TypeDocument {
		last := after.Doc().Lookup("_id")
		list = list[1+slices.IndexFunc(list, func(id bson.Value) bool { return bson.Equal(id, last) }):]
	}
	return r.s.eachOfBuckets(ctx, c, list, func(doc bson.Doc) bool {
		return d.add(doc, func() bson.Value { return placeOf(doc.Lookup("_id")) })
	})
}
