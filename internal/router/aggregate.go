package router

import (
	"context"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/node"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
	"github.com/mayflydb/mayfly/internal/schema"
)

// aggregate answers {aggregate: collection or 1, pipeline, cursor: {}}. A pipeline that
// one shard can run is sent there whole. Of any other the shards run the first part,
// and the router the part that needs the documents of all shards. (Manual: database
// command aggregate.)
func (r *Router) aggregate() *command.Command {
	return &command.Command{
		Name: "aggregate", Help: "run an aggregation pipeline", Run: r.bySettings(r.atSnapshots(r.runAggregate)),
		Flags: command.TakesReadConcern | command.TakesSnapshot | command.TakesWriteConcern | command.APIv1 | command.Transaction,
	}
}

// aggregation is an aggregate that is being executed.
type aggregation struct {
	r         *Router
	op        *command.Op
	db        string
	coll      string // "" for one without a collection
	list      []bson.Value
	let       bson.Doc
	collation bson.Doc
	shown     string        // the client's namespace
	mapReduce *mapReduction // it belongs to; nil for none
	apart     bool          // something lies below a view that it names, on other shards
	above     int           // how many stages in front are those of views
	within    bool          // it is a part of a stage of another pipeline
	known     []string      // the metadata that shards send in fields, by their numbers
	hidden    string        // another field that shards send for the router; "" for none
	unmet     results       // write concerns of $out and $merge that were not met, one for each shard
}

func (r *Router) runAggregate(ctx context.Context, op *command.Op) error {
	ns, list, err := node.AggregateTarget(op)
	if err != nil {
		return err
	}
	for _, s := range list {
		if s.Type != bson.TypeDocument {
			return mongoerr.New(mongoerr.TypeMismatch, "Each element of the 'pipeline' array must be an object")
		}
	}
	if op.Generic.APIStrict {
		if err := node.StrictPipeline(list); err != nil {
			return err
		}
	}
	if op.InTransaction() {
		if err := node.TransactionPipeline(list); err != nil {
			return err
		}
	}
	if op.Args.Bool("explain") {
		return r.explainPipeline(ctx, op)
	}
	if !op.Args.Has("cursor") {
		return mongoerr.New(mongoerr.FailedToParse, "The 'cursor' option is required, except for aggregate with the explain argument")
	}
	a := &aggregation{r: r, op: op, db: op.DB, coll: ns.Coll, list: list, let: document(op.Body.Lookup("let")), collation: op.Args.Doc("collation")}
	a.shown = a.db + "." + a.coll
	if a.coll == "" {
		a.shown = a.db + ".$cmd.aggregate"
	}
	if a.coll != "" && ofServers[a.first()] == "" {
		filter := bson.Empty
		if a.first() == "$match" {
			_, arg := a.list[0].Doc().First()
			filter = document(arg)
		}
		r.sampleRead(op, a.shown, "aggregate", filter)
	}
	return a.run(ctx)
}

// run runs the pipeline. If its collection is a view, it runs the resolved pipeline
// over the underlying collection.
func (a *aggregation) run(ctx context.Context) error {
	if a.first() == "$changeStream" {
		return a.watch(ctx)
	}
	if first := a.first(); a.coll == "" || ofServers[first] != "" {
		return a.runOverServers(ctx, first)
	}
	err := a.r.byRoute(ctx, a.op, a.db+"."+a.coll, func(rt *route) error {
		err := a.runBy(ctx, rt)
		a.noteBelow(rt, err)
		return err
	})
	if v := resolvedView(err); v != nil {
		if a.mapReduce != nil {
			return mongoerr.New(mongoerr.CommandNotSupportedOnView, "mapReduce on a view is not supported")
		}
		if err := v.accepts(a.op, a.collation); err != nil {
			return err
		}
		a.db, a.coll = splitNamespace(v.ns)
		a.collation = v.collation
		a.list, a.above = slices.Concat(v.pipeline, a.list), a.above+len(v.pipeline)
		if a.op.Generic.APIStrict {
			if err := node.StrictPipeline(a.list); err != nil {
				return err
			}
		}
		return a.run(ctx)
	}
	return err
}

// noteBelow notes that a shard has refused the whole pipeline because of a collection that the
// pipeline does not name: it lies below a view that it names, and elsewhere than that.
func (a *aggregation) noteBelow(rt *route, err error) {
	if ns := staleNamespace(err); isStale(err) && ns != "" && ns != rt.ns {
		reads, writes := named(a.db, a.list)
		a.apart = a.apart || ns != writes && !slices.Contains(reads, ns)
	}
}

// first returns the name of the first stage.
func (a *aggregation) first() string {
	if len(a.list) == 0 {
		return ""
	}
	name, _ := a.list[0].Doc().First()
	return name
}

// body returns the command that runs a pipeline on a shard.
func (a *aggregation) body(rt *route, name string, list []bson.Value) bson.Doc {
	b := new(bson.Builder)
	if a.coll == "" {
		b.Int32("aggregate", 1)
	} else {
		b.String("aggregate", a.coll)
	}
	b.OpenArray("pipeline")
	for i, s := range list {
		b.Value(bson.Index(i), s)
	}
	b.Close()
	if !a.collation.IsEmpty() {
		b.Doc("collation", a.collation)
	}
	if a.mapReduce != nil {
		a.mapReduce.body(a, b)
		appendRest(b, a.op.Body, mapReduceFields...)
	} else {
		leave := []string{"pipeline", "collation", "explain"}
		if a.within { // the client's hint is for its own collection, and variables may have other values
			if leave = append(leave, "hint", "let"); !a.let.IsEmpty() {
				b.Doc("let", a.let)
			}
		}
		appendRest(b, a.op.Body, leave...)
	}
	if rt != nil {
		rt.appendVersions(b, name)
	}
	return b.Finish()
}

// runBy runs the pipeline, targeted by a route.
func (a *aggregation) runBy(ctx context.Context, rt *route) error {
	if _, writes := named(a.db, a.list); rt.primary == "" && strings.HasPrefix(writes, a.db+".") {
		var err error
		if rt, err = a.r.createDatabase(ctx, a.op, rt); err != nil {
			return err
		}
	}
	if rt.isSharded() { // before a part of it changes anything
		if err := a.check(ctx, rt); err != nil {
			return err
		}
	}
	shards, err := a.targets(rt)
	if err != nil {
		return err
	}
	together, err := a.together(ctx, rt, shards)
	if err != nil {
		return err
	}
	if together {
		return a.passWhole(ctx, rt, shards[0])
	}
	if rt, err = a.withCollation(ctx, rt); err != nil {
		return err
	}
	a.r.atOneTime(a.op)
	p, here, err := a.divide(ctx, rt)
	if err != nil {
		return err
	}
	in, err := a.openShards(ctx, rt, shards, p)
	if err != nil {
		return err
	}
	return a.merge(ctx, in, here)
}

// withCollation returns the route with the default collation of an unsharded collection, which its
// primary shard knows, where the router's part has that.
func (a *aggregation) withCollation(ctx context.Context, rt *route) (*route, error) {
	if rt.chunks != nil || !a.collation.IsEmpty() {
		return rt, nil
	}
	found, err := a.r.listed(ctx, a.op, a.db, a.coll)
	if err != nil {
		return nil, err
	}
	spec := document(document(found.Lookup("options")).Lookup("collation"))
	if spec.IsEmpty() {
		return rt, nil
	}
	with := *rt
	with.collation, err = schema.ParseCollation(spec)
	return &with, err
}

// divide splits the pipeline, and parses the router's part. Shards send only the fields
// that this reads, if these are known.
func (a *aggregation) divide(ctx context.Context, rt *route) (parts, parsedPipeline, error) {
	p := split(a.list)
	meta := p.meta()
	here, err := a.parse(ctx, rt, p.merge, &pipeline.Options{Joins: true, Meta: meta})
	if err != nil {
		return p, here, err
	}
	if !p.divided {
		a.known = intersection(here.Meta(), meta)
		p.shards = showKnown(p.shards, a.known)
	}
	if names := here.Reads(); names != nil && !p.divided && len(here.Meta()) == 0 {
		if fields, ok := p.only(names); ok {
			p.shards = append(p.shards, fields)
		}
	}
	return p, here, nil
}

// targets returns the shards that the pipeline reads, according to the filter that it
// begins with.
func (a *aggregation) targets(rt *route) ([]string, error) {
	filter := bson.Empty
	if a.first() == "$match" {
		_, arg := a.list[0].Doc().First()
		filter = document(arg)
	}
	return rt.targets(a.op, filter, a.let, a.collation)
}

// together reports whether all collections that the pipeline reads and writes are on
// one shard.
func (a *aggregation) together(ctx context.Context, rt *route, shards []string) (bool, error) {
	if len(shards) != 1 || a.apart {
		return false, nil
	}
	reads, writes := named(a.db, a.list)
	if writes != "" {
		reads = append(reads, writes)
	}
	for _, ns := range reads {
		other, err := a.r.route(ctx, ns)
		if err != nil {
			return false, err
		}
		if other.primary == "" && ns == writes {
			if other, err = a.r.createDatabase(ctx, a.op, other); err != nil {
				return false, err
			}
		}
		if other.chunks != nil || other.primary != "" && other.owners()[0] != shards[0] {
			return false, nil
		}
	}
	return true, nil
}

// passWhole runs the whole pipeline on one shard.
func (a *aggregation) passWhole(ctx context.Context, rt *route, name string) error {
	_, writes := named(a.db, a.list)
	answer, err := a.r.ask(ctx, a.op, question{shard: name, db: a.db, body: a.body(rt, name, a.list), reads: writes == ""})
	if err != nil {
		return err
	}
	if a.mapReduce != nil {
		m, err := a.r.newRemote(a.op, name, answer)
		if err != nil {
			return err
		}
		in := &concatenation{all: []*remote{m}}
		defer in.Close()
		return a.mapReduce.collect(ctx, in)
	}
	return a.r.passCursor(ctx, a.op, &route{ns: a.shown}, name, answer)
}

// openShards opens the shards' part of the pipeline on each of them.
func (a *aggregation) openShards(ctx context.Context, rt *route, shards []string, p parts) (documentCursor, error) {
	all, err := each(shards, func(name string) (*remote, error) {
		body := withField(a.body(rt, name, p.shards), "cursor", bson.Document(new(bson.Builder).Int32("batchSize", moreBatch).Finish()))
		answer, err := a.r.ask(ctx, a.op, question{shard: name, db: a.db, body: withoutFields(body, "writeConcern"), reads: true})
		if err != nil {
			return nil, err
		}
		return a.r.newRemote(a.op, name, answer)
	})
	if err != nil {
		closeAll(all)
		return nil, err
	}
	if p.sort == nil {
		return &concatenation{all: all, ahead: p.divided}, nil
	}
	s, err := newScope(a.op, rt, nil, a.collation)
	if err == nil {
		var pattern sortkey.Pattern
		if pattern, err = sortkey.Parse(p.sort); err == nil {
			g := sortkey.NewGenerator(pattern, s.collator, nil)
			return &merge{all: all, key: g.Append}, nil
		}
	}
	closeAll(all)
	return nil, err
}

// mergeList parses the router's part, and runs it.
func (a *aggregation) mergeList(ctx context.Context, rt *route, in documentCursor, list []bson.Value) error {
	parsed, err := a.parse(ctx, rt, list, &pipeline.Options{Collectionless: in == nil})
	if err != nil {
		closeCursor(in)
		return err
	}
	return a.merge(ctx, in, parsed)
}

// merge runs the router's part over the shards' results, and replies with its cursor.
func (a *aggregation) merge(ctx context.Context, in documentCursor, parsed parsedPipeline) (err error) {
	s, m := parsed.scope, &merging{}
	m.account.Open(a.r.Memory)
	s.env.Memory = &m.account
	run := &pipeline.Run{Env: s.env, World: &world{a, s}, Inside: new(pipeline.Examined)}
	if a.diskUse() {
		run.SpillDir = a.r.SpillDir
	}
	s.env.Watch(ctx)
	var from pipeline.Iterator
	if in != nil {
		from = a.reveal(in, run)
	}
	if m.Iterator, err = parsed.Optimize().Open(from, run); err != nil {
		m.account.Close()
		return err
	}
	m.Iterator = watching{m.Iterator, s.env}
	if a.mapReduce != nil {
		defer m.Close()
		return a.mapReduce.collect(ctx, m)
	}
	batch := document(a.op.Body.Lookup("cursor")).Lookup("batchSize")
	defer func() { a.unmet.writeConcern(a.op.Reply) }()
	return command.WriteCursorReply(ctx, a.op, command.CursorSpec{
		NS: a.shown, Cursor: m, BatchSize: sizeOf(batch, command.DefaultBatch), Doing: "PlanExecutor error during aggregation", Vars: snapshotTime(a.op),
	})
}

// diskUse reports whether the router's part may use the disk.
func (a *aggregation) diskUse() bool {
	if v := a.op.Body.Lookup("allowDiskUse"); v.Type == bson.TypeBool {
		return v.Bool()
	}
	return a.r.allowDiskUse.Load()
}

// parsedPipeline is a pipeline with the scope of its expressions.
type parsedPipeline struct {
	*pipeline.Pipeline
	scope *scope
}

// parse parses stages. o says what may be in them.
func (a *aggregation) parse(ctx context.Context, rt *route, list []bson.Value, o *pipeline.Options) (parsedPipeline, error) {
	s, err := newScope(a.op, rt, a.let, a.collation)
	if err != nil {
		return parsedPipeline{}, err
	}
	s.expr.JavaScript = a.javascript()
	o.Expr, o.Match, o.Collator, o.DB = s.expr, s.match, s.collator, a.db
	o.NS, o.Namespaces = pipeline.Namespace{DB: a.db, Coll: a.coll}, &namespaces{ctx, a, s.collation}
	parsed, err := pipeline.Parse(list, o)
	return parsedPipeline{parsed, s}, err
}

// check parses the whole pipeline.
func (a *aggregation) check(ctx context.Context, rt *route) error {
	_, err := a.parse(ctx, rt, a.list, &pipeline.Options{Collectionless: a.coll == "", Above: a.above})
	if needsJavaScript(err) { // which the shards' part may have
		return nil
	}
	return err
}

// needsJavaScript reports whether an error says that there is no JavaScript: a router has
// none, the shards may.
func needsJavaScript(err error) bool { return mongoerr.Is(err, 6108304, 31264) }

// closeCursor closes the cursors of the shards, if there are any.
func closeCursor(c documentCursor) {
	if c != nil {
		c.Close()
	}
}

// merging is the cursor over the router's part of a pipeline.
type merging struct {
	pipeline.Iterator
	account memory.Account
}

// watching has loops in expressions end with the operation that reads: a cursor has one for each
// batch.
type watching struct {
	pipeline.Iterator
	env *expr.Env
}

// Next implements pipeline.Iterator.
func (w watching) Next(ctx context.Context) (bson.Doc, error) {
	w.env.Watch(ctx)
	return w.Iterator.Next(ctx)
}

// Next implements pipeline.Iterator. Error 10334 for a result that is larger than a document
// may be.
func (m *merging) Next(ctx context.Context) (bson.Doc, error) {
	d, err := m.Iterator.Next(ctx)
	if len(d) > bson.MaxInternalSize {
		return nil, bson.SizeError(len(d), d)
	}
	return d, err
}

// Close implements command.Cursor.
func (m *merging) Close() {
	m.Iterator.Close()
	m.account.Close()
}

// ofServers maps the stages that show the state of servers to where they run: on all
// shards, there and on the config servers and here, on the owners of the collection, or in one place.
var ofServers = map[string]string{
	"$collStats": "owners", "$indexStats": "owners", "$planCacheStats": "owners", "$expiryStats": "shards", "$currentOp": "shards",
	"$listLocalSessions": "router", "$listSessions": "everywhere", "$listClusterCatalog": "shards", "$listCatalog": "shards",
	"$documents": "anywhere", "$querySettings": "config", "$queryStats": "config", "$listSampledQueries": "config", "$shardedDataDistribution": "router",
}

// runOverServers runs a pipeline whose first stage is one of ofServers.
func (a *aggregation) runOverServers(ctx context.Context, first string) error {
	var shards []string
	rt := &route{ns: a.shown, db: a.db}
	where := ofServers[first]
	if first != "$shardedDataDistribution" { // of which pipelines do not know
		if err := a.check(ctx, rt); err != nil {
			return err
		}
	}
	if first == "$documents" || where == "" {
		return a.mergeList(ctx, rt, nil, a.list)
	}
	err := error(nil)
	if first == "$currentOp" && a.localOps() {
		own, err := a.ownOperations()
		if err != nil {
			return err
		}
		return a.mergeList(ctx, rt, own, a.list[1:])
	}
	switch where {
	case "router":
		found, err := a.shownHere(ctx, first)
		if err != nil {
			return err
		}
		return a.mergeList(ctx, rt, found, a.list[1:])
	case "config":
		shards = []string{configShard}
	case "shards", "everywhere":
		if shards, err = a.r.shards.names(ctx); err != nil {
			return err
		}
	default:
		if rt, err = a.r.newestRoute(ctx, a.db+"."+a.coll); err != nil {
			return err
		}
		shards = rt.owners()
	}
	source := a.list[:1:1]
	var only func(bson.Doc) bool
	if a.op.Controlled() {
		source, only = a.ownOnly(first)
	}
	asked := shards
	if (first == "$currentOp" || where == "everywhere") && !slices.Contains(shards, configShard) { // what they do for the cluster
		asked = append(slices.Clip(shards), configShard)
	}
	all, err := each(asked, func(name string) (*remote, error) {
		stages := source
		if first == "$currentOp" && len(asked) > len(shards) && name == configShard {
			stages = append(slices.Clip(source), matchCoordinators)
		}
		answer, err := a.r.ask(ctx, a.op, question{shard: name, db: a.db, body: a.body(nil, name, stages), reads: true})
		if err != nil {
			return nil, err
		}
		m, err := a.r.newRemote(a.op, name, answer)
		if err == nil {
			m.label = labels[first]
		}
		return m, err
	})
	if err != nil {
		closeAll(all)
		return err
	}
	if first == "$expiryStats" {
		joined, err := expiryStats(ctx, all, a.op.Start.UnixMilli())
		if err != nil {
			return err
		}
		return a.mergeList(ctx, rt, joined, a.list[1:])
	}
	if first == "$listSessions" {
		joined, err := a.sessions(ctx, all)
		if err != nil {
			return err
		}
		return a.mergeList(ctx, rt, joined, a.list[1:])
	}
	return a.mergeList(ctx, rt, &labelled{concatenation{all: all}, only}, a.list[1:])
}

// shownHere is what a stage shows that runs in the router.
func (a *aggregation) shownHere(ctx context.Context, first string) (*pipeline.List, error) {
	if first == "$listLocalSessions" {
		_, arg := a.list[0].Doc().First()
		return node.ListSessions(a.op, first, document(arg))
	}
	return a.distribution(ctx)
}

// localOps reports whether a $currentOp is about the router itself.
func (a *aggregation) localOps() bool {
	_, arg := a.list[0].Doc().First()
	v := document(arg).Lookup("localOps")
	return v.Type == bson.TypeBool && v.Bool()
}

// ownOperations are the operations of the router, as its $currentOp shows them.
func (a *aggregation) ownOperations() (*pipeline.List, error) {
	_, arg := a.list[0].Doc().First()
	o, err := node.CurrentOpOptions(a.op, document(arg))
	if err != nil {
		return nil, err
	}
	return &pipeline.List{Docs: a.op.Dispatcher.CurrentOps(o)}, nil
}

// matchCoordinators is the stage that leaves what the config servers do for the cluster.
var matchCoordinators = stage("$match", bson.Document(new(bson.Builder).OpenDoc("desc").String("$regex", coordinators).Close().Finish()))

// ownOnly is the stage for shards, and what the client may see of what they answer, where
// a stage shows a client without further privileges what is its own: the router asks in
// the name of all.
func (a *aggregation) ownOnly(first string) (stages []bson.Value, only func(bson.Doc) bool) {
	_, arg := a.list[0].Doc().First()
	d := document(arg)
	every := d.Lookup("allUsers").Truthy()
	switch first {
	case "$currentOp":
		if !every {
			only = func(d bson.Doc) bool { return ownOps(a.op, d) }
		}
	case "$listSessions", "$listLocalSessions":
		if p := a.op.Client.Principal(); p != nil && !every && !d.Has("users") {
			var b bson.Builder
			b.OpenArray("users").OpenDoc("0")
			p.User.Name.Write(&b)
			return []bson.Value{stage(first, bson.Document(b.Close().Close().Finish()))}, nil
		}
	}
	return a.list[:1:1], only
}

// labels adds the name of the shard to the documents of such a stage.
var labels = map[string]func(shard string, d bson.Doc) bson.Doc{
	"$collStats": withShard, "$indexStats": withShard, "$planCacheStats": withShard, "$listCatalog": withShard,
	"$currentOp": func(shard string, d bson.Doc) bson.Doc {
		if id := d.Lookup("opid"); id.IsNumber() {
			d = withField(d, "opid", bson.String(shard+":"+strings.TrimSpace(id.String())))
		}
		return withShard(shard, d)
	},
}

func withShard(shard string, d bson.Doc) bson.Doc {
	return new(bson.Builder).String("shard", shard).Fields(withoutFields(d, "shard")).Finish()
}

// labelled is the cursors of shards whose documents carry the name of their shard.
type labelled struct {
	concatenation
	only func(d bson.Doc) bool // which of them the client may see; nil for all
}

// Next implements pipeline.Iterator.
func (l *labelled) Next(ctx context.Context) (bson.Doc, error) {
	for len(l.all) > 0 {
		m := l.all[0]
		d, err := m.next(ctx)
		if err != nil {
			return nil, err
		}
		if d != nil {
			if l.only != nil && !l.only(d) {
				continue
			}
			if m.label != nil {
				d = m.label(m.shard, d)
			}
			return d, nil
		}
		l.all = l.all[1:]
	}
	return nil, nil
}
