package router

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/node"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
)

// mapReduction is what a pipeline has of the mapReduce that it belongs to.
type mapReduction struct {
	globals bson.Doc   // of its functions
	stored  []bson.Doc // functions of the database
	// collected are the documents that the pipeline delivers, as an array.
	collected bson.Doc
}

// mapReduce answers {mapReduce: collection, map, reduce, out, …} by a pipeline: each shard maps
// its documents, and the router reduces what all of them emit. (Manual: database command
// mapReduce.)
func (r *Router) mapReduce() *command.Command {
	return &command.Command{
		Name: "mapReduce", Aliases: []string{"mapreduce"}, Flags: command.TakesWriteConcern, Run: r.runMapReduce,
		Help: "Runs the mapReduce command. See http://dochub.mongodb.org/core/mapreduce for details.",
	}
}

func (r *Router) runMapReduce(ctx context.Context, op *command.Op) error {
	m, err := node.ParseMapReduce(op.DB, &op.Args)
	if err != nil {
		return err
	}
	list, globals := m.Pipeline()
	a := &aggregation{r: r, op: op, db: op.DB, coll: op.Collection, list: list, collation: op.Args.Doc("collation"), mapReduce: &mapReduction{globals: globals}}
	a.shown = a.db + "." + a.coll
	rt, err := r.route(ctx, a.shown)
	if err != nil {
		return err
	}
	if err := a.check(ctx, rt); err != nil {
		return m.Translate(err)
	}
	if r.JavaScript != nil { // else nothing is run
		if a.mapReduce.stored, err = (library{a}).Stored(ctx); err != nil {
			return err
		}
	}
	if err := a.run(ctx); err != nil {
		return mongoerr.Under(err, "MapReduce internal error")
	}
	m.Write(op.Reply, a.mapReduce.collected)
	a.unmet.writeConcern(op.Reply)
	return nil
}

// collect reads all that the pipeline delivers. Errors: 10334 if it is larger than a document
// may be.
func (m *mapReduction) collect(ctx context.Context, in pipeline.Iterator) error {
	var b bson.Builder
	b.Reset(nil)
	for i := 0; ; i++ {
		d, err := in.Next(ctx)
		if err != nil {
			return err
		}
		if d == nil {
			m.collected = b.Finish()
			return nil
		}
		if size := b.Len() + len(d); size > bson.MaxInternalSize {
			return bson.SizeError(size, d)
		}
		b.Doc(bson.Index(i), d)
	}
}

// body is the command for a shard's part of the pipeline.
func (m *mapReduction) body(a *aggregation, b *bson.Builder) {
	if v := a.op.Body.Lookup("bypassDocumentValidation"); !v.IsMissing() {
		b.Value("bypassDocumentValidation", v)
	}
	b.OpenDoc("cursor").Close().OpenDoc("runtimeConstants").Bool("isMapReduce", true)
	if !m.globals.IsEmpty() {
		b.Doc("jsScope", m.globals)
	}
	b.OpenArray("storedFunctions")
	for i, d := range m.stored {
		b.Doc(bson.Index(i), d)
	}
	b.Close().Close()
}

// mapReduceFields are those of the command that are no part of an aggregate.
var mapReduceFields = []string{"map", "reduce", "out", "query", "sort", "limit", "finalize", "scope", "verbose", "bypassDocumentValidation", "jsMode", "collation"}
