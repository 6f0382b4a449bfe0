package shardsvr

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// copyOf returns the field to of the request: the name of the collection while it is
// received. Errors: 2.
func (r *request) copyOf() (schema.Namespace, error) {
	if v := r.body.Lookup("to"); v.Type == bson.TypeString {
		if to := schema.ParseNamespace(v.Str()); to.IsResharding() && to.DB == r.ns.DB {
			return to, nil
		}
	}
	return schema.Namespace{}, mongoerr.New(mongoerr.BadValue, "the request needs to, the name of a copy: %s", r.body)
}

// reshardReceive answers {_shardsvrReshardReceive: ns, to, source, uuid, key, unique, version,
// options, indexes, donors: [{shard, host}], ranges: [{min, max}], documents, bytes}: it makes
// the hidden collection, with an index for its key, and begins to receive it.
func (r *request) reshardReceive(ctx context.Context) error {
	to, err := r.copyOf()
	if err != nil {
		return err
	}
	entry, err := r.entry()
	if err != nil {
		return err
	}
	entry.Hidden = []schema.HiddenRange{{ShardRange: entry.Key.Whole(), Operation: r.fence.Number, Receiving: true}}
	if _, err := entry.Key.ParseRanges(r.body.Lookup("ranges")); err != nil {
		return err
	}
	p, err := r.s.resharding(to)
	if err != nil {
		return err
	}
	if p == nil || p.operation != r.fence.Number { // before there is a collection that needs it
		if err := r.dropCopy(ctx, to); err != nil {
			return err
		}
		if err := r.s.put(ctx, nil, receiving, r.newResharding(to).doc()); err != nil {
			return err
		}
	}
	made := *r
	made.ns = to
	if err := r.s.create(ctx, &made, entry); err != nil {
		return err
	}
	c := r.s.cat.Lookup(to)
	if c == nil {
		return mongoerr.New(mongoerr.NamespaceNotFound, "the collection was dropped")
	}
	if ix, _ := catalog.IndexForShardKey(c.Indexes(), entry.Key); ix == nil {
		if _, _, err := r.s.cat.CreateIndexes(ctx, to, []bson.Doc{keyIndex(c, entry)}); err != nil {
			return err
		}
	}
	r.s.begin(to)
	return nil
}

func (r *request) newResharding(to schema.Namespace) *resharding {
	p := &resharding{to: to.String(), ns: r.name, uuid: r.body.Lookup("source"), operation: r.fence.Number, ranges: r.body.Lookup("ranges"), since: time.Now().UnixMilli()}
	p.approxDocuments, _ = bson.ExactInt64(r.body.Lookup("documents"))
	p.approxBytes, _ = bson.ExactInt64(r.body.Lookup("bytes"))
	for v := range r.body.Lookup("donors").Doc().Values() {
		p.donors = append(p.donors, donation{shard: v.Doc().Lookup("shard").Str(), host: v.Doc().Lookup("host").Str(), after: all})
	}
	return p
}

// dropCopy drops the collection that is received, and its progress.
func (r *request) dropCopy(ctx context.Context, to schema.Namespace) error {
	r.s.stop(to)
	if r.s.cat.Lookup(to) != nil {
		if _, err := r.s.cat.Drop(ctx, to); err != nil && !mongoerr.Is(err, mongoerr.NamespaceNotFound) {
			return err
		}
	}
	return r.s.remove(ctx, receiving, bson.String(to.String()))
}

// reshardReceived answers {_shardsvrReshardReceived: ns, to, until: {donor: Timestamp}} with the
// progress. With until it first waits until all writes up to there have been applied. Errors:
// 20 if nothing is being received.
func (r *request) reshardReceived(ctx context.Context) error {
	to, err := r.copyOf()
	if err != nil {
		return err
	}
	c := r.s.cat.Lookup(to)
	if c == nil || receivingOf(c) == nil {
		return mongoerr.New(mongoerr.IllegalOperation, "%s is not being received", r.ns)
	}
	j := r.s.begin(to)
	if j == nil || j.reshard == nil {
		return mongoerr.New(mongoerr.InterruptedDueToReplStateChange, "%s is not received yet", r.ns)
	}
	if v := r.body.Lookup("until"); v.Type == bson.TypeDocument {
		until := map[string]uint64{}
		for shard, at := range v.Doc().All() {
			if at.Type != bson.TypeTimestamp {
				return mongoerr.New(mongoerr.BadValue, "until must have timestamps: %s", v)
			}
			until[shard] = at.Timestamp()
		}
		if err := j.reshard.await(ctx, until); err != nil && ctx.Err() != nil {
			return err // another one is in the reply
		}
	}
	if j.ctx.Err() != nil {
		return errEnded
	}
	f := j.reshard
	f.mu.Lock()
	defer f.mu.Unlock()
	p := &f.at
	r.reply.Int64("documents", p.documents).Int64("bytes", p.bytes).Int64("secondsLeft", p.secondsLeft()).Bool("done", p.done)
	f.status(r.reply)
	return nil
}

// reshardOwn answers {_shardsvrReshardOwn: ns, to, uuid, version, tell}: what was received is shown,
// and takes the place of the collection with the name. Where it is not there any more, the request was
// executed before. Errors: 48 if something else has the name, 117 if it is not completely
// received.
func (r *request) reshardOwn(ctx context.Context) error {
	to, err := r.copyOf()
	if err != nil {
		return err
	}
	if r.s.cat.Lookup(to) == nil {
		return r.s.remove(ctx, receiving, bson.String(to.String()))
	}
	if c := r.s.cat.Lookup(r.ns); c != nil && c.Sharding() == nil {
		return mongoerr.New(mongoerr.NamespaceExists, "%s is not sharded here", r.ns)
	}
	p, err := r.s.resharding(to)
	if err != nil {
		return err
	}
	shown := *r
	shown.ns = to
	_, err = shown.change(ctx, func(s *schema.Sharding) error {
		if len(s.Hidden) > 0 && (p == nil || p.operation != r.fence.Number || !p.done) {
			return mongoerr.New(mongoerr.ConflictingOperationInProgress, "%s is not completely received", r.ns)
		}
		s.Hidden = nil
		return r.toVersion(s)
	})
	if err != nil {
		return err
	}
	if v := r.body.Lookup("tell"); v.Type == bson.TypeDocument {
		_, err := r.s.cat.ChangeSharding(ctx, r.ns, func(c *catalog.Collection) (*schema.Sharding, bson.Doc, error) {
			s := *c.Sharding()
			return &s, commandOf(c, v.Doc()), nil
		})
		if err != nil && !mongoerr.Is(err, mongoerr.NamespaceNotFound) {
			return err
		}
	}
	r.s.stop(to)
	r.s.stop(r.ns)
	if _, err := r.s.cat.Rename(ctx, to, r.ns, true); err != nil {
		return err
	}
	return r.s.remove(ctx, receiving, bson.String(to.String()))
}

// reshardAbort answers {_shardsvrReshardAbort: ns, to}: what was received goes, and the
// donors' collection is unblocked.
func (r *request) reshardAbort(ctx context.Context) error {
	to, err := r.copyOf()
	if err != nil {
		return err
	}
	if err := r.dropCopy(ctx, to); err != nil {
		return err
	}
	return r.abort(ctx)
}
