package router

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/shard"
)

// defaultSample is how many documents are looked at if the command does not say. (mongod:
// analyzeShardKeyCharacteristicsDefaultSampleSize.)
const defaultSample = 10_000_000

// commonValues is how many of the most common values are reported. (mongod:
// analyzeShardKeyNumMostCommonValues.)
const commonValues = 5

// analyzeShardKey says how suitable a key is for sharding a collection. The distribution of
// reads and writes is that of sampled queries (configureQueryAnalyzer). (Manual:
// analyzeShardKey.)
func (r *Router) analyzeShardKey() *command.Command {
	return &command.Command{
		Name: "analyzeShardKey", Flags: command.AdminOnly, Help: "metrics for choosing a shard key", Run: r.runAnalyze,
		Fields: command.NewFields("analyzeShardKey", command.Value(command.String("")), command.Object("key").Required(),
			command.OptionalBool("keyCharacteristics"), command.OptionalBool("readWriteDistribution"),
			command.OneOf("sampleRate", bson.TypeDouble, bson.TypeInt32, bson.TypeInt64), command.SafeInt64("sampleSize").Min(1)),
	}
}

func (r *Router) runAnalyze(ctx context.Context, op *command.Op) error {
	ns, a := op.Args.Str("analyzeShardKey"), &op.Args
	at := schema.ParseNamespace(ns)
	if at.DB == "" || at.Coll == "" || !command.ValidDatabaseName(at.DB) || !command.ValidCollectionName(at.Coll) {
		return mongoerr.New(mongoerr.InvalidNamespace, "Invalid namespace specified '%s'", ns)
	}
	if at.DB == "admin" || at.DB == "config" || at.DB == "local" || at.IsSystem() {
		return mongoerr.New(mongoerr.IllegalOperation, "Cannot analyze a shard key for a collection in an internal database, or a system collection")
	}
	characteristics, distribution := a.BoolOr("keyCharacteristics", true), a.BoolOr("readWriteDistribution", true)
	rate := 0.0
	if a.Has("sampleRate") {
		rate = bson.ToDouble(a.Value("sampleRate"))
	}
	switch {
	case !characteristics && !distribution:
		return mongoerr.New(mongoerr.InvalidOptions, "Cannot set both 'keyCharacteristics' and 'readWriteDistribution' to false")
	case a.Has("sampleRate") && a.Has("sampleSize"):
		return mongoerr.New(mongoerr.InvalidOptions, "Cannot specify both 'sampleRate' and 'sampleSize'")
	case !characteristics && (a.Has("sampleRate") || a.Has("sampleSize")):
		return mongoerr.New(mongoerr.InvalidOptions, "Cannot specify 'sampleRate' or 'sampleSize' when 'keyCharacteristics' is false")
	case a.Has("sampleRate") && !(rate > 0 && rate <= 1):
		return mongoerr.New(mongoerr.BadValue, "'sampleRate' must be greater than 0 and at most 1")
	}
	key, err := shard.ParseKey(a.Doc("key"))
	if err != nil {
		return err
	}
	if characteristics {
		if err := r.characteristics(ctx, op, at, key, rate); err != nil {
			return err
		}
	}
	if distribution {
		return r.readWriteDistribution(ctx, op, at, key)
	}
	return nil
}

// characteristics writes the field keyCharacteristics. Errors: 20 if no index supports the
// key, 26, 166.
func (r *Router) characteristics(ctx context.Context, op *command.Op, ns schema.Namespace, key *shard.Key, rate float64) error {
	unique, err := r.supported(ctx, op, ns, key)
	if err != nil {
		return err
	}
	total, sharded, err := r.total(ctx, op, ns)
	if err != nil {
		return err
	}
	results, err := r.summed(ctx, op, ns, total, rate, key)
	if err != nil {
		return err
	}
	var found bson.Doc
	if len(results) > 0 {
		found = results[0]
	}
	whole := func(name string) int64 { return bson.ClampToInt64(found.Lookup(name)) }
	b := op.Reply.OpenDoc("keyCharacteristics").Int64("numDocsTotal", total)
	if sharded {
		b.Int64("numOrphanDocs", 0)
	}
	b.Int64("avgDocSizeBytes", whole("bytes")/max(whole("docs"), 1)).Int64("numDocsSampled", whole("docs")).Bool("isUnique", unique).
		Int64("numDistinctValues", whole("distinct")).OpenArray("mostCommonValues")
	for i, d := range documents(found.Lookup("top")) {
		b.OpenDoc(bson.Index(i)).OpenDoc("value")
		values := document(d.Lookup("value"))
		j := 0
		for path := range key.Pattern().All() {
			b.Value(path, values.Lookup(sortKeyPart(j)))
			j++
		}
		b.Close().Int64("frequency", bson.ClampToInt64(d.Lookup("n"))).Close()
	}
	// Documents lie by _id, or by their shard key: no order tells when they were inserted.
	b.Close().OpenDoc("monotonicity")
	if key.IsHashed() {
		b.String("type", "not monotonic")
	} else {
		b.String("type", "unknown")
	}
	b.Close().Close()
	return nil
}

// supported checks that an index supports a shard key, and returns whether a unique one has
// exactly its fields. Errors: 20, 26, 166.
func (r *Router) supported(ctx context.Context, op *command.Op, ns schema.Namespace, key *shard.Key) (unique bool, err error) {
	found := false
	err = r.byRoute(ctx, op, ns.String(), func(rt *route) error {
		if rt.primary == "" {
			return mongoerr.New(mongoerr.NamespaceNotFound, "database %s not found", ns.DB)
		}
		name := rt.owners()[0]
		b := new(bson.Builder).String("listIndexes", ns.Coll)
		rt.appendVersions(b, name)
		answer, err := r.ask(ctx, op, question{shard: name, db: ns.DB, body: b.Finish(), reads: true})
		if err != nil {
			return err
		}
		unique, found = false, false
		for _, d := range documents(document(answer.Reply.Lookup("cursor")).Lookup("firstBatch")) {
			ix, err := schema.LoadIndex(d)
			if err != nil {
				return err
			}
			if ok, _ := key.Serves(ix, false); ok {
				found = true
				unique = unique || (ix.Unique || ix.IsID()) && ix.Key.Len() == key.Pattern().Len()
			}
		}
		return nil
	})
	if err == nil && !found {
		err = mongoerr.New(mongoerr.IllegalOperation, "Cannot analyze the characteristics of a shard key that does not have a supporting index")
	}
	return unique, err
}

// total counts the documents of a collection.
func (r *Router) total(ctx context.Context, op *command.Op, ns schema.Namespace) (n int64, sharded bool, err error) {
	err = r.byRoute(ctx, op, ns.String(), func(rt *route) error {
		sharded = rt.isSharded()
		counts, err := each(rt.owners(), func(name string) (int64, error) {
			b := new(bson.Builder).String("count", ns.Coll)
			rt.appendVersions(b, name)
			answer, err := r.ask(ctx, op, question{shard: name, db: ns.DB, body: b.Finish(), reads: true})
			return sizeOf(answer.Reply.Lookup("n"), 0), err
		})
		n = 0
		for _, c := range counts {
			n += c
		}
		return err
	})
	return n, sharded, err
}

// summed runs the pipeline that looks at a sample: one document {docs, bytes, distinct, top:
// [{value: {k0, …}, n}]}, none for an empty collection. rate 0 asks for so many documents.
func (r *Router) summed(ctx context.Context, op *command.Op, ns schema.Namespace, total int64, rate float64, key *shard.Key) ([]bson.Doc, error) {
	var list []bson.Value
	size := op.Args.Int64Or("sampleSize", defaultSample)
	switch {
	case rate > 0 && rate < 1:
		list = append(list, stage("$match", bson.Document(new(bson.Builder).Double("$sampleRate", rate).Finish())))
	case rate == 0 && size < total:
		list = append(list, stage("$sample", bson.Document(new(bson.Builder).Int64("size", size).Finish())))
	}
	b := new(bson.Builder).OpenDoc("_id")
	i := 0
	for path, v := range key.Pattern().All() {
		b.OpenDoc(sortKeyPart(i))
		if v.IsNumber() {
			b.OpenArray("$ifNull").String("0", "$"+path).Null("1").Close()
		} else {
			b.String("$toHashedIndexKey", "$"+path)
		}
		b.Close()
		i++
	}
	b.Close().OpenDoc("n").Int32("$sum", 1).Close().OpenDoc("bytes").OpenDoc("$sum").String("$bsonSize", "$$ROOT").Close().Close()
	list = append(list, stage("$group", bson.Document(b.Finish())), stage("$sort", bson.Document(new(bson.Builder).Int32("n", -1).Int32("_id", 1).Finish())))
	all := new(bson.Builder).Null("_id").OpenDoc("docs").String("$sum", "$n").Close().OpenDoc("bytes").String("$sum", "$bytes").Close().OpenDoc("distinct").Int32("$sum", 1).Close()
	all.OpenDoc("top").OpenDoc("$firstN").OpenDoc("input").String("value", "$_id").String("n", "$n").Close().Int32("n", commonValues).Close().Close()
	list = append(list, stage("$group", bson.Document(all.Finish())))
	return r.aggregateView(ctx, op, &view{ns: ns.String()}, list)
}
