package router

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/shard"
)

const (
	// analyzedRanges is into how many ranges a collection is divided by the key. (mongod:
	// analyzeShardKeyNumRanges.)
	analyzedRanges = 100
	// analyzedKeys is how many documents' keys tell where the ranges lie.
	analyzedKeys = 10 * analyzedRanges
	// maxAnalyzed bounds the samples that are looked at: those that come first.
	maxAnalyzed = 100_000
)

// analyzed counts how sampled queries, reads or writes, would be targeted by a key.
type analyzed struct {
	names                   []string // of commands, in the order of the reply
	by                      map[string]int64
	total                   int64
	single, several, all    int64 // by the key's value, by bounds on it, and without any
	ranges                  []int64
	keyUpdates              int64
	singleWithout, multiple int64 // writes of one document, and of many, without the key's value
}

func newAnalyzed(ranges int, names ...string) *analyzed {
	return &analyzed{names: names, by: map[string]int64{}, ranges: make([]int64, ranges)}
}

// readWriteDistribution writes the fields readDistribution and writeDistribution: how the sampled
// queries would be targeted if the key was the shard key.
func (r *Router) readWriteDistribution(ctx context.Context, op *command.Op, ns schema.Namespace, key *shard.Key) error {
	docs, err := r.sampled(ctx, op, ns)
	if err != nil {
		return err
	}
	m := &shard.Map{}
	n := 0
	if len(docs) > 0 {
		if m, n, err = r.divided(ctx, op, ns, key); err != nil {
			return err
		}
	}
	rt, err := r.route(ctx, ns.String())
	if err != nil {
		return err
	}
	reads := newAnalyzed(n, "find", "aggregate", "count", "distinct")
	writes := newAnalyzed(n, "update", "delete", "findAndModify")
	for _, d := range docs {
		to := writes
		if isRead(d) {
			to = reads
		}
		if err := to.add(op, rt, m, key, d); err != nil {
			return err
		}
	}
	reads.write(op.Reply.OpenDoc("readDistribution"), "Reads").Close()
	b := writes.write(op.Reply.OpenDoc("writeDistribution"), "Writes")
	if writes.total > 0 {
		b.Double("percentageOfShardKeyUpdates", writes.percent(writes.keyUpdates)).
			Double("percentageOfSingleWritesWithoutShardKey", writes.percent(writes.singleWithout)).
			Double("percentageOfMultiWritesWithoutShardKey", writes.percent(writes.multiple))
	}
	b.Close()
	return nil
}

// sampled reads the samples of a collection as it is now, maxAnalyzed at most.
func (r *Router) sampled(ctx context.Context, op *command.Op, ns schema.Namespace) ([]bson.Doc, error) {
	of, err := r.configDocuments(ctx, op, "queryAnalyzers", new(bson.Builder).String("ns", ns.String()).Finish(), 1)
	if err != nil || len(of) == 0 {
		return nil, err
	}
	return r.configDocuments(ctx, op, "sampledQueries", new(bson.Builder).String("ns", ns.String()).Value("collectionUuid", of[0].Lookup("_id")).Finish(), maxAnalyzed)
}

// configDocuments reads documents of a collection of config, up to a limit.
func (r *Router) configDocuments(ctx context.Context, op *command.Op, coll string, filter bson.Doc, limit int) (docs []bson.Doc, err error) {
	body := new(bson.Builder).String("find", coll).Doc("filter", filter).Int32("limit", int32(limit)).Int32("batchSize", moreBatch).Finish()
	answer, err := r.ask(ctx, op, question{shard: configShard, db: "config", body: body, reads: true})
	if err != nil {
		return nil, err
	}
	m, err := r.newRemote(op, configShard, answer)
	if err != nil {
		return nil, err
	}
	in := &concatenation{all: []*remote{m}}
	defer in.Close()
	for {
		d, err := in.Next(ctx)
		if d == nil || err != nil {
			return docs, err
		}
		docs = append(docs, d.Clone())
	}
}

// divided returns a map of n ranges of the key, each the chunk of a shard of its own, whose name
// is its number. A key that is hashed first is divided evenly, any other by the keys of some
// documents.
func (r *Router) divided(ctx context.Context, op *command.Op, ns schema.Namespace, key *shard.Key) (m *shard.Map, n int, err error) {
	points := []shard.Bound{key.Min()}
	if key.HashedFirst() {
		points = append(points, key.HashPoints(nil, analyzedRanges)...)
	} else {
		size := new(bson.Builder).Int32("size", analyzedKeys).Finish()
		docs, err := r.aggregateView(ctx, op, &view{ns: ns.String()}, []bson.Value{stage("$sample", bson.Document(size)), stage("$project", bson.Document(fieldsOf(key)))})
		if err != nil {
			return nil, 0, err
		}
		var keys []shard.Bound
		for _, d := range docs {
			if at, err := key.BoundOf(d); err == nil { // one with an array has none
				keys = append(keys, at)
			}
		}
		slices.SortFunc(keys, shard.Bound.Compare)
		for i := 1; i < analyzedRanges && len(keys) > 0; i++ {
			if at := keys[i*len(keys)/analyzedRanges]; at.Compare(points[len(points)-1]) > 0 && at.Compare(key.Max()) < 0 {
				points = append(points, at)
			}
		}
	}
	chunks := make([]shard.Chunk, len(points))
	for i, at := range points {
		end := key.Max()
		if i+1 < len(points) {
			end = points[i+1]
		}
		chunks[i] = shard.Chunk{Range: shard.Range{Min: at, Max: end}, Shard: strconv.Itoa(i), Version: shard.Version{Major: 1, Minor: uint32(i)}}
	}
	m, err = shard.NewMap(ns.String(), key, shard.Generation{}, chunks)
	return m, len(points), err
}

// fieldsOf is the projection to the fields of a key.
func fieldsOf(key *shard.Key) bson.Doc {
	b := new(bson.Builder)
	b.Reset(nil)
	for path := range key.Pattern().All() {
		if path != "_id" {
			b.Int32(path, 1)
		}
	}
	if !key.Has("_id") {
		b.Int32("_id", 0)
	} else {
		b.Int32("_id", 1)
	}
	return b.Finish()
}

// add counts a sample.
func (a *analyzed) add(op *command.Op, rt *route, m *shard.Map, key *shard.Key, sample bson.Doc) error {
	name, cmd := sample.Lookup("cmdName").Str(), document(sample.Lookup("cmd"))
	one := cmd // with the filter and what belongs to it
	filter := "filter"
	switch name {
	case "update", "delete":
		list := cmd.Lookup(name + "s").Doc()
		one, filter = list.Lookup("0").Doc(), "q"
	case "findAndModify":
		filter = "query"
	}
	s, err := newScope(op, rt, document(cmd.Lookup("let")), document(one.Lookup("collation")))
	if err != nil {
		return err
	}
	q, err := s.query(document(one.Lookup(filter)))
	if needsJavaScript(err) { // it says nothing of the key
		q, err = s.query(bson.Empty)
	}
	if err != nil {
		return err
	}
	a.by[name]++
	a.total++
	t := m.Target(q)
	switch t.Reason {
	case shard.ByKey:
		a.single++
	case shard.ByBounds, shard.Nothing:
		a.several++
	default:
		a.all++
	}
	for _, number := range t.Shards {
		if n, err := strconv.Atoi(number); err == nil {
			a.ranges[n]++
		}
	}
	if isRead(sample) {
		return nil
	}
	limit := one.Lookup("limit")
	many := one.Lookup("multi").Truthy() || limit.IsNumber() && bson.ToDouble(limit) == 0
	switch {
	case t.Reason == shard.ByKey:
	case many:
		a.multiple++
	default:
		a.singleWithout++
	}
	update := one.Lookup("u")
	if name == "findAndModify" {
		update = one.Lookup("update")
	}
	if changesKey(key, update) {
		a.keyUpdates++
	}
	return nil
}

// changesKey reports whether an update with operators names a field of a key, or what is in or
// around one. What a replacement or a pipeline changes is not known.
func changesKey(key *shard.Key, update bson.Value) bool {
	for name, v := range document(update).All() {
		if !strings.HasPrefix(name, "$") || name == "$setOnInsert" || v.Type != bson.TypeDocument {
			continue
		}
		for path := range v.Doc().All() {
			for field := range key.Pattern().All() {
				if path == field || strings.HasPrefix(path, field+".") || strings.HasPrefix(field, path+".") {
					return true
				}
			}
		}
	}
	return false
}

func (a *analyzed) percent(n int64) float64 { return 100 * float64(n) / float64(max(a.total, 1)) }

// write writes a distribution. what is "Reads" or "Writes".
func (a *analyzed) write(b *bson.Builder, what string) *bson.Builder {
	b.OpenDoc("sampleSize").Int64("total", a.total)
	for _, name := range a.names {
		b.Int64(name, a.by[name])
	}
	if b.Close(); a.total == 0 {
		return b
	}
	b.Double("percentageOfSingleShard"+what, a.percent(a.single)).Double("percentageOfMultiShard"+what, a.percent(a.several)).
		Double("percentageOfScatterGather"+what, a.percent(a.all)).OpenArray("num" + what + "ByRange")
	for i, n := range a.ranges {
		b.Int64(bson.Index(i), n)
	}
	return b.Close()
}
