package router

import (
	"context"
	"errors"
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// view is a resolved view: its underlying collection, its pipeline and its collation.
type view struct {
	ns        string
	pipeline  []bson.Value
	collation bson.Doc
}

// resolvedView returns the view that error 169 describes, nil for other errors.
func resolvedView(err error) *view {
	var e *mongoerr.Error
	if !errors.As(err, &e) || e.Code != mongoerr.CommandOnShardedViewNotSupportedOnMongod || e.Extra == nil {
		return nil
	}
	d := document(bson.Doc(e.Extra).Lookup("resolvedView"))
	ns, list := d.Lookup("ns"), d.Lookup("pipeline")
	if ns.Type != bson.TypeString || list.Type != bson.TypeArray {
		return nil
	}
	v := &view{ns: ns.Str(), collation: document(d.Lookup("collation"))}
	for stage := range list.Doc().Values() {
		v.pipeline = append(v.pipeline, stage)
	}
	return v
}

// findOnView runs a find on a view as an aggregation.
func (r *Router) findOnView(ctx context.Context, op *command.Op, v *view) error {
	a := &aggregation{r: r, op: op, list: v.pipeline, collation: v.collation, shown: op.NS}
	a.db, a.coll = splitNamespace(v.ns)
	body := op.Body
	for _, part := range []struct{ field, stage string }{{"filter", "$match"}, {"sort", "$sort"}, {"skip", "$skip"}, {"limit", "$limit"}, {"projection", "$project"}} {
		arg := body.Lookup(part.field)
		if arg.IsMissing() || arg.Type == bson.TypeDocument && arg.Doc().IsEmpty() && part.field != "filter" || arg.IsNumber() && bson.ToDouble(arg) == 0 {
			continue
		}
		a.list = append(a.list, stage(part.stage, arg))
	}
	cursor := new(bson.Builder)
	if size := body.Lookup("batchSize"); size.IsNumber() {
		cursor.Value("batchSize", size)
	}
	b := new(bson.Builder).String("aggregate", a.coll).Doc("cursor", cursor.Finish())
	appendRest(b, body, "filter", "sort", "skip", "limit", "projection", "batchSize", "singleBatch", "noCursorTimeout", "tailable", "awaitData", "returnKey", "showRecordId", "min", "max", "allowPartialResults")
	op.Body = b.Finish()
	return a.run(ctx)
}

// aggregateView runs a pipeline over a view, and returns all results.
func (r *Router) aggregateView(ctx context.Context, op *command.Op, v *view, list []bson.Value) ([]bson.Doc, error) {
	var reply bson.Builder
	inner := &command.Op{
		Client: op.Client, Dispatcher: op.Dispatcher, Command: op.Command, Name: op.Name, DB: op.DB, NS: op.NS, Collection: op.Collection,
		Generic: op.Generic, Session: op.Session, ReadConcern: op.ReadConcern, Start: op.Start, Deadline: op.Deadline, Reply: &reply,
	}
	inner.EndWith(op)
	b := new(bson.Builder).String("aggregate", op.Collection).OpenDoc("cursor").Int64("batchSize", math.MaxInt32).Close()
	for name, v := range op.Body.All() {
		if command.IsGeneric(name) {
			b.Value(name, v)
		}
	}
	inner.Body = b.Finish()
	a := &aggregation{r: r, op: inner, list: append(v.pipeline, list...), collation: v.collation, shown: op.NS}
	a.db, a.coll = splitNamespace(v.ns)
	if err := a.run(ctx); err != nil {
		return nil, err
	}
	op.OperationTime.Observe(inner.OperationTime.Now())
	cursor := document(reply.Finish().Lookup("cursor"))
	if id := bson.ClampToInt64(cursor.Lookup("id")); id != 0 {
		r.Dispatcher.Cursors.Kill(id)
		return nil, mongoerr.New(mongoerr.ExceededMemoryLimit, "the view %s has too many distinct values", op.NS)
	}
	return documents(cursor.Lookup("firstBatch")), nil
}
