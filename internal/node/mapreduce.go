package node

import (
	"context"
	"errors"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/schema"
)

var mapReduceFields = command.NewFields("mapReduce",
	command.Collection(),
	command.Any("map").Required(),
	command.Any("reduce").Required(),
	command.Any("out").Required(),
	command.Object("query"),
	command.Object("sort"),
	command.Object("collation"),
	command.SafeInt64("limit"),
	command.Any("finalize"),
	command.Any("scope"),
	command.Bool("verbose"),
	command.Bool("bypassDocumentValidation"),
	command.Bool("jsMode"),
)

// mapReduce answers {mapReduce: collection, map, reduce, out, …} by a pipeline, as
// the server does. (Manual: database command mapReduce.)
func (n *Node) mapReduce() *command.Command {
	return &command.Command{
		Name: "mapReduce", Aliases: []string{"mapreduce"}, Fields: mapReduceFields,
		Flags: command.TakesWriteConcern,
		Help:  "Runs the mapReduce command. See http://dochub.mongodb.org/core/mapreduce for details.",
		Run:   n.runMapReduce,
	}
}

// mapReduction is a mapReduce command, parsed.
type mapReduction struct {
	mapper, reduce, finalize bson.Value // finalize may be Missing
	out                      mapReduceOut
	reading                  reading
	pipeline                 []bson.Value
}

func (n *Node) runMapReduce(ctx context.Context, op *command.Op) error {
	m, err := parseMapReduce(op.DB, &op.Args)
	if err != nil {
		return err
	}
	a, err := n.mapReduceAggregation(op, m)
	if err != nil {
		return err
	}
	results, err := n.collectMapReduce(ctx, op, a)
	if err != nil {
		return mongoerr.Under(err, "MapReduce internal error")
	}
	m.out.write(op.Reply, results)
	return nil
}

// mapReduceAggregation parses the pipeline of a mapReduce.
func (n *Node) mapReduceAggregation(op *command.Op, m *mapReduction) (*aggregation, error) {
	if n.view(op) != nil {
		return nil, mongoerr.New(mongoerr.CommandNotSupportedOnView, "mapReduce on a view is not supported")
	}
	m.reading.allowDiskUse = n.knobs.allowDiskUse.Load()
	a, err := n.parseAggregation(op, schema.Namespace{DB: op.DB, Coll: op.Collection}, m.pipeline, m.reading)
	if err != nil {
		return nil, m.translate(err)
	}
	return a, nil
}

// collectMapReduce runs the pipeline, and returns what it delivers as an array.
func (n *Node) collectMapReduce(ctx context.Context, op *command.Op, a *aggregation) (bson.Doc, error) {
	cur, err := n.startAggregation(ctx, op, a)
	if err != nil {
		return nil, err
	}
	defer cur.Close()
	var b bson.Builder
	b.Reset(nil)
	for i := 0; ; i++ {
		d, err := cur.Next(ctx)
		if err != nil {
			return nil, err
		}
		if d == nil {
			return b.Finish(), nil
		}
		if size := b.Len() + len(d); size > bson.MaxInternalSize {
			return nil, bson.SizeError(size, d)
		}
		b.Doc(bson.Index(i), d)
	}
}

// parseMapReduce reads the arguments of a mapReduce on a database.
func parseMapReduce(db string, a *command.Args) (*mapReduction, error) {
	m := &mapReduction{reading: reading{collation: a.Doc("collation"), mapReduce: true}}
	var err error
	if m.mapper, err = mapReduceCode("map", a.Value("map")); err != nil {
		return nil, err
	}
	if m.reduce, err = mapReduceCode("reduce", a.Value("reduce")); err != nil {
		return nil, err
	}
	if m.out, err = parseMapReduceOut(db, a.Value("out")); err != nil {
		return nil, err
	}
	if v := a.Value("finalize"); !v.IsMissing() && v.Type != bson.TypeNull {
		if m.finalize, err = mapReduceCode("finalize", v); err != nil {
			return nil, err
		}
	}
	if v := a.Value("scope"); !v.IsMissing() && v.Type != bson.TypeNull {
		if v.Type != bson.TypeDocument {
			return nil, mongoerr.New(mongoerr.BadValue, "'scope' must be an object")
		}
		m.reading.globals = v.Doc()
	}
	m.pipeline = m.stages(a)
	return m, nil
}

// mapReduceCode reads a function. It becomes code, which no expression takes for
// a field path.
func mapReduceCode(name string, v bson.Value) (bson.Value, error) {
	if v.Type != bson.TypeString && v.Type != bson.TypeCode {
		return v, mongoerr.New(mongoerr.BadValue, "'%s' must be of string or code type", name)
	}
	return bson.Code(v.Str()), nil
}

// stages returns the pipeline of a mapReduce.
func (m *mapReduction) stages(a *command.Args) []bson.Value {
	var list Stages
	if a.Has("query") {
		list.add("$match", bson.Document(a.Doc("query")))
	}
	if a.Has("sort") {
		list.add("$sort", bson.Document(a.Doc("sort")))
	}
	if a.Has("limit") {
		list.add("$limit", bson.Int64(a.Int64("limit")))
	}
	var b bson.Builder
	b.Int32("_id", 0).OpenDoc("emits").OpenDoc("$_internalJsEmit").Value("eval", m.mapper).String("this", "$$ROOT").Close().Close()
	list.add("$project", bson.Document(b.Finish()))
	list.add("$unwind", bson.String("$emits"))
	b = bson.Builder{}
	b.String("_id", "$emits.k").OpenDoc("value").OpenDoc("$_internalJsReduce")
	b.String("data", "$emits").Value("eval", m.reduce).Close().Close()
	list.add("$group", bson.Document(b.Finish()))
	if !m.finalize.IsMissing() {
		list.add("$project", valueBy(m.finalize, bson.String("$_id"), bson.String("$value")))
	}
	if name, arg := m.out.stage(m); name != "" {
		list.add(name, arg)
	}
	return list
}

// valueBy is the projection {value: f(args…)}.
func valueBy(f bson.Value, args ...bson.Value) bson.Value {
	b := new(bson.Builder).OpenDoc("value").OpenDoc("$function").Value("body", f).Value("args", bson.Array(args...)).String("lang", "js")
	return bson.Document(b.Close().Close().Finish())
}

// translate makes the errors of the pipeline those of the command.
func (m *mapReduction) translate(err error) error {
	var e *mongoerr.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code {
	case mongoerr.InvalidNamespace:
		return mongoerr.New(e.Code, "Invalid output namespace %s.%s for MapReduce", m.out.db, m.out.coll)
	case 15976:
		return mongoerr.New(e.Code, "The mapReduce sort option must have at least one sort key")
	case 15958, 5107201:
		return mongoerr.New(15958, "The limit specified to mapReduce must be positive")
	case 17385, 31319:
		return mongoerr.New(e.Code, "Can't output mapReduce results to special collection %s", m.out.coll)
	case 31320, 31321:
		return mongoerr.New(e.Code, "Can't output mapReduce results to internal DB %s", m.out.db)
	}
	return mongoerr.Under(err, "MapReduce internal error")
}

// explainMapReduce answers an explain of a mapReduce.
func (n *Node) explainMapReduce(ctx context.Context, op *command.Op, body bson.Doc, v exec.Verbosity) error {
	sub := &command.Op{DB: op.DB, NS: op.NS, Name: "mapReduce", Body: body, Client: op.Client, Dispatcher: op.Dispatcher, Reply: op.Reply}
	sub.EndWith(op)
	args, err := command.Parse(sub, mapReduceFields)
	if err != nil {
		return err
	}
	sub.Args = args
	m, err := parseMapReduce(sub.DB, &sub.Args)
	if err != nil {
		return err
	}
	a, err := n.mapReduceAggregation(sub, m)
	if err != nil {
		return err
	}
	op.Reply.String("explainVersion", "1")
	if err := n.Exec.ExplainAggregate(ctx, a.coll, a.ns.String(), a.Query, a.pipeline, a.run, v, op.Reply); err != nil {
		return err
	}
	n.writeExplainTail(op, body)
	return nil
}
