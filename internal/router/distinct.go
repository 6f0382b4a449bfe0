package router

import (
	"context"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
)

// maxDistinctBytes bounds the reply of a distinct.
const maxDistinctBytes = 16<<20 - 16<<10

// distinct answers {distinct: collection, key, query} with the distinct values of all
// shards, sorted.
func (r *Router) distinct() *command.Command {
	return &command.Command{
		Name: "distinct", Flags: command.TakesReadConcern | command.TakesSnapshot | command.Transaction,
		Help: "find the distinct values of a field", Run: r.bySettings(r.atSnapshots(r.runDistinct)),
	}
}

func (r *Router) runDistinct(ctx context.Context, op *command.Op) error {
	ns, err := collection(op)
	if err != nil {
		return err
	}
	r.sampleRead(op, ns, "distinct", document(op.Body.Lookup("query")))
	err = r.byRoute(ctx, op, ns, func(rt *route) error {
		collation := document(op.Body.Lookup("collation"))
		shards, err := rt.targets(op, document(op.Body.Lookup("query")), nil, collation)
		if err != nil {
			return err
		}
		if op.InTransaction() && rt.isSharded() {
			return mongoerr.New(mongoerr.OperationNotSupportedInTransaction, "Cannot run 'distinct' on a sharded collection in a multi-document transaction. Please see http://dochub.mongodb.org/core/transaction-distinct for a recommended alternative.")
		}
		if len(shards) > 1 {
			r.atOneTime(op)
		}
		replies, err := each(shards, func(shard string) (bson.Doc, error) {
			b := new(bson.Builder).String("distinct", op.Collection)
			appendRest(b, op.Body)
			rt.appendVersions(b, shard)
			a, err := r.ask(ctx, op, question{shard: shard, db: op.DB, body: b.Finish(), reads: true})
			return a.Reply, err
		})
		if err != nil {
			return err
		}
		lists := make([]bson.Doc, len(replies))
		for i, d := range replies {
			if v := d.Lookup("values"); v.Type == bson.TypeArray {
				lists[i] = v.Doc()
			}
			op.IntegerOK = d.Lookup("ok").Type == bson.TypeInt32 // of a time-series collection
			if at := d.Lookup("atClusterTime"); at.Type == bson.TypeTimestamp {
				op.ReadConcern.AtClusterTime = at.Timestamp()
			}
		}
		s, err := newScope(op, rt, nil, collation)
		if err != nil {
			return err
		}
		if err := writeDistinct(op.Reply, lists, s.collator); err != nil {
			return err
		}
		if show := snapshotTime(op); show != nil {
			show(op.Reply)
		}
		return nil
	})
	if v := resolvedView(err); v != nil {
		return r.distinctOnView(ctx, op, v)
	}
	return err
}

// distinctOnView finds the distinct values in the results of a view's aggregation. Of
// these the shards send the field that the key begins with, each value once.
func (r *Router) distinctOnView(ctx context.Context, op *command.Op, v *view) error {
	op.IntegerOK = true // as mongod, and mongos, on a view
	list, err := v.stages(op)
	if err != nil {
		return err
	}
	key := op.Args.Str("key")
	field, _, _ := strings.Cut(key, ".")
	project := new(bson.Builder).Int32("_id", 0)
	if field == "_id" {
		project = new(bson.Builder)
	}
	project.Int32(field, 1)
	each := new(bson.Builder).String("_id", "$$ROOT").Finish()
	found, err := r.aggregateView(ctx, op, v, append(list, stage("$project", bson.Document(project.Finish())), stage("$group", bson.Document(each))))
	if err != nil {
		return err
	}
	var values bson.Builder
	n := 0
	for _, d := range found {
		err := exec.Elements(document(d.Lookup("_id")), key, func(e bson.Value) error {
			values.Value(bson.Index(n), e)
			n++
			return nil
		})
		if err != nil {
			return err
		}
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
