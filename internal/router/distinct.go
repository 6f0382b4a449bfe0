package router

import (
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// maxDistinctBytes bounds the reply of a distinct.
const maxDistinctBytes = 16<<20 - 16<<10

// distinct answers {distinct: collection, key, query} with the distinct values of all
// shards, sorted.
func (r *Router) distinct() *command.Command {
	return &command.Command{
		Name: "distinct", Flags: command.TakesReadConcern | command.TakesSnapshot | command.Transaction,
		Help: "find the distinct values of a field", Run: r.runDistinct,
	}
}

func (r *Router) runDistinct(ctx context.Context, op *command.Op) error {
	ns, err := collection(op)
	if err != nil {
		return err
	}
	err = r.byRoute(ctx, ns, func(rt *route) error {
		collation := document(op.Body.Lookup("collation"))
		shards, err := rt.targets(op, document(op.Body.Lookup("query")), nil, collation)
		if err != nil {
			return err
		}
		lists, err := each(shards, func(shard string) (bson.Doc, error) {
			b := new(bson.Builder).String("distinct", op.Collection)
			appendRest(b, op.Body)
			rt.appendVersions(b, shard)
			a, err := r.ask(ctx, op, question{shard: shard, db: op.DB, body: b.Finish(), reads: true})
			if v := a.Reply.Lookup("values"); err == nil && v.Type == bson.TypeArray {
				return v.Doc(), nil
			}
			return bson.Empty, err
		})
		if err != nil {
			return err
		}
		s, err := newScope(op, rt, nil, collation)
		if err != nil {
			return err
		}
		return writeDistinct(op.Reply, lists, s.collator)
	})
	if v := resolvedView(err); v != nil {
		return r.distinctOnView(ctx, op, v)
	}
	return err
}

// distinctOnView finds the distinct values in the results of a view's aggregation.
func (r *Router) distinctOnView(ctx context.Context, op *command.Op, v *view) error {
	key := op.Body.Lookup("key")
	if key.Type != bson.TypeString {
		return mongoerr.New(mongoerr.TypeMismatch, "BSON field 'distinct.key' is the wrong type '%s', expected type 'string'", key.Type)
	}
	// The pipeline unwinds arrays on each level of the path.
	list := []bson.Value{stage("$match", bson.Document(document(op.Body.Lookup("query"))))}
	path := ""
	for name := range splitPath(key.Str()) {
		if path != "" {
			path += "."
		}
		path += name
		list = append(list, stage("$unwind", bson.Document(new(bson.Builder).String("path", "$"+path).Bool("preserveNullAndEmptyArrays", true).Finish())))
	}
	there := new(bson.Builder).OpenDoc(key.Str()).Bool("$exists", true).Close().Finish()
	group := new(bson.Builder).String("_id", "$"+key.Str()).Finish()
	found, err := r.aggregateView(ctx, op, v, append(list, stage("$match", bson.Document(there)), stage("$group", bson.Document(group))))
	if err != nil {
		return err
	}
	var values bson.Builder
	for i, d := range found {
		values.Value(bson.Index(i), d.Lookup("_id"))
	}
	s, err := newScope(op, &route{}, nil, v.collation)
	if err != nil {
		return err
	}
	return writeDistinct(op.Reply, []bson.Doc{values.Finish(), bson.Empty}, s.collator)
}

// writeDistinct appends the distinct values of all lists. Error 17217 if they are too large.
func writeDistinct(b *bson.Builder, lists []bson.Doc, c bson.Collator) error {
	var all []bson.Value
	for _, l := range lists {
		for v := range l.Values() {
			all = append(all, v)
		}
	}
	compare := func(x, y bson.Value) int { return bson.CompareWith(x, y, c) }
	if len(lists) > 1 {
		slices.SortStableFunc(all, compare)
		all = slices.CompactFunc(all, func(x, y bson.Value) bool { return compare(x, y) == 0 })
	}
	size := 0
	b.OpenArray("values")
	for i, v := range all {
		if size += len(v.Data) + 16; size > maxDistinctBytes {
			return mongoerr.New(mongoerr.Code(17217), "distinct too big, 16mb cap")
		}
		b.Value(bson.Index(i), v)
	}
	b.Close()
	return nil
}
