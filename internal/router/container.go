package router

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/shard"
)

// What the Cosmos DB endpoint of a router asks the cluster (cosmos.Cluster).

// AskConfig runs a command on the primary of the config servers; retry if the answer may have
// been lost and the command may run twice.
func (r *Router) AskConfig(ctx context.Context, db string, body bson.Doc, retry bool) (bson.Doc, error) {
	a, err := r.config.Run(ctx, client.Call{DB: db, Body: body, Idempotent: retry})
	return a.Reply, err
}

// ReadConfig reads what a majority of the config servers has of a collection of the database
// config.
func (r *Router) ReadConfig(ctx context.Context, coll string, filter bson.Doc) ([]bson.Doc, error) {
	return r.readConfig(ctx, coll, filter, bson.Empty)
}

// AskOwner runs a command on the shard that owns the documents with the shard key of doc, and
// adds the versions of its route. statement is called for each route that is tried, with its
// generation and its shard key. retry is as for AskConfig. Errors: 26 if the collection is not
// sharded, those of statement, of the shard, and of client.Set.
func (r *Router) AskOwner(ctx context.Context, ns string, retry bool, statement func(generation string, key bson.Doc) (doc bson.Doc, body *bson.Builder, err error)) (bson.Doc, error) {
	return r.askContainer(ctx, ns, retry, func(rt *route) (string, *bson.Builder, error) {
		doc, b, err := statement(generationText(rt), rt.chunks.Key().Pattern())
		if err != nil {
			return "", nil, err
		}
		owner, err := rt.chunks.TargetInsert(doc)
		return owner, b, err
	})
}

// AskRange is AskOwner of a range of a hash, nil for no bound: whole is false, and nobody was
// asked, if the range is in no chunk.
func (r *Router) AskRange(ctx context.Context, ns string, low, high *int64, statement func(generation string, key bson.Doc) (*bson.Builder, error)) (reply bson.Doc, whole bool, err error) {
	reply, err = r.askContainer(ctx, ns, true, func(rt *route) (string, *bson.Builder, error) {
		key := rt.chunks.Key()
		bounds := key.Whole()
		for _, end := range []struct {
			hash *int64
			into *shard.Bound
		}{{low, &bounds.Min}, {high, &bounds.Max}} {
			if end.hash == nil {
				continue
			}
			name, _ := key.Pattern().First()
			b, ok := key.ParseBound(new(bson.Builder).Int64(name, *end.hash).Finish())
			if !ok {
				return "", nil, mongoerr.New(mongoerr.BadValue, "no bound of the shard key %s: %d", key, *end.hash)
			}
			*end.into = b
		}
		n, owner := 0, ""
		for c := range rt.chunks.Overlapping(bounds) {
			n, owner = n+1, c.Shard
		}
		if whole = n == 1; !whole {
			return "", nil, nil
		}
		b, err := statement(generationText(rt), key.Pattern())
		return owner, b, err
	})
	return reply, whole, err
}

// askContainer runs a command by the route of a container's collection: on the shard that
// target names, or nowhere if it names none.
func (r *Router) askContainer(ctx context.Context, ns string, retry bool, target func(rt *route) (owner string, body *bson.Builder, err error)) (bson.Doc, error) {
	var reply bson.Doc
	try := func(rt *route) error {
		if !rt.isSharded() {
			return mongoerr.New(mongoerr.NamespaceNotFound, "the collection %s is not sharded", ns)
		}
		owner, b, err := target(rt)
		if err != nil || owner == "" {
			return err
		}
		rt.appendVersions(b, owner)
		set, err := r.shards.shard(ctx, owner)
		if err != nil {
			return err
		}
		a, err := set.Run(ctx, client.Call{DB: rt.db, Body: b.Finish(), Idempotent: retry})
		reply = a.Reply
		return err
	}
	err := r.byRoute(ctx, nil, ns, try)
	if mongoerr.Is(err, mongoerr.NamespaceNotFound) {
		// It may have been created since the route was read: nobody calls that one stale.
		rt, err := r.newestRoute(ctx, ns)
		if err != nil || !rt.isSharded() {
			return nil, mongoerr.New(mongoerr.NamespaceNotFound, "the collection %s is not sharded", ns)
		}
		err = r.byRoute(ctx, nil, ns, try)
		return reply, err
	}
	return reply, err
}

// generationText names the generation of a sharded collection.
func generationText(rt *route) string {
	g := rt.chunks.Version().ShardGeneration
	return string(g.Epoch[:]) + bson.Timestamp(g.Timestamp).String()
}

// Bounds returns where the chunks of a collection end, but for the last, and a text that is
// another one whenever they change: as the router knows them, or as they are now. Errors: 26
// if it is not sharded by one field's hash.
func (r *Router) Bounds(ctx context.Context, ns string, now bool) (bounds []int64, version string, err error) {
	rt, err := r.route(ctx, ns)
	if err == nil && (now || !rt.isSharded()) {
		rt, err = r.fresher(ctx, rt)
	}
	if err != nil {
		return nil, "", err
	}
	if !rt.isSharded() || !rt.chunks.Key().HashedFirst() || len(rt.chunks.Key().Parts) != 1 {
		return nil, "", mongoerr.New(mongoerr.NamespaceNotFound, "the collection %s is not sharded by a hash", ns)
	}
	for c := range rt.chunks.Chunks() {
		_, v := rt.chunks.Key().Doc(c.Max).First()
		if v.IsNumber() {
			bounds = append(bounds, bson.ClampToInt64(v))
		}
	}
	return bounds, rt.chunks.Version().String(), nil
}
