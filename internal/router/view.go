package router

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/node"
	"github.com/mayflydb/mayfly/internal/schema"
)

// simpleCollation is the collation of a view without one, whatever its collection has.
var simpleCollation = new(bson.Builder).String("locale", "simple").Finish()

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
	v := &view{ns: ns.Str(), collation: simpleCollation}
	if c := document(d.Lookup("collation")); !c.IsEmpty() {
		v.collation = c
	}
	for stage := range list.Doc().Values() {
		v.pipeline = append(v.pipeline, stage)
	}
	return v
}

// accepts checks the collation of a statement on the view. Error 167 unless it is the
// view's.
func (v *view) accepts(op *command.Op, collation bson.Doc) error {
	if collation.IsEmpty() {
		return nil
	}
	given, err := schema.ParseCollation(collation)
	if err != nil {
		return err
	}
	own, err := schema.ParseCollation(v.collation)
	if err != nil {
		return err
	}
	if (given == nil) != (own == nil) || given != nil && !bytes.Equal(given.Spec, own.Spec) {
		return mongoerr.New(mongoerr.OptionNotSupportedOnView, "Cannot override a view's default collation: %s", op.NS)
	}
	return nil
}

// stages returns the stages that a find, count or distinct on the view runs as. Errors:
// 167, and those of arguments that a view does not take.
func (v *view) stages(op *command.Op) ([]bson.Value, error) {
	if err := v.accepts(op, op.Args.Doc("collation")); err != nil {
		return nil, err
	}
	list, err := node.StagesOnView[op.Command.Name](&op.Args)
	return slices.Concat(v.pipeline, list), err
}

// findOnView runs a find on a view as an aggregation.
func (r *Router) findOnView(ctx context.Context, op *command.Op, v *view) error {
	list, err := v.stages(op)
	if err != nil {
		return err
	}
	a := &aggregation{r: r, op: op, list: list, collation: v.collation, shown: op.NS}
	a.db, a.coll = splitNamespace(v.ns)
	body := op.Body
	cursor := new(bson.Builder)
	if size := body.Lookup("batchSize"); size.IsNumber() {
		cursor.Value("batchSize", size)
	}
	b := new(bson.Builder).String("aggregate", a.coll).Doc("cursor", cursor.Finish())
	appendRest(b, body, "filter", "sort", "skip", "limit", "projection", "batchSize", "singleBatch", "noCursorTimeout", "tailable", "awaitData", "returnKey", "showRecordId", "min", "max", "allowPartialResults")
	op.Body = b.Finish()
	return a.run(ctx)
}

// aggregateView runs the stages of a command over a view, and returns all results.
func (r *Router) aggregateView(ctx context.Context, op *command.Op, v *view, list []bson.Value) ([]bson.Doc, error) {
	var reply bson.Builder
	inner := &command.Op{
		Client: op.Client, Dispatcher: op.Dispatcher, Command: op.Command, Name: op.Name, DB: op.DB, NS: op.NS, Collection: op.Collection,
		Generic: op.Generic, Session: op.Session, ReadConcern: op.ReadConcern, Start: op.Start, Deadline: op.Deadline, Reply: &reply,
	}
	inner.EndWith(op)
	b := new(bson.Builder).String("aggregate", op.Collection).OpenDoc("cursor").Int64("batchSize", math.MaxInt32).Close()
	for name, v := range op.Body.All() {
		if command.IsGeneric(name) || name == "hint" {
			b.Value(name, v)
		}
	}
	inner.Body = b.Finish()
	a := &aggregation{r: r, op: inner, list: list, collation: v.collation, shown: op.NS}
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
