package router

import (
	"context"
	"errors"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// view is what a shard says of a view: the collection below it, the pipeline over that,
// and its collation.
type view struct {
	ns        string
	pipeline  []bson.Value
	collation bson.Doc
}

// resolvedView is the view that error 169 tells of; nil for other errors.
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

// findOnView is a find on a view: the aggregation that it stands for.
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
