package router

import (
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/node"
)

// explain answers {explain: command, verbosity} with the plans of all shards that the
// command targets. (Manual: "Explain Results", sharded collections.)
func (r *Router) explain() *command.Command {
	return &command.Command{Name: "explain", Flags: command.APIv1, Help: "explain database reads and writes", Run: r.runExplain}
}

func (r *Router) runExplain(ctx context.Context, op *command.Op) error {
	_, v := op.Body.First()
	if v.Type != bson.TypeDocument {
		return mongoerr.New(mongoerr.TypeMismatch, "explain takes a command, found %s", v.Type)
	}
	if v.Doc().IsEmpty() {
		return mongoerr.New(mongoerr.CommandNotFound, "Explain failed due to unknown command: ")
	}
	inner := v.Doc()
	name, first := inner.First()
	if inner.Has(node.SettingsField) { // which a router says
		return mongoerr.New(mongoerr.IDLUnknownField, "BSON field '%s.%s' is an unknown field.", name, node.SettingsField)
	}
	switch {
	case name == "aggregate" && first.Type != bson.TypeString:
	case first.Type != bson.TypeString:
		return mongoerr.New(mongoerr.InvalidNamespace, "collection name has invalid type %s", first.Type)
	default:
		op.SetCollection(first.Str())
	}
	var rest bson.Builder
	appendRest(&rest, op.Body)
	return r.explainCommand(ctx, op, inner, rest.Finish())
}

// explainPipeline answers {aggregate, explain: true}.
func (r *Router) explainPipeline(ctx context.Context, op *command.Op) error {
	if !op.Generic.WriteConcern.IsMissing() {
		return mongoerr.New(mongoerr.FailedToParse, "Aggregation explain does not support the 'writeConcern' option")
	}
	var inner bson.Builder
	rest := new(bson.Builder).String("verbosity", "queryPlanner")
	for name, v := range op.Body.All() {
		switch {
		case ours[name] || name == "explain":
		case command.IsGeneric(name):
			rest.Value(name, v)
		default:
			inner.Value(name, v)
		}
	}
	if !op.Args.Has("cursor") {
		inner.OpenDoc("cursor").Close()
	}
	return r.explainCommand(ctx, op, inner.Finish(), rest.Finish())
}

// explainCommand explains a command on op's collection. rest has the other fields of the
// explain.
func (r *Router) explainCommand(ctx context.Context, op *command.Op, inner, rest bson.Doc) error {
	name, _ := inner.First()
	err := r.byRoute(ctx, op, op.NS, func(rt *route) error {
		filter, collation := explained(name, inner)
		shards, err := rt.targets(op, filter, document(inner.Lookup("let")), collation)
		if err != nil {
			return err
		}
		p := parts{}
		sent := inner
		if list := inner.Lookup("pipeline"); name == "aggregate" && list.Type == bson.TypeArray && len(shards) > 1 {
			a := &aggregation{r: r, op: op, db: op.DB, coll: op.Collection, list: list.Doc().Slice(), let: document(inner.Lookup("let")), collation: collation}
			if p, _, err = a.divide(ctx, rt); err != nil {
				return err
			}
			sent = withPipeline(inner, p.shards)
		}
		if name == "find" && len(shards) > 1 {
			sent = withoutFields(sent, "skip")
			if limit := sizeOf(inner.Lookup("limit"), 0); limit > 0 {
				sent = withField(sent, "limit", bson.Int64(plus(sizeOf(inner.Lookup("skip"), 0), limit)))
			}
		}
		sent = r.withSettings(ctx, op.DB, inner, sent)
		plans, err := each(shards, func(shard string) (bson.Doc, error) {
			b := new(bson.Builder).Doc("explain", sent).Fields(rest)
			rt.appendVersions(b, shard)
			a, err := r.ask(ctx, op, question{shard: shard, db: op.DB, body: b.Finish(), reads: true})
			return a.Reply, err
		})
		if err != nil {
			return err
		}
		switch {
		case !rt.isSharded():
			passReply(op, plans[0])
			return nil
		case name == "aggregate":
			r.explainAggregate(op, shards, plans, p)
		default:
			r.explainStages(op, name, inner, shards, plans)
		}
		op.Reply.Doc("serverInfo", r.Process.ServerInfo())
		if hash := node.QueryShapeHash(op.DB, inner); hash != "" {
			op.Reply.String("queryShapeHash", hash)
		}
		op.Reply.Doc("command", new(bson.Builder).Fields(inner).String("$db", op.DB).Finish())
		return nil
	})
	if v := resolvedView(err); v != nil {
		return r.explainOnView(ctx, op, inner, rest, v)
	}
	return err
}

// explainOnView explains a read of a view as the aggregation that it is.
func (r *Router) explainOnView(ctx context.Context, op *command.Op, inner, rest bson.Doc, v *view) error {
	name, _ := inner.First()
	var list []bson.Value
	if given := inner.Lookup("pipeline"); given.Type == bson.TypeArray {
		list = slices.Concat(v.pipeline, given.Doc().Slice())
	}
	collation := document(inner.Lookup("collation"))
	if name != "aggregate" {
		c := r.Dispatcher.Registry.Lookup(name)
		if c == nil || node.StagesOnView[c.Name] == nil {
			return mongoerr.New(mongoerr.CommandNotSupportedOnView, "Namespace %s is a view, not a collection", op.NS)
		}
		sub := &command.Op{DB: op.DB, Command: c, Name: name, Body: inner, NS: op.NS, Client: op.Client, Dispatcher: op.Dispatcher}
		var err error
		if sub.Args, err = command.Parse(sub, c.Fields); err != nil {
			return err
		}
		if list, err = v.stages(sub); err != nil {
			return err
		}
	} else if err := v.accepts(op, collation); err != nil {
		return err
	}
	db, coll := splitNamespace(v.ns)
	b := new(bson.Builder).String("aggregate", coll).OpenDoc("cursor").Close().Doc("collation", v.collation)
	if let := inner.Lookup("let"); !let.IsMissing() {
		b.Value("let", let)
	}
	op.DB = db
	op.SetCollection(coll)
	return r.explainCommand(ctx, op, withPipeline(b.Finish(), list), rest)
}

// withPipeline returns a command with another pipeline.
func withPipeline(d bson.Doc, list []bson.Value) bson.Doc {
	var b bson.Builder
	b.OpenArray("pipeline")
	for i, s := range list {
		b.Value(bson.Index(i), s)
	}
	return withField(d, "pipeline", b.Close().Finish().Lookup("pipeline"))
}

// explained returns the filter by which a command is targeted, and its collation.
func explained(name string, inner bson.Doc) (filter, collation bson.Doc) {
	collation = document(inner.Lookup("collation"))
	switch name {
	case "find":
		return document(inner.Lookup("filter")), collation
	case "update", "delete":
		for _, d := range documents(inner.Lookup(kinds[map[string]kind{"update": updates, "delete": deletes}[name]].batch)) {
			return document(d.Lookup("q")), document(d.Lookup("collation"))
		}
	case "aggregate":
		if list := documents(inner.Lookup("pipeline")); len(list) > 0 {
			if stage, arg := list[0].First(); stage == "$match" {
				return document(arg), collation
			}
		}
		return bson.Empty, collation
	}
	return document(inner.Lookup("query")), collation
}

// hostOf returns the connection string of a shard.
func (r *Router) hostOf(name string) string {
	if name == configShard {
		return r.config.At().String()
	}
	r.shards.mu.Lock()
	defer r.shards.mu.Unlock()
	if k := r.shards.all[name]; k != nil {
		return k.host
	}
	return ""
}

// stageOf names the router's stage for a statement on a number of shards.
func stageOf(name string, inner bson.Doc, shards int) string {
	switch {
	case name == "update" || name == "delete" || name == "findAndModify":
		return "SHARD_WRITE"
	case shards == 1:
		return "SINGLE_SHARD"
	case hasSort(document(inner.Lookup("sort"))):
		return "SHARD_MERGE_SORT"
	}
	return "SHARD_MERGE"
}

// explainStages appends the plans of shards below the router's own stage, and the sums
// of their statistics.
func (r *Router) explainStages(op *command.Op, name string, inner bson.Doc, shards []string, plans []bson.Doc) {
	stage := stageOf(name, inner, len(shards))
	b := op.Reply.OpenDoc("queryPlanner").Int32("mongosPlannerVersion", 1).OpenDoc("winningPlan").String("stage", stage).OpenArray("shards")
	for i, shard := range shards {
		planner := document(plans[i].Lookup("queryPlanner"))
		b.OpenDoc(bson.Index(i)).String("shardName", shard).String("connectionString", r.hostOf(shard)).
			Doc("serverInfo", document(plans[i].Lookup("serverInfo"))).Fields(planner).Close()
	}
	b.Close().Close().Close()
	if !plans[0].Has("executionStats") {
		return
	}
	sums := map[string]int64{}
	var slowest, total int64
	stats := make([]bson.Doc, len(plans))
	for i, plan := range plans {
		stats[i] = document(plan.Lookup("executionStats"))
		for _, n := range []string{"nReturned", "totalKeysExamined", "totalDocsExamined"} {
			sums[n] += sizeOf(stats[i].Lookup(n), 0)
		}
		took := sizeOf(stats[i].Lookup("executionTimeMillis"), 0)
		slowest, total = max(slowest, took), total+took
	}
	head := func(b *bson.Builder) {
		b.Int("nReturned", sums["nReturned"]).Int("executionTimeMillis", slowest).
			Int("totalKeysExamined", sums["totalKeysExamined"]).Int("totalDocsExamined", sums["totalDocsExamined"])
	}
	b.OpenDoc("executionStats")
	head(b)
	b.OpenDoc("executionStages").String("stage", stage)
	head(b)
	b.Int64("totalChildMillis", total).OpenArray("shards")
	for i, shard := range shards {
		b.OpenDoc(bson.Index(i)).String("shardName", shard).Fields(withoutFields(stats[i], "allPlansExecution")).Close()
	}
	b.Close().Close()
	if stats[0].Has("allPlansExecution") {
		b.OpenArray("allPlansExecution")
		for i, shard := range shards {
			b.OpenDoc(bson.Index(i)).String("shardName", shard).Value("allPlans", stats[i].Lookup("allPlansExecution")).Close()
		}
		b.Close()
	}
	b.Close()
}

// explainAggregate appends how a pipeline is split, and the plans of the shards.
func (r *Router) explainAggregate(op *command.Op, shards []string, plans []bson.Doc, p parts) {
	b := op.Reply
	if len(shards) > 1 {
		b.String("mergeType", "mongos").OpenDoc("splitPipeline")
		for _, part := range []struct {
			name string
			list []bson.Value
		}{{"shardsPart", p.shards}, {"mergerPart", p.merge}} {
			b.OpenArray(part.name)
			for i, s := range part.list {
				b.Value(bson.Index(i), s)
			}
			b.Close()
		}
		b.Close()
	}
	b.OpenDoc("shards")
	for i, shard := range shards {
		b.OpenDoc(shard).String("host", r.hostOf(shard))
		for name, v := range plans[i].All() {
			switch name {
			case "stages", "queryPlanner", "executionStats", "explainVersion":
				b.Value(name, v)
			}
		}
		b.Close()
	}
	b.Close()
}
