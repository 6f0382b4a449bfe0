package router

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// stats returns the commands that show statistics of all shards and their sums.
func (r *Router) stats() []*command.Command {
	return []*command.Command{
		{Name: "collStats", Aliases: []string{"collstats"}, Help: "statistics of a collection", Run: r.runCollStats},
		{Name: "dbStats", Aliases: []string{"dbstats"}, Help: "statistics of a database", Run: r.runDBStats},
		{Name: "validate", Help: "check a collection", Run: r.runValidate},
		{Name: "dataSize", Help: "the size of a collection's documents", Run: r.runDataSize},
	}
}

// added has the statistics of collStats that are summed over shards.
var added = []string{"size", "count", "numOrphanDocs", "storageSize", "totalIndexSize", "totalSize", "freeStorageSize"}

// sumUp appends the sums of added over the replies.
func sumUp(b *bson.Builder, replies []bson.Doc) {
	for _, name := range added {
		if sum, has := totalOf(replies, name); has {
			b.Int(name, int64(sum))
		}
	}
}

// totalOf is the sum of a number over the replies. has is false if none has it.
func totalOf(replies []bson.Doc, name string) (sum float64, has bool) {
	for _, reply := range replies {
		if v := reply.Lookup(name); v.IsNumber() {
			sum, has = sum+bson.ToDouble(v), true
		}
	}
	return sum, has
}

// askOwners sends op's command to all shards that own chunks of its collection.
func (r *Router) askOwners(ctx context.Context, op *command.Op, rt *route) (names []string, replies []bson.Doc, err error) {
	names = rt.owners()
	answers, err := each(names, func(name string) (client.Answer, error) {
		command, first := op.Body.First()
		b := new(bson.Builder).Value(command, first)
		appendRest(b, op.Body)
		return r.ask(ctx, op, question{shard: name, db: op.DB, body: b.Finish(), reads: true})
	})
	for _, a := range answers {
		replies = append(replies, a.Reply)
	}
	return names, replies, err
}

func (r *Router) runCollStats(ctx context.Context, op *command.Op) error {
	ns, err := collection(op)
	if err != nil {
		return err
	}
	rt, err := r.newestRoute(ctx, ns)
	if err != nil {
		return err
	}
	if !rt.isSharded() {
		return r.passTo(ctx, op, rt, rt.owners()[0])
	}
	names, replies, err := r.askOwners(ctx, op, rt)
	if err != nil {
		return err
	}
	b := op.Reply.Bool("sharded", true).Bool("capped", false).String("ns", ns)
	sumUp(b, replies)
	var size, count int64
	for _, reply := range replies {
		size, count = size+sizeOf(reply.Lookup("size"), 0), count+sizeOf(reply.Lookup("count"), 0)
	}
	average := 0.0
	if count > 0 {
		average = float64(size) / float64(count)
	}
	b.Double("avgObjSize", average).Value("nindexes", replies[0].Lookup("nindexes"))
	sumDocument(b, "indexSizes", replies)
	b.Int("nchunks", int64(rt.chunks.Len())).OpenDoc("shards")
	for i, name := range names {
		b.Doc(name, withoutFields(replies[i], "$clusterTime", "operationTime"))
	}
	b.Close()
	return nil
}

// sumDocument sums up a document of numbers over the replies.
func sumDocument(b *bson.Builder, field string, replies []bson.Doc) {
	var names []string
	sums := map[string]int64{}
	for _, reply := range replies {
		for name, v := range document(reply.Lookup(field)).All() {
			if _, known := sums[name]; !known {
				names = append(names, name)
			}
			sums[name] += sizeOf(v, 0)
		}
	}
	b.OpenDoc(field)
	for _, name := range names {
		b.Int(name, sums[name])
	}
	b.Close()
}

func (r *Router) runDBStats(ctx context.Context, op *command.Op) error {
	names, err := r.shards.names(ctx)
	if err != nil {
		return err
	}
	if isOnConfig(op.DB) {
		names = []string{configShard}
	}
	answers, err := each(names, func(name string) (client.Answer, error) {
		b := new(bson.Builder).Int32("dbStats", 1)
		appendRest(b, op.Body)
		return r.ask(ctx, op, question{shard: name, db: op.DB, body: b.Finish(), reads: true})
	})
	if err != nil {
		return err
	}
	b := op.Reply.OpenDoc("raw")
	var first bson.Doc // empty in a cluster without shards
	var replies []bson.Doc
	for i, a := range answers {
		if i == 0 {
			first = a.Reply
		}
		replies = append(replies, a.Reply)
		b.Doc(names[i], withoutFields(a.Reply, "$clusterTime", "operationTime"))
	}
	b.Close().String("db", op.DB)
	for _, name := range dbStats {
		switch sum, has := totalOf(replies, name); {
		case name == "scaleFactor" && len(replies) > 0:
			b.Value(name, first.Lookup(name))
		case name == "avgObjSize":
			b.Double(name, averageSize(replies))
		case !has:
		case first.Lookup(name).Type == bson.TypeInt64:
			b.Int64(name, int64(sum))
		default:
			b.Double(name, sum)
		}
	}
	return nil
}

// dbStats has the statistics of a database in mongos's order. All but two are sums over shards.
var dbStats = []string{
	"collections", "views", "objects", "avgObjSize", "dataSize", "storageSize", "freeStorageSize", "indexes", "indexSize", "indexFreeStorageSize",
	"totalSize", "totalFreeStorageSize", "scaleFactor", "fsUsedSize", "fsTotalSize",
}

// averageSize is the average size of the documents of all shards, in bytes whatever the scale is.
func averageSize(replies []bson.Doc) float64 {
	var size, objects float64
	for _, reply := range replies {
		n := bson.ToDouble(reply.Lookup("objects"))
		size, objects = size+n*bson.ToDouble(reply.Lookup("avgObjSize")), objects+n
	}
	if objects == 0 {
		return 0
	}
	return size / objects
}

func (r *Router) runDataSize(ctx context.Context, op *command.Op) error {
	_, v := op.Body.First()
	if v.Type != bson.TypeString {
		return mongoerr.New(mongoerr.TypeMismatch, "dataSize takes a namespace, found %s", v.Type)
	}
	rt, err := r.newestRoute(ctx, v.Str())
	if err != nil {
		return err
	}
	_, replies, err := r.askOwners(ctx, op, rt)
	if err != nil {
		return err
	}
	op.Reply.Bool("estimate", op.Args.Bool("estimate"))
	for _, name := range []string{"size", "numObjects", "millis"} {
		sum, _ := totalOf(replies, name)
		op.Reply.Int64(name, int64(sum))
	}
	return nil
}

func (r *Router) runValidate(ctx context.Context, op *command.Op) error {
	ns, err := namedCollection(op)
	if err != nil {
		return err
	}
	rt, err := r.newestRoute(ctx, ns)
	if err != nil {
		return err
	}
	if !rt.isSharded() {
		return r.passTo(ctx, op, rt, rt.owners()[0])
	}
	names, replies, err := r.askOwners(ctx, op, rt)
	if err != nil {
		return err
	}
	valid := true
	op.Reply.OpenDoc("raw")
	for i, name := range names {
		valid = valid && replies[i].Lookup("valid").Truthy()
		op.Reply.Doc(name, withoutFields(replies[i], "$clusterTime", "operationTime"))
	}
	op.Reply.Close().Bool("valid", valid)
	return nil
}
