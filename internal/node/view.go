package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/schema"
)

// resolveView follows a view down to a collection, and returns that, list with
// the pipelines of the views before it, and the view's collation. Other
// namespaces are returned unchanged.
func (n *Node) resolveView(ns schema.Namespace, list []bson.Value) (schema.Namespace, []bson.Value, bson.Doc, error) {
	var collation bson.Doc
	if startsWith(list, "$collStats") { // which is about the view itself
		return ns, list, nil, nil
	}
	for depth := 0; ns.Coll != ""; depth++ {
		c := n.Catalog.Lookup(ns)
		if c == nil || !c.IsView() {
			break
		}
		if depth == maxViewDepth {
			return ns, nil, nil, mongoerr.New(mongoerr.ViewDepthLimitExceeded, "View depth too deep or view cycle detected; maximum depth is %d", maxViewDepth)
		}
		if depth == 0 {
			collation = collationOf(c.Settings)
		}
		list = append(c.Settings.Pipeline.Slice(), list...)
		ns = schema.Namespace{DB: ns.DB, Coll: c.Settings.ViewOn}
	}
	return ns, list, collation, nil
}

// startsWith reports whether the first stage of a pipeline is the one named.
func startsWith(list []bson.Value, stage string) bool {
	if len(list) == 0 || list[0].Type != bson.TypeDocument {
		return false
	}
	name, _ := list[0].Doc().First()
	return name == stage
}

// view returns the view that the command's namespace is, or nil. To readers, a
// time-series collection is a view of its measurements.
func (n *Node) view(op *command.Op) *catalog.Collection {
	if op.HasUUID {
		return nil
	}
	if c := n.Catalog.Lookup(schema.Namespace{DB: op.DB, Coll: op.Collection}); c != nil && c.SeenAsView() {
		return c
	}
	return nil
}

// Stages are the stages that a command on a view becomes.
type Stages []bson.Value

func (s *Stages) add(name string, v bson.Value) {
	*s = append(*s, bson.Document(new(bson.Builder).Value(name, v).Finish()))
}

func (s *Stages) addDoc(name string, d bson.Doc) {
	if d != nil && !d.IsEmpty() {
		s.add(name, bson.Document(d))
	}
}

// onView runs a command on a view as an aggregation.
func (n *Node) onView(ctx context.Context, op *command.Op, list Stages, r reading) (command.Cursor, *aggregation, error) {
	a, err := n.parseAggregation(op, namespace(op), list, r)
	if err != nil {
		return nil, nil, err
	}
	cur, err := n.startAggregation(ctx, op, a)
	return cur, a, err
}

// findStages are the stages that the arguments of a find become. Errors: 167
// and 2 for arguments that a view does not take.
func findStages(a *command.Args) (Stages, error) {
	for _, name := range []string{"tailable", "awaitData", "returnKey", "showRecordId"} {
		if a.Bool(name) {
			return nil, mongoerr.New(mongoerr.InvalidPipelineOperator, "Option %s not supported on view", name)
		}
	}
	for _, name := range []string{"min", "max"} {
		if a.Has(name) && !a.Doc(name).IsEmpty() {
			return nil, mongoerr.New(mongoerr.InvalidPipelineOperator, "Option %s not supported on view", name)
		}
	}
	var list Stages
	list.addDoc("$match", a.Doc("filter"))
	if sort := a.Doc("sort"); sort != nil && !sort.Has("$natural") {
		list.addDoc("$sort", sort)
	}
	if skip := a.Int64("skip"); skip > 0 {
		list.add("$skip", bson.Int64(skip))
	}
	if limit := a.Int64("limit"); limit > 0 {
		list.add("$limit", bson.Int64(limit))
	}
	list.addDoc("$project", a.Doc("projection"))
	return list, nil
}

// findOnView answers a find on a view; it returns false if the namespace is
// not a view.
func (n *Node) findOnView(ctx context.Context, op *command.Op) (bool, error) {
	if n.view(op) == nil {
		return false, nil
	}
	list, err := findStages(&op.Args)
	if err != nil {
		return true, err
	}
	cur, a, err := n.onView(ctx, op, list, n.aggregateReading(&op.Args))
	if err != nil {
		return true, err
	}
	return true, command.WriteCursorReply(ctx, op, command.CursorSpec{
		NS: op.NS, Cursor: cur, BatchSize: op.Args.Int64Or("batchSize", command.DefaultBatch),
		SingleBatch: op.Args.Bool("singleBatch"), NoTimeout: op.Args.Bool("noCursorTimeout"), Collections: a.holds(),
		Doing: "PlanExecutor error during aggregation",
	})
}

// countStages are the stages that the arguments of a count become.
func countStages(a *command.Args) (Stages, error) {
	var list Stages
	list.addDoc("$match", a.Doc("query"))
	if skip := a.Int64("skip"); skip > 0 {
		list.add("$skip", bson.Int64(skip))
	}
	if a.Has("limit") {
		// A limit of 0, which means none elsewhere, is refused by the stage.
		limit, err := CountLimit(a.Value("limit"))
		if err != nil {
			return nil, err
		}
		list.add("$limit", bson.Int64(limit))
	}
	list.add("$count", bson.String("n"))
	return list, nil
}

// distinctStages are the stages that the arguments of a distinct become: its
// values are collected from their documents.
func distinctStages(a *command.Args) (Stages, error) {
	var list Stages
	list.addDoc("$match", a.Doc("query"))
	return list, nil
}

// countOnView answers a count on a view.
func (n *Node) countOnView(ctx context.Context, op *command.Op) (bool, error) {
	if n.view(op) == nil {
		return false, nil
	}
	list, err := countStages(&op.Args)
	if err != nil {
		return true, err
	}
	cur, _, err := n.onView(ctx, op, list, n.countReading(&op.Args))
	if err != nil {
		return true, err
	}
	defer cur.Close()
	d, err := cur.Next(ctx)
	if err != nil {
		return true, err
	}
	if d == nil {
		op.Reply.Int32("n", 0)
		return true, nil
	}
	op.Reply.Value("n", d.Lookup("n"))
	return true, nil
}

// distinctOnView answers a distinct on a view.
func (n *Node) distinctOnView(ctx context.Context, op *command.Op) (bool, error) {
	if n.view(op) == nil {
		return false, nil
	}
	op.IntegerOK = true
	if err := distinctKey(op.Args.Str("key")); err != nil {
		return true, err
	}
	list, err := distinctStages(&op.Args)
	if err != nil {
		return true, err
	}
	cur, a, err := n.onView(ctx, op, list, n.countReading(&op.Args))
	if err != nil {
		return true, err
	}
	defer cur.Close()
	values := distinctValues{seen: map[string]bool{}, collator: a.collator, op: op}
	for {
		d, err := cur.Next(ctx)
		if err != nil {
			return true, err
		}
		if d == nil {
			break
		}
		if err := exec.Elements(d, op.Args.Str("key"), values.add); err != nil {
			return true, err
		}
	}
	values.write(op.Reply)
	return true, nil
}
