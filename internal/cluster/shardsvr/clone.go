package shardsvr

import (
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/shard"
)

// cloneBytes bounds a batch of documents that a recipient gets; one document may be larger.
const cloneBytes = 4 << 20

// sharded is the request's collection, which is sharded. Errors: 26, 118.
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
// in the order of their _id, and where to go on; {…, ids} with those of them that are there;
// {…, describe: true} with options and indexes.
func (r *request) clone(ctx context.Context) error {
	c, err := r.sharded()
	if err != nil {
		return err
	}
	if r.body.Lookup("describe").Truthy() {
		if c.IsTimeseries() {
			return mongoerr.New(mongoerr.IllegalOperation, "chunks of time-series collections are not moved")
		}
		r.reply.Doc("options", c.Options).OpenArray("indexes")
		for i, ix := range c.Indexes() {
			r.reply.Doc(bson.Index(i), ix.Spec)
		}
		r.reply.Close()
		return nil
	}
	span, err := r.rangeOf(c.Sharding().Key)
	if err != nil {
		return err
	}
	var b bson.Builder
	if ids := r.body.Lookup("ids"); ids.Type == bson.TypeArray {
		b.OpenDoc("_id").Value("$in", ids).Close()
	}
	var last bson.Value
	bytes, n, full := 0, 0, false
	r.reply.OpenArray("documents")
	err = r.s.each(ctx, c, span, b.Finish(), r.body.Lookup("after"), func(doc bson.Doc) bool {
		if bytes > 0 && bytes+len(doc) > cloneBytes {
			full = true
			return false
		}
		r.reply.Doc(bson.Index(n), doc)
		n, bytes, last = n+1, bytes+len(doc), doc.Lookup("_id").Clone()
		return true
	})
	r.reply.Close()
	if err == nil && full {
		r.reply.Value("next", last)
	}
	return err
}

// each calls f with the documents of a range that match a filter, in the order of their _id,
// those behind after where that is not missing, until it returns false.
func (s *Shard) each(ctx context.Context, c *catalog.Collection, span schema.ShardRange, filter bson.Doc, after bson.Value, f func(bson.Doc) bool) error {
	parsed, err := match.Parse(filter, nil)
	if err != nil {
		return err
	}
	key := c.Sharding().Key
	parsed = parsed.AndOwned(func(doc bson.Doc) bool {
		at, err := key.Append(nil, doc)
		return err != nil || !span.Holds(at)
	})
	q := &exec.Query{Query: plan.Query{Filter: parsed}, All: true}
	if q.Sort, err = sortkey.Parse(new(bson.Builder).Int32("_id", 1).Finish()); err != nil {
		return err
	}
	if !after.IsMissing() {
		q.Hint = bson.String("_id_")
		q.Min = new(bson.Builder).Value("_id", after).Finish()
	}
	cur, err := s.exec.Find(ctx, c, q)
	if err != nil {
		return err
	}
	defer cur.Close()
	for {
		doc, err := cur.Next(ctx)
		if err != nil || doc == nil {
			return err
		}
		if !after.IsMissing() && bson.Equal(doc.Lookup("_id"), after) {
			continue // min is included
		}
		if !f(doc) {
			return nil
		}
	}
}

// owned answers {_shardsvrOwned, namespaces}: how much the shard owns of each, and whether an
// index serves its key.
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
			ix, _ := serving(c, shard.NewKey(s.Key))
			index = ix != nil
			if len(s.Hidden) > 0 && n > 0 {
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

// splitPoints answers {_shardsvrSplitPoints: ns, min, max, bytes, limit}: where to cut a range
// into parts of so many bytes, or, with 0, in two halves.
func (r *request) splitPoints(ctx context.Context) error {
	c, err := r.sharded()
	if err != nil {
		return err
	}
	key := c.Sharding().Key
	span, err := r.rangeOf(key)
	if err != nil {
		return err
	}
	type part struct {
		at    shard.Bound
		bytes int64
	}
	var parts []part
	var failed error
	total := int64(0)
	err = r.s.each(ctx, c, span, bson.Empty, bson.Value{Type: bson.Missing}, func(doc bson.Doc) bool {
		at, err := key.BoundOf(doc)
		if err != nil {
			failed = err
			return false
		}
		parts = append(parts, part{at, int64(len(doc))})
		total += int64(len(doc))
		return true
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return err
	}
	slices.SortFunc(parts, func(a, b part) int { return a.at.Compare(b.at) })
	var points []shard.Bound
	size, _ := bson.ExactInt64(r.body.Lookup("bytes"))
	limit, _ := bson.ExactInt64(r.body.Lookup("limit"))
	if size > 0 {
		points = shard.CutBySize(func(yield func(shard.Bound, int64) bool) {
			for _, p := range parts {
				if !yield(p.at, p.bytes) {
					return
				}
			}
		}, size, int(limit))
	} else {
		keys := make([]shard.Bound, len(parts))
		for i, p := range parts {
			keys[i] = p.at
		}
		if len(keys) == 0 {
			return mongoerr.New(mongoerr.CannotSplit, "cannot find a split point: the chunk is empty")
		}
		middle, err := shard.Median(keys)
		if err != nil {
			return err
		}
		points = []shard.Bound{middle}
	}
	r.reply.OpenArray("points")
	for i, p := range points {
		r.reply.Doc(bson.Index(i), key.Doc(p))
	}
	r.reply.Close().Int64("bytes", total).Int64("documents", int64(len(parts)))
	return nil
}
