package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
	"github.com/mayflydb/mayfly/internal/schema"
)

// world is the server as the stages of one aggregate see it.
type world struct {
	n    *Node
	op   *command.Op
	ns   schema.Namespace
	coll *catalog.Collection // nil if there is none
	// query has how the pipeline reads: collation and limits.
	query *query
	// stream is the source of a change stream, once it is open.
	stream *changeStream
}

// Source opens the stages that read the server's own state.
func (w *world) Source(ctx context.Context, stage string, arg bson.Value) (pipeline.Iterator, error) {
	switch stage {
	case "$changeStream":
		return w.changeStreamOf(arg.Doc())
	case "$indexStats":
		return w.indexStats(arg.Doc())
	case "$currentOp":
		return w.currentOp(arg.Doc())
	case "$planCacheStats":
		return w.planCacheStats(arg.Doc())
	case "$listClusterCatalog":
		return w.listClusterCatalog(arg.Doc())
	case "$listCatalog":
		return w.listCatalog()
	case "$listSampledQueries":
		return w.sampledQueries(ctx, arg.Doc())
	case "$querySettings":
		return w.n.listQuerySettings(arg.Doc())
	case "$queryStats":
		// No statistics are collected.
		return &pipeline.List{}, nil
	case "$expiryStats":
		return w.expiryStats(ctx, arg.Doc())
	case "$collStats":
		return w.collStats(arg.Doc())
	case "$listLocalSessions", "$listSessions":
		return w.listSessions(stage, arg.Doc())
	}
	return nil, mongoerr.New(40324, "Unrecognized pipeline stage name: '%s'", stage)
}

// enter passes the gate for a stage that writes to a database. Errors: those of
// Dispatcher.Enter, 371.
func (w *world) enter(ctx context.Context, db string) (command.Pass, error) {
	pass, err := w.op.Dispatcher.Enter(ctx, db)
	if err != nil {
		return pass, err
	}
	if err := w.op.MayWrite(db); err != nil {
		pass.Leave()
		return command.Pass{}, err
	}
	return pass, nil
}

// indexStats lists the indexes with how often they were used. (Manual:
// $indexStats.)
func (w *world) indexStats(arg bson.Doc) (pipeline.Iterator, error) {
	if !arg.IsEmpty() {
		return nil, mongoerr.New(28803, "The $indexStats stage specification must be an empty object")
	}
	l := &pipeline.List{}
	if w.coll == nil {
		return l, nil
	}
	for _, ix := range w.coll.Indexes() {
		used, since := ix.Used()
		b := new(bson.Builder).String("name", ix.Name).Doc("key", ix.Key).String("host", w.op.Dispatcher.Host)
		b.OpenDoc("accesses").Int64("ops", used).Date("since", since.UnixMilli()).Close()
		b.Doc("spec", ix.Shown())
		if !ix.Ready {
			b.Bool("building", true)
		}
		l.Docs = append(l.Docs, b.Finish())
	}
	return l, nil
}

var currentOpStage = command.NewFields("$currentOp",
	command.Bool("allUsers").NotNull(), command.Bool("idleConnections").NotNull(), command.Bool("idleCursors").NotNull(),
	command.Bool("idleSessions").NotNull(), command.Bool("localOps").NotNull(), command.Bool("truncateOps").NotNull(),
	command.Bool("targetAllNodes").NotNull(), command.Bool("backtrace").NotNull(),
)

// currentOp lists the running operations. (Manual: $currentOp.)
func (w *world) currentOp(arg bson.Doc) (pipeline.Iterator, error) {
	o, err := CurrentOpOptions(w.op, arg)
	if err != nil {
		return nil, err
	}
	return &pipeline.List{Docs: w.op.Dispatcher.CurrentOps(o)}, nil
}

// CurrentOpOptions reads the argument of a $currentOp in the pipeline of an operation. Errors: 9,
// and those of its fields.
func CurrentOpOptions(op *command.Op, arg bson.Doc) (command.CurrentOpOptions, error) {
	a, err := command.ParseDoc(currentOpStage, arg)
	if err != nil {
		return command.CurrentOpOptions{}, err
	}
	if a.Bool("targetAllNodes") {
		return command.CurrentOpOptions{}, mongoerr.New(mongoerr.FailedToParse, "$currentOp supports targetAllNodes parameter only for sharded clusters")
	}
	return command.CurrentOpOptions{
		IdleSessions:    a.Bool("idleSessions") || !a.Has("idleSessions"),
		IdleConnections: a.Bool("idleConnections"), IdleCursors: a.Bool("idleCursors"), Truncate: a.Bool("truncateOps"),
		OwnOps: op.Controlled() && !a.Bool("allUsers"), For: op,
	}, nil
}
