package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec/plancache"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/query/project"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
)

func planCacheFields(name string) *command.Fields {
	return command.NewFields(name,
		command.Collection(), command.Any("query"), command.Any("sort"), command.Any("projection"),
		command.Any("collation"), command.Any("indexes"),
	).Lenient()
}

// planCacheCommands are the commands about the cached plans and the index
// filters of a collection.
func (n *Node) planCacheCommands() []*command.Command {
	make := func(name, help string, run func(*command.Op, *catalog.Collection) error) *command.Command {
		return &command.Command{
			Name: name, Fields: planCacheFields(name), Help: help,
			Run: func(_ context.Context, op *command.Op) error {
				c, err := n.collection(op)
				if err != nil {
					return err
				}
				if c != nil && c.IsTimeseries() {
					return mongoerr.New(mongoerr.CommandNotSupportedOnView, "Namespace %s is a timeseries collection", op.NS)
				}
				return run(op, c)
			},
		}
	}
	return []*command.Command{
		make("planCacheClear", "Drops one or all plan cache entries in a collection.", n.runPlanCacheClear),
		make("planCacheClearFilters", "Clears index filter for a single query shape or, if the query shape is omitted, all filters for the collection.", n.runPlanCacheClearFilters),
		make("planCacheListFilters", "Displays index filters for all query shapes in a collection.", n.runPlanCacheListFilters),
		make("planCacheSetFilter", "Sets index filter for a query shape. Overrides existing filter.", n.runPlanCacheSetFilter),
	}
}

// shapeArgument reads an argument of a query shape: arrays count as objects.
func shapeArgument(a *command.Args, name string) (bson.Doc, error) {
	if !a.Has(name) {
		if name == "query" {
			return nil, mongoerr.New(mongoerr.BadValue, "required field query missing")
		}
		return nil, nil
	}
	v := a.Value(name)
	if v.Type != bson.TypeDocument && v.Type != bson.TypeArray {
		need := "optional"
		if name == "query" {
			need = "required"
		}
		return nil, mongoerr.New(mongoerr.BadValue, "%s field %s must be an object", need, name)
	}
	return v.Doc(), nil
}

// shapeQuery parses the query, sort, projection and collation that identify a
// query shape. Errors: 2, and those of parsing them.
func (n *Node) shapeQuery(op *command.Op, c *catalog.Collection, a *command.Args) (*query, error) {
	args := map[string]bson.Doc{}
	for _, name := range []string{"query", "sort", "projection", "collation"} {
		d, err := shapeArgument(a, name)
		if err != nil {
			return nil, err
		}
		args[name] = d
	}
	if d := args["collation"]; d != nil && (a.Value("collation").Type != bson.TypeDocument || d.IsEmpty()) {
		return nil, mongoerr.New(mongoerr.BadValue, "optional field collation must be a non-empty object")
	}
	s, err := n.newScope(op, c, nil, args["collation"])
	if err != nil {
		return nil, err
	}
	q, err := n.scopedQuery(op, c, s, args["query"])
	if err != nil {
		return nil, err
	}
	if q.Sort, err = sortkey.Parse(args["sort"]); err != nil {
		return nil, err
	}
	if d := args["projection"]; d != nil && !d.IsEmpty() {
		q.Projection, err = project.ParseFind(d, &project.Options{Expr: q.expr, Match: q.match, Filter: q.Filter})
	}
	return q, err
}

// optionalShape returns the query that the arguments name; nil if they name
// none.
func (n *Node) optionalShape(op *command.Op, c *catalog.Collection) (*plan.Query, error) {
	a := &op.Args
	if a.Has("query") {
		q, err := n.shapeQuery(op, c, a)
		if err != nil {
			return nil, err
		}
		return &q.Query.Query, nil
	}
	if a.Has("sort") || a.Has("projection") || a.Has("collation") {
		return nil, mongoerr.New(mongoerr.BadValue, "sort, projection, or collation provided without query")
	}
	return nil, nil
}

// runPlanCacheClear answers {planCacheClear: collection, query, sort,
// projection, collation}. (Manual: database command planCacheClear.)
func (n *Node) runPlanCacheClear(op *command.Op, c *catalog.Collection) error {
	if c == nil {
		return nil
	}
	q, err := n.optionalShape(op, c)
	if err != nil {
		return err
	}
	plancache.Of(c).Clear(q)
	return nil
}

// runPlanCacheClearFilters answers {planCacheClearFilters: collection, query,
// sort, projection, collation}. (Manual: database command
// planCacheClearFilters.)
func (n *Node) runPlanCacheClearFilters(op *command.Op, c *catalog.Collection) error {
	if c == nil {
		return nil
	}
	q, err := n.optionalShape(op, c)
	if err != nil {
		return err
	}
	plancache.Of(c).ClearFilters(q)
	return nil
}

// runPlanCacheListFilters answers {planCacheListFilters: collection}. (Manual:
// database command planCacheListFilters.)
func (n *Node) runPlanCacheListFilters(op *command.Op, c *catalog.Collection) error {
	b := op.Reply.OpenArray("filters")
	if c != nil {
		for i, f := range plancache.Of(c).Filters() {
			b.OpenDoc(bson.Index(i)).Doc("query", f.Query).Doc("sort", f.Sort).Doc("projection", f.Projection)
			if !f.Collation.IsEmpty() {
				b.Doc("collation", f.Collation)
			}
			b.Array("indexes", f.Indexes).Close()
		}
	}
	b.Close()
	return nil
}

// runPlanCacheSetFilter answers {planCacheSetFilter: collection, query, sort,
// projection, collation, indexes: [key or name, …]}. (Manual: database command
// planCacheSetFilter.)
func (n *Node) runPlanCacheSetFilter(op *command.Op, c *catalog.Collection) error {
	if c == nil {
		return mongoerr.New(mongoerr.BadValue, "no such collection")
	}
	f := &plancache.Filter{}
	if err := filterIndexes(f, &op.Args); err != nil {
		return err
	}
	q, err := n.shapeQuery(op, c, &op.Args)
	if err != nil {
		return err
	}
	for name, d := range map[string]*bson.Doc{"query": &f.Query, "sort": &f.Sort, "projection": &f.Projection, "collation": &f.Collation} {
		*d = bson.Empty
		if op.Args.Has(name) {
			*d = op.Args.Value(name).Doc().Clone()
		}
	}
	plancache.Of(c).SetFilter(&q.Query.Query, f)
	return nil
}

// filterIndexes reads the indexes of an index filter.
func filterIndexes(f *plancache.Filter, a *command.Args) error {
	v := a.Value("indexes")
	switch {
	case !a.Has("indexes"):
		return mongoerr.New(mongoerr.BadValue, "required field indexes missing")
	case v.Type != bson.TypeArray:
		return mongoerr.New(mongoerr.BadValue, "required field indexes must be an array")
	case v.Doc().IsEmpty():
		return mongoerr.New(mongoerr.BadValue, "required field indexes must contain at least one index")
	}
	f.Indexes = v.Doc().Clone()
	for ix := range f.Indexes.Values() {
		switch {
		case ix.Type == bson.TypeString:
			f.Names = append(f.Names, ix.Str())
		case ix.Type != bson.TypeDocument:
			return mongoerr.New(mongoerr.BadValue, "each item in indexes must be an object or string")
		case ix.Doc().IsEmpty():
			return mongoerr.New(mongoerr.BadValue, "index specification cannot be empty")
		default:
			f.Keys = append(f.Keys, ix.Doc())
		}
	}
	return nil
}

// planCacheStats lists the cached plans of the collection. (Manual:
// $planCacheStats.)
func (w *world) planCacheStats(arg bson.Doc) (pipeline.Iterator, error) {
	allHosts := bson.Value{}
	for name, v := range arg.All() {
		switch {
		case name != "allHosts":
			return nil, mongoerr.New(mongoerr.FailedToParse, "$planCacheStats parameters object may contain only 'allHosts' field. Found: %s", name)
		case !allHosts.IsMissing():
			return nil, mongoerr.New(mongoerr.FailedToParse, "$planCacheStats parameters object has the field 'allHosts' twice")
		case v.Type != bson.TypeBool:
			return nil, mongoerr.New(mongoerr.Code(13111), "wrong type for field (allHosts) %s != bool", v.Type)
		}
		allHosts = v
	}
	if allHosts.Truthy() {
		return nil, mongoerr.New(mongoerr.Code(4503200), "$planCacheStats stage supports allHosts parameter only for sharded clusters")
	}
	if w.coll == nil {
		return nil, mongoerr.New(mongoerr.Code(50933), "collection '%s' does not exist", w.ns)
	}
	l := &pipeline.List{}
	for _, p := range plancache.Of(w.coll).Entries(w.coll) {
		l.Docs = append(l.Docs, w.cachedPlan(&p))
	}
	return l, nil
}

func (w *world) cachedPlan(p *plancache.Entry) bson.Doc {
	var b bson.Builder
	b.String("version", "1").String("queryHash", p.Shape.Hash()).String("planCacheShapeHash", p.Shape.Hash()).String("planCacheKey", p.Key).
		Bool("isActive", p.Active).Int64("works", p.Works).String("worksType", "works").Date("timeOfCreation", p.Created.UnixMilli())
	b.OpenDoc("createdFromQuery").Doc("query", p.Query).Doc("sort", p.Sort).Doc("projection", p.Projection)
	if !p.Collation.IsEmpty() {
		b.Doc("collation", p.Collation)
	}
	b.Close().Doc("cachedPlan", p.Plan).OpenArray("creationExecStats")
	for i, d := range p.Stats {
		b.Doc(bson.Index(i), d)
	}
	b.Close().OpenArray("candidatePlanScores")
	for i, s := range p.Scores {
		b.Double(bson.Index(i), s)
	}
	b.Close()
	return b.Bool("indexFilterSet", p.IndexFilterSet).Int64("estimatedSizeBytes", p.Size()).String("host", w.op.Dispatcher.Host).Finish()
}
