package router

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
)

// distribution returns the documents of $shardedDataDistribution: the size of each sharded
// collection on each of its shards. The number of orphans is always 0, as a shard counts
// only what it owns. (Manual: $shardedDataDistribution.)
func (a *aggregation) distribution(ctx context.Context) (*pipeline.List, error) {
	if _, arg := a.list[0].Doc().First(); arg.Type != bson.TypeDocument || !arg.Doc().IsEmpty() {
		return nil, mongoerr.New(mongoerr.Code(6789100), "The $shardedDataDistribution stage specification must be an empty object. Found: %s", arg)
	}
	if a.db != "admin" || a.coll != "" {
		return nil, mongoerr.New(mongoerr.Code(6789102), "$shardedDataDistribution must be run against the admin database with {aggregate: 1}")
	}
	docs, err := a.r.readConfig(ctx, "collections", new(bson.Builder).OpenDoc("unsplittable").Bool("$ne", true).Close().Finish(), byID)
	if err != nil {
		return nil, err
	}
	out := &pipeline.List{}
	for _, d := range docs {
		ns := d.Lookup("_id")
		if ns.Type != bson.TypeString {
			continue
		}
		rt, err := a.r.route(ctx, ns.Str())
		if err != nil {
			return nil, err
		}
		if rt.chunks == nil {
			continue
		}
		_, coll := splitNamespace(rt.ns)
		names := rt.owners()
		answers, err := each(names, func(name string) (client.Answer, error) {
			body := new(bson.Builder).String("collStats", coll).Finish()
			return a.r.ask(ctx, a.op, question{shard: name, db: rt.db, body: body, reads: true})
		})
		if err != nil {
			return nil, err
		}
		b := new(bson.Builder).String("ns", rt.ns).OpenArray("shards")
		for i, answer := range answers {
			b.OpenDoc(bson.Index(i)).String("shardName", names[i]).Int64("numOrphanedDocs", 0).Int64("numOwnedDocuments", sizeOf(answer.Reply.Lookup("count"), 0)).
				Int64("ownedSizeBytes", sizeOf(answer.Reply.Lookup("size"), 0)).Int64("orphanedSizeBytes", 0).Close()
		}
		out.Docs = append(out.Docs, b.Close().Finish())
	}
	return out, nil
}
