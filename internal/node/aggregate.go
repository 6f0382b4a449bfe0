package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/schema"
)

var aggregateFields = command.NewFields("aggregate",
	command.Value(command.Any("")),
	command.Array("pipeline").Required().Otherwise(errPipeline),
	command.Bool("explain").NotNull().Unstable(),
	command.Bool("allowDiskUse").NotNull(),
	command.Struct("cursor", command.NewFields("aggregate.cursor", command.SafeInt64("batchSize").Min(0))).NotNull(),
	command.SafeBool("bypassDocumentValidation"),
	command.Object("collation"),
	command.Hint("hint"),
	command.Object("let"),
	command.UUID("collectionUUID"),
	command.Struct("runtimeConstants", runtimeFields).Unstable(),
	command.Any("needsMerge"),
	command.Any("fromMongos"),
	command.Any("passthroughToShard"),
	command.Object(SettingsField).Unstable(),
)

var errPipeline = mongoerr.New(mongoerr.TypeMismatch, "A pipeline must be an array of objects")

// aggregate answers {aggregate: collection or 1, pipeline, cursor: {}}.
// (Manual: database command aggregate.)
func (n *Node) aggregate() *command.Command {
	return &command.Command{
		Name: "aggregate", Fields: aggregateFields,
		Flags: command.ChecksOwner | command.TakesReadConcern | command.TakesSnapshot | command.TakesWriteConcern | command.APIv1 | command.Transaction,
		Help:  "run an aggregation pipeline",
		Run:   n.runAggregate, CheckReadConcern: pipelineReadConcern,
	}
}

// aggregation is an aggregate command, parsed.
type aggregation struct {
	*query
	pipeline *pipeline.Pipeline
	run      *pipeline.Run
	ns       schema.Namespace // what is read, below all views
}

// holds names the collection whose state the pipeline's cursor holds.
func (a *aggregation) holds() []string {
	if a.coll == nil {
		return nil
	}
	return []string{a.coll.UUID.String()}
}

func (n *Node) runAggregate(ctx context.Context, op *command.Op) error {
	if op.Generic.APIStrict {
		if err := StrictPipeline(op.Args.Array("pipeline")); err != nil {
			return err
		}
	}
	if op.Transaction != nil {
		if err := TransactionPipeline(op.Args.Array("pipeline")); err != nil {
			return err
		}
	}
	if op.Args.Bool("explain") {
		if !op.Generic.WriteConcern.IsMissing() {
			return mongoerr.New(mongoerr.FailedToParse, "Aggregation explain does not support the 'writeConcern' option")
		}
		op.Reply.String("explainVersion", "1")
		if err := n.explainAggregation(ctx, op, &op.Args, exec.QueryPlanner, op.Reply); err != nil {
			return err
		}
		n.writeExplainTail(op, op.Body)
		return nil
	}
	target, list, err := AggregateTarget(op)
	if err != nil {
		return err
	}
	if !op.Args.Has("cursor") {
		return mongoerr.New(mongoerr.FailedToParse, "The 'cursor' option is required, except for aggregate with the explain argument")
	}
	if err := n.rejected(op); err != nil {
		return err
	}
	if n.forwards(op) {
		return n.forward(ctx, op)
	}
	if err := n.checkExpected(op); err != nil {
		return err
	}
	if isBackupCursor(list) {
		return n.runBackupCursor(ctx, op, list)
	}
	reading := n.aggregateReading(&op.Args)
	reading.takeConstants(&op.Args)
	a, err := n.parseAggregation(op, target, list, reading)
	if err != nil {
		return err
	}
	cursor, _ := op.Args.Struct("cursor")
	spec := command.CursorSpec{
		NS: op.NS, BatchSize: cursor.Int64Or("batchSize", command.DefaultBatch),
		Collections: a.holds(), Doing: "PlanExecutor error during aggregation",
	}
	if op.Collection == "" {
		spec.NS = op.DB + ".$cmd.aggregate"
	}
	if isChangeStream(list) {
		spec.Tailable, spec.AwaitData = true, true
		spec.Cursor, err = n.watch(ctx, op, a)
	} else {
		spec.Cursor, err = n.startAggregation(ctx, op, a)
	}
	if err != nil {
		return err
	}
	return command.WriteCursorReply(ctx, op, spec)
}

// startAggregation runs a parsed pipeline for an operation.
func (n *Node) startAggregation(ctx context.Context, op *command.Op, a *aggregation) (command.Cursor, error) {
	out, err := n.Exec.Aggregate(ctx, a.coll, a.Query, a.pipeline, a.run)
	if err != nil {
		return nil, err
	}
	if cur := out.Reads(); cur != nil {
		observe(op, cur)
	}
	op.Stats.IsQuery = true
	return out, nil
}

// AggregateTarget reads the value of an aggregate, the name of a collection or
// 1, and the pipeline. Errors: 2, 73.
func AggregateTarget(op *command.Op) (schema.Namespace, []bson.Value, error) {
	ns := schema.Namespace{DB: op.DB}
	_, v := op.Body.First()
	switch {
	case v.Type == bson.TypeString:
		ns.Coll = v.Str()
		op.SetCollection(ns.Coll)
		if err := ns.Validate(); err != nil {
			return ns, nil, err
		}
	case !v.IsNumber():
		return ns, nil, mongoerr.New(mongoerr.InvalidNamespace, "collection name has invalid type %s", v.Type)
	case bson.ToDouble(v) != 1:
		return ns, nil, mongoerr.New(mongoerr.BadValue, "Invalid command format: the 'aggregate' field must specify a collection name or 1")
	}
	return ns, op.Args.Array("pipeline"), nil
}

// reading has the options with which a pipeline reads its collection.
type reading struct {
	let, collation bson.Doc
	hint           bson.Value
	allowDiskUse   bool
	// mapReduce says that the pipeline belongs to a mapReduce, whose `scope` is
	// globals.
	mapReduce bool
	globals   bson.Doc
	library   stored // in the place of those that the database stores, unless it is nil
}

// aggregateReading reads the arguments of an aggregate, or of a find.
func (n *Node) aggregateReading(a *command.Args) reading {
	return reading{
		let: a.Doc("let"), collation: a.Doc("collation"), hint: a.Value("hint"),
		allowDiskUse: a.BoolOr("allowDiskUse", n.knobs.allowDiskUse.Load()),
	}
}

// countReading reads the arguments of a count, or of a distinct.
func (n *Node) countReading(a *command.Args) reading {
	return reading{collation: a.Doc("collation"), hint: a.Value("hint"), allowDiskUse: n.knobs.allowDiskUse.Load()}
}

// parseAggregation resolves views and parses the pipeline.
func (n *Node) parseAggregation(op *command.Op, ns schema.Namespace, list []bson.Value, r reading) (*aggregation, error) {
	collation := r.collation
	if collation.IsEmpty() {
		collation = nil
	}
	given := len(list)
	if isChangeStream(list) {
		if err := checkWatchable(op, n.Catalog.Lookup(ns), ns); err != nil {
			return nil, err
		}
	}
	base, list, viewCollation, err := n.resolveView(ns, list)
	if err != nil {
		return nil, err
	}
	if base != ns {
		if op.Generic.APIStrict {
			if err := StrictPipeline(list); err != nil {
				return nil, err
			}
		}
		if collation == nil {
			collation = viewCollation
		} else if c, err := schema.ParseCollation(collation); err != nil {
			return nil, err
		} else if !sameCollation(c, viewCollation) {
			return nil, mongoerr.New(mongoerr.OptionNotSupportedOnView, "Cannot override a view's default collation: %s", ns)
		}
		if collation == nil {
			collation = simpleCollation
		}
	}
	var c *catalog.Collection
	if base.Coll != "" {
		if c = n.lookup(op, base); c == nil {
			if c, err = n.sealedBuckets(base); err != nil {
				return nil, err
			}
		}
	}
	if isChangeStream(list) { // it reads the log, and not the collection, which need not exist
		c = nil
	}
	if err := checkTimeseriesStage(c, list); err != nil {
		return nil, err
	}
	s, err := n.newScope(op, c, r.let, collation)
	if err != nil {
		return nil, err
	}
	if err := n.checkViewCollations(ns.DB, list, s.collation); err != nil {
		return nil, err
	}
	if s.expr.JavaScript != nil {
		s.expr.JavaScript.MapReduce, s.expr.JavaScript.Globals = r.mapReduce, r.globals
		if r.library != nil {
			s.expr.JavaScript.Library = r.library
		}
	}
	q := &query{Query: &exec.Query{Query: plan.Query{Env: s.env}}, coll: c, scope: s}
	q.Collation, q.Collator = s.collation, s.collator
	q.NoScan = n.knobs.noTableScan.Load()
	q.Hint, q.AllowDiskUse = r.hint, r.allowDiskUse
	q.settings = n.settingsOf(op)
	q.Preferred = q.settings.preferred(base)
	q.At = stateOf(op)
	if base.Coll != "" && !isChangeStream(list) {
		if c, err = n.lookupAt(q.At, base, c); err != nil {
			return nil, err
		}
		if q.coll = c; c != nil && !c.HoldsBuckets() {
			q.Held = n.heldOf(op, c, ns)
		}
	}
	out := &aggregation{query: q, ns: base}
	size := 0
	for _, stage := range list {
		size += len(stage.Data)
	}
	if err := op.HoldParsed(size); err != nil {
		return nil, err
	}
	out.pipeline, err = pipeline.Parse(list, &pipeline.Options{
		Expr: s.expr, Match: s.match, Collator: s.collator, Collectionless: base.Coll == "", DB: base.DB,
		NS: pipeline.Namespace{DB: ns.DB, Coll: ns.Coll}, Above: len(list) - given, Namespaces: &namespaces{n, s},
		ChangeStreams: n.Dispatcher.Member != nil,
	})
	if err != nil {
		return nil, err
	}
	if n.used != nil {
		n.used.pipeline(list)
	}
	out.pipeline = out.pipeline.Optimize()
	out.run = &pipeline.Run{Env: s.env, World: &world{n: n, op: op, ns: base, coll: c, query: q}}
	if q.AllowDiskUse {
		out.run.SpillDir = n.Exec.SpillDir
	}
	return out, nil
}

var simpleCollation = new(bson.Builder).String("locale", "simple").Finish()

func sameCollation(c *schema.Collation, spec bson.Doc) bool {
	if c == nil {
		return spec == nil
	}
	return string(c.Spec) == string(spec)
}

// explainAggregate answers an explain of an aggregate.
func (n *Node) explainAggregate(ctx context.Context, op *command.Op, body bson.Doc, v exec.Verbosity) error {
	sub := &command.Op{DB: op.DB, NS: op.NS, Name: "aggregate", Body: body, Client: op.Client, Dispatcher: op.Dispatcher, Reply: op.Reply}
	sub.EndWith(op)
	args, err := command.Parse(sub, aggregateFields)
	if err != nil {
		return err
	}
	sub.Args = args
	sub.Generic.API, sub.Generic.Versions = op.Generic.API, op.Generic.Versions
	if err := CheckSettingsField(sub); err != nil {
		return err
	}
	op.Reply.String("explainVersion", "1")
	if err := n.explainAggregation(ctx, sub, &sub.Args, v, op.Reply); err != nil {
		return err
	}
	n.writeExplainTail(op, body)
	return nil
}

func (n *Node) explainAggregation(ctx context.Context, op *command.Op, args *command.Args, v exec.Verbosity, b *bson.Builder) error {
	ns, list, err := AggregateTarget(op)
	if err != nil {
		return err
	}
	if op.Generic.APIStrict {
		if err := StrictPipeline(list); err != nil {
			return err
		}
	}
	a, err := n.parseAggregation(op, ns, list, n.aggregateReading(args))
	if err != nil {
		return err
	}
	return n.Exec.ExplainAggregate(ctx, a.coll, a.ns.String(), a.Query, a.pipeline, a.run, v, b)
}
