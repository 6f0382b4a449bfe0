package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/query/update"
	"github.com/mayflydb/mayfly/internal/schema"
)

var explainFields = command.NewFields("explain",
	command.Value(command.Object("").Required()),
	command.Enum("verbosity", "queryPlanner", "executionStats", "allPlansExecution"),
)

// explain answers {explain: {find: …}, verbosity}. (Manual: database command
// explain.)
func (n *Node) explain() *command.Command {
	return &command.Command{
		Name: "explain", Fields: explainFields,
		Flags: command.TakesReadConcern | command.APIv1,
		Help:  "explain the plan of a command",
		Run:   n.runExplain,
	}
}

var verbosities = map[string]exec.Verbosity{
	"": exec.AllPlansExecution, "queryPlanner": exec.QueryPlanner, "executionStats": exec.ExecutionStats, "allPlansExecution": exec.AllPlansExecution,
}

// explainers parse the commands that can be explained into what the executor
// explains.
func (n *Node) explainer(name string) (*command.Fields, func(*command.Op, *command.Args) (*query, *exec.Explained, error)) {
	switch name {
	case "find":
		return findFields, n.explainFind
	case "count":
		return countFields, n.explainCount
	case "distinct":
		return distinctFields, n.explainDistinct
	case "update":
		return updateFields, n.explainUpdate
	case "delete":
		return deleteFields, n.explainDelete
	case "findAndModify", "findandmodify":
		return findAndModifyFields, n.explainFindAndModify
	}
	return nil, nil
}

func (n *Node) runExplain(ctx context.Context, op *command.Op) error {
	body := op.Body.Lookup("explain").Doc()
	verbosity := verbosities[op.Args.Str("verbosity")]
	name, _ := body.First()
	if name == "aggregate" {
		return n.explainAggregate(ctx, op, body, verbosity)
	}
	if name == "mapReduce" || name == "mapreduce" {
		return n.explainMapReduce(ctx, op, body, verbosity)
	}
	if c := n.Dispatcher.Registry.Lookup(name); c != nil && n.Dispatcher.RunsHere(op, c) != nil {
		return mongoerr.New(mongoerr.Code(50746), "Explain's child command cannot run on this node. Are you explaining a write command on a secondary?")
	}
	fields, explain := n.explainer(name)
	if fields == nil {
		if op.Dispatcher.Registry.Lookup(name) == nil {
			return mongoerr.New(mongoerr.CommandNotFound, "Explain failed due to unknown command: %s", name)
		}
		return mongoerr.New(mongoerr.IllegalOperation, "Cannot explain cmd: %s", name)
	}
	if db := body.Lookup("$db"); db.Type == bson.TypeString && db.Str() != op.DB {
		return mongoerr.New(mongoerr.InvalidNamespace, "Mismatched $db in explain command. Expected %s but got %s", op.DB, db.Str())
	}
	sub := &command.Op{DB: op.DB, NS: op.NS, Name: name, Body: body, Client: op.Client, Dispatcher: op.Dispatcher, Reply: op.Reply}
	sub.EndWith(op)
	args, err := command.Parse(sub, fields)
	if err != nil {
		return err
	}
	sub.Args, sub.Generic.Versions = args, op.Generic.Versions
	if fields == findFields || fields == distinctFields {
		if err := CheckSettingsField(sub); err != nil {
			return err
		}
	}
	if handled, err := n.explainOnView(ctx, sub, verbosity); handled || err != nil {
		return err
	}
	q, e, err := explain(sub, &sub.Args)
	if err != nil {
		return err
	}
	op.SetCollection(sub.Collection)
	op.Reply.String("explainVersion", "1")
	if err := n.Exec.Explain(ctx, q.coll, sub.NS, e, verbosity, op.Reply); err != nil {
		return err
	}
	n.writeExplainTail(op, body)
	return nil
}

// StagesOnView has for the name of a command the stages that it runs as on a view.
var StagesOnView = map[string]func(*command.Args) (Stages, error){"find": findStages, "count": countStages, "distinct": distinctStages}

// explainOnView answers an explain of a command on a view; it returns false
// if the namespace is not a view.
func (n *Node) explainOnView(ctx context.Context, op *command.Op, v exec.Verbosity) (bool, error) {
	become := StagesOnView[op.Name]
	if become == nil || n.view(op) == nil {
		return false, nil
	}
	list, err := become(&op.Args)
	if err != nil {
		return true, err
	}
	r := n.countReading(&op.Args)
	if op.Name == "find" {
		r = n.aggregateReading(&op.Args)
	}
	op.Reply.String("explainVersion", "1")
	a, err := n.parseAggregation(op, namespace(op), list, r)
	if err != nil {
		return true, err
	}
	if err := n.Exec.ExplainAggregate(ctx, a.coll, a.ns.String(), a.Query, a.pipeline, a.run, v, op.Reply); err != nil {
		return true, err
	}
	n.writeExplainTail(op, op.Body)
	return true, nil
}

// explainTail is an upper bound for the end of explain's reply without the
// command, in bytes.
const explainTail = 64 << 10

// writeExplainTail writes the fields at the end of all explains. A command for
// which there is no room is left out, with the server's warning.
func (n *Node) writeExplainTail(op *command.Op, body bson.Doc) {
	b := op.Reply
	if hash := QueryShapeHash(op.DB, body); hash != "" {
		b.String("queryShapeHash", hash)
	}
	if b.Len()+len(body) < schema.MaxDocument-explainTail {
		b.OpenDoc("command").Fields(body)
		if !body.Has("$db") {
			b.String("$db", op.DB)
		}
		b.Close()
	} else {
		b.String("warning", "output truncated due to nearing BSON max user size")
	}
	b.Doc("serverInfo", n.Process.ServerInfo())
	b.OpenDoc("serverParameters")
	for _, q := range planParameters {
		b.Value(q.name, q.value)
	}
	b.Close()
}

func (n *Node) explainFind(op *command.Op, a *command.Args) (*query, *exec.Explained, error) {
	q, err := n.findQuery(new(statementMemory), op, a, "filter")
	if err != nil {
		return nil, nil, err
	}
	return q, &exec.Explained{Query: q.Query}, nil
}

func (n *Node) explainCount(op *command.Op, a *command.Args) (*query, *exec.Explained, error) {
	q, err := n.countQuery(op, a)
	if err != nil {
		return nil, nil, err
	}
	return q, &exec.Explained{Query: q.Query, Counting: true}, nil
}

func (n *Node) explainDistinct(op *command.Op, a *command.Args) (*query, *exec.Explained, error) {
	q, err := n.distinctQuery(op, a)
	if err != nil {
		return nil, nil, err
	}
	return q, &exec.Explained{Query: q.Query, Adjust: exec.DistinctPlan(q.Query, a.Str("key"))}, nil
}

func (n *Node) explainUpdate(op *command.Op, a *command.Args) (*query, *exec.Explained, error) {
	statements := a.Structs("updates")
	if len(statements) != 1 {
		return nil, nil, mongoerr.New(mongoerr.InvalidLength, "explained write batches must be of size 1")
	}
	c, err := n.collection(op)
	if err != nil {
		return nil, nil, err
	}
	u, err := n.parseUpdate(new(writeMemory), op, c, &statements[0], a.Doc("let"))
	if err != nil {
		return nil, nil, err
	}
	e := explainedUpdate(u)
	e.Single, e.Simple = !u.Multi, true
	return &query{Query: u.Query, coll: c}, e, nil
}

func explainedUpdate(u *exec.Update) *exec.Explained {
	return &exec.Explained{Query: u.Query, Kind: "UPDATE", Upserts: u.Upsert, Would: func(d bson.Doc) (bool, error) {
		ctx := &update.Context{Env: u.Query.Env}
		if u.Update.NeedsArrayIndex() {
			_, at, err := u.Query.Filter.MatchArrayIndex(d, nil)
			if err != nil {
				return false, err
			}
			ctx.ArrayIndex = at
		}
		_, changed, err := u.Update.Apply(d, ctx)
		return changed, err
	}}
}

func (n *Node) explainDelete(op *command.Op, a *command.Args) (*query, *exec.Explained, error) {
	statements := a.Structs("deletes")
	if len(statements) != 1 {
		return nil, nil, mongoerr.New(mongoerr.InvalidLength, "explained write batches must be of size 1")
	}
	c, err := n.collection(op)
	if err != nil {
		return nil, nil, err
	}
	if err := CheckLimit(statements[0].Double("limit")); err != nil {
		return nil, nil, err
	}
	d, err := n.parseDelete(new(writeMemory), op, c, &statements[0], a.Doc("let"))
	if err != nil {
		return nil, nil, err
	}
	kind := "DELETE"
	if d.Multi {
		kind = "BATCHED_DELETE"
	}
	return &query{Query: d.Query, coll: c}, &exec.Explained{Query: d.Query, Kind: kind, Single: !d.Multi, Simple: true}, nil
}

func (n *Node) explainFindAndModify(op *command.Op, a *command.Args) (*query, *exec.Explained, error) {
	if err := checkFindAndModify(a); err != nil {
		return nil, nil, err
	}
	if len(n.Catalog.Collections(op.DB)) == 0 {
		return nil, nil, mongoerr.New(mongoerr.NamespaceNotFound, "database %s does not exist", op.DB)
	}
	c, err := n.collection(op)
	if err != nil {
		return nil, nil, err
	}
	q, _, err := n.findAndModifyQuery(op, c, a)
	if err != nil {
		return nil, nil, err
	}
	q.coll = c
	if !q.Sort.IsEmpty() {
		q.Limit = 1
	}
	if a.Bool("remove") {
		return q, &exec.Explained{Query: q.Query, Kind: "DELETE", Single: true, Returns: true}, nil
	}
	u, err := n.parseModification(new(update.Options), q.scope, a.Value("update"), arrayFilters(a), nil)
	if err != nil {
		return nil, nil, err
	}
	e := explainedUpdate(&exec.Update{Query: q.Query, Update: u, Upsert: a.Bool("upsert")})
	e.Single, e.Returns = true, true
	return q, e, nil
}
