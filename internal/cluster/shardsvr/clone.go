package shardsvr

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/schema"
)

// cloneBytes bounds a batch of documents for a recipient. A single document may be larger.
const cloneBytes = 4 << 20

// growAt is what part of a batch there must be until it gets memory for all of one.
const growAt = 16

// sharded returns the request's collection, which must be sharded. Errors: 26, 118.
func (r *request) sharded() (*catalog.Collection, error) {
	c := r.s.cat.Lookup(r.ns)
	switch {
	case c == nil:
		return nil, mongoerr.New(mongoerr.NamespaceNotFound, "ns not found %s", r.ns)
	case c.Sharding() == nil:
		return nil, mongoerr.New(mongoerr.NamespaceNotSharded, "%s is not sharded here", r.ns)
	}
	return c, nil
}

// clone answers a recipient: {_shardsvrClone: ns, min, max, after} with documents of the range
// in the order of each, and where to continue; {…, ids} with those that exist;
// {…, describe: true} with options and indexes. Of a time series it sends buckets, and
// {…, seal: true} first puts all of its measurements into buckets.
func (r *request) clone(ctx context.Context) error {
	c, err := r.sharded()
	if err != nil {
		return err
	}
	if r.body.Lookup("describe").Truthy() {
		r.reply.Doc("options", c.Options).OpenArray("indexes")
		for i, ix := range c.Indexes() {
			r.reply.Doc(bson.Index(i), ix.Spec)
		}
		r.reply.Close()
		return nil
	}
	if r.body.Lookup("seal").Truthy() {
		if c.IsTimeseries() {
			return r.s.cat.SealAll(ctx, c)
		}
		return nil
	}
	c = c.Stored()
	span, err := r.rangeOf(c.Sharding().Key)
	if err != nil {
		return err
	}
	bytes, n, grown := 0, 0, false
	var last, next bson.Value
	r.reply.OpenArray("documents")
	send := func(doc bson.Doc, at func() bson.Value) bool {
		if bytes > 0 && bytes+len(doc) > cloneBytes {
			next = last
			return false
		}
		if bytes > cloneBytes/growAt && !grown { // once, in the place of many copies
			r.reply.Grow(cloneBytes + cloneBytes/growAt)
			grown = true
		}
		r.reply.Doc(bson.Index(n), doc)
		n, bytes, last = n+1, bytes+len(doc), at()
		return true
	}
	if ids := r.body.Lookup("ids"); ids.Type == bson.TypeArray && c.HoldsBuckets() {
		key := c.Sharding().Key
		err = r.s.eachOfBuckets(ctx, c, ids.Doc().Slice(), func(doc bson.Doc) bool {
			place, err := key.Append(nil, doc)
			return err != nil || !span.Holds(place) || send(doc, func() bson.Value { return bson.Document(bson.Empty) })
		})
	} else if ids.Type == bson.TypeArray {
		err = r.s.eachByID(ctx, c, span, ids, all, send)
	} else {
		err = r.s.each(ctx, c, span, r.body.Lookup("after"), send)
	}
	r.reply.Close()
	if err == nil && !next.IsMissing() {
		r.reply.Value("next", next)
	}
	return err
}

// eachOfBuckets calls f with the buckets with some _ids, in the order of these, until it
// returns false.
func (s *Shard) eachOfBuckets(ctx context.Context, c *catalog.Collection, ids []bson.Value, f func(bson.Doc) bool) error {
	state := s.cat.Engine().NewSnapshot()
	defer state.Close()
	found, err := c.FindBuckets(ctx, state, ids)
	if err != nil {
		return err
	}
	for _, id := range ids {
		record := found[catalog.IDName(id)]
		if record == nil {
			continue
		}
		v, closer, err := state.Get(c.Ident, record)
		if err != nil {
			return err
		}
		more := f(bson.Doc(v))
		if err := closer.Close(); err != nil || !more {
			return err
		}
	}
	return nil
}

// owned answers {_shardsvrOwned, namespaces}: how much the shard owns of each collection, and
// whether an index supports its shard key.
func (r *request) owned(ctx context.Context) error {
	list := r.body.Lookup("namespaces")
	if list.Type != bson.TypeArray {
		return mongoerr.New(mongoerr.BadValue, "the request needs namespaces")
	}
	at := 0
	r.reply.OpenArray("owned")
	for v := range list.Doc().Values() {
		if v.Type != bson.TypeString {
			continue
		}
		c := r.s.cat.Lookup(schema.ParseNamespace(v.Str()))
		if c == nil || c.IsView() {
			continue
		}
		n, bytes := c.Count(), c.DataSize()
		index := false
		if s := c.Sharding(); s != nil {
			index = c.ShardKeyIndex() != nil
			if len(s.Hidden) > 0 && n > 0 { // by the index, if there is one
				counted, err := r.s.exec.Count(ctx, c, &exec.Query{Query: plan.Query{Filter: emptyFilter}})
				if err != nil {
					return err
				}
				bytes = int64(float64(bytes) * float64(counted.N) / float64(n))
				n = counted.N
			}
		}
		r.reply.OpenDoc(bson.Index(at)).Value("ns", v).Int64("documents", n).Int64("bytes", bytes).Bool("keyIndex", index).Close()
		at++
	}
	r.reply.Close()
	return nil
}
