package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
)

var findFields = command.NewFields("find",
	command.CollectionOrUUID(),
	command.Object("filter").NotNull(),
	command.Object("projection"),
	command.Object("sort"),
	command.Hint("hint"),
	command.SafeInt64("skip").Min(0),
	command.SafeInt64("limit").Min(0),
	command.SafeInt64("batchSize").Min(0),
	command.OptionalBool("singleBatch"),
	command.OptionalBool("allowDiskUse"),
	command.Object("min"),
	command.Object("max"),
	command.OptionalBool("returnKey"),
	command.OptionalBool("showRecordId"),
	command.OptionalBool("tailable"),
	command.Ignored("oplogReplay"),
	command.OptionalBool("noCursorTimeout"),
	command.OptionalBool("awaitData"),
	command.OptionalBool("allowPartialResults"),
	command.OptionalBool("mirrored"),
	command.Object("let"),
	command.Object("collation"),
	command.OptionalBool("readOnce"),
	command.Int64("term"),
	command.UUID("collectionUUID"),
	command.OptionalBool("$_requestResumeToken").Unstable(),
	command.Object("$_resumeAfter").Unstable(),
	command.Object("$_startAt").Unstable(),
	command.Object(SettingsField).Unstable(),
)

// find answers {find: collection, filter, …} with a cursor over the documents
// that match. (Manual: database command find.)
func (n *Node) find() *command.Command {
	return &command.Command{
		Name: "find", Kind: command.KindQuery, Fields: findFields,
		Flags: command.ChecksOwner | command.TakesReadConcern | command.TakesSnapshot | command.APIv1 | command.Transaction,
		Help:  "query for documents",
		Run:   n.runFind,
	}
}

// findQuery turns the arguments of a find into a query.
func (n *Node) findQuery(m *statementMemory, op *command.Op, a *command.Args, filter string) (*query, error) {
	q, err := n.queryIn(m, op, a.Doc("let"), a.Doc("collation"), a.Doc(filter))
	if err != nil {
		return nil, err
	}
	q.Skip, q.Limit = a.Int64("skip"), a.Int64("limit")
	q.Hint = a.Value("hint")
	q.Preferred = n.settingsOf(op).preferred(namespace(op))
	q.Min, q.Max = a.Doc("min"), a.Doc("max")
	q.ReturnKey, q.Tailable = a.Bool("returnKey"), a.Bool("tailable")
	q.AllowDiskUse = a.BoolOr("allowDiskUse", n.knobs.allowDiskUse.Load())
	if q.Sort, err = sortkey.Parse(a.Doc("sort")); err != nil {
		return nil, err
	}
	if a.Bool("awaitData") && !q.Tailable {
		return nil, mongoerr.New(mongoerr.FailedToParse, "Cannot set 'awaitData' without also setting 'tailable'")
	}
	if q.Tailable && !q.Sort.IsEmpty() && q.Sort.Natural() != 1 {
		return nil, mongoerr.New(mongoerr.BadValue, "error processing query: ns=%s tailable cursor requested with a sort other than {$natural: 1}", op.NS)
	}
	if q.Tailable && searchesNear(q.Filter.Root()) {
		return nil, mongoerr.New(mongoerr.BadValue, "Tailable cursors and geo $near cannot be used together")
	}
	if q.Tailable && match.TextIn(q.Filter.Root()) != nil {
		return nil, mongoerr.New(mongoerr.BadValue, "text and tailable cursor not allowed in same query")
	}
	if len(q.Sort.Parts) > 1 && a.Doc("sort").Has("$natural") {
		return nil, mongoerr.New(mongoerr.BadValue, "Cannot include '$natural' in compound sort: %s", a.Doc("sort"))
	}
	if q.Sort.Natural() != 0 && hintsIndex(q.Hint) {
		return nil, mongoerr.New(mongoerr.BadValue, "index hint not allowed with $natural sort order")
	}
	if !q.Min.IsEmpty() && !q.Max.IsEmpty() && !sameNames(q.Min, q.Max) {
		return nil, mongoerr.New(mongoerr.Code(51176), "min and max must have the same field names")
	}
	if q.Tailable && a.Bool("singleBatch") {
		return nil, mongoerr.New(mongoerr.BadValue, "Cannot use tailable option with the 'singleBatch' option")
	}
	q.ShowRecordID = a.Bool("showRecordId") && !q.ReturnKey
	if err := q.resume(a); err != nil {
		return nil, err
	}
	if err := q.project(a.Doc("projection")); err != nil {
		return nil, err
	}
	return q, q.checkMeta(q.Projection)
}

// hintsIndex reports whether a hint names an index, and not $natural.
func hintsIndex(hint bson.Value) bool {
	return !hint.IsMissing() && (hint.Type != bson.TypeDocument || !hint.Doc().IsEmpty() && !hint.Doc().Has("$natural"))
}

// sameNames reports whether two documents have the same fields in the same order.
func sameNames(a, b bson.Doc) bool {
	var names []string
	for name := range a.All() {
		names = append(names, name)
	}
	for name := range b.All() {
		if len(names) == 0 || names[0] != name {
			return false
		}
		names = names[1:]
	}
	return len(names) == 0
}

func (n *Node) runFind(ctx context.Context, op *command.Op) error {
	if err := n.checkExpected(op); err != nil {
		return err
	}
	if err := n.rejected(op); err != nil {
		return err
	}
	if handled, err := n.findOnView(ctx, op); handled || err != nil {
		return err
	}
	m := findings.Get().(*finding)
	q, err := n.findQuery(&m.statementMemory, op, &op.Args, "filter")
	if err != nil {
		return err
	}
	q.Memory = &m.run
	if q.Tailable && q.coll != nil && !q.coll.Capped {
		return mongoerr.New(mongoerr.BadValue, "error processing query: ns=%s tailable cursor requested on non capped collection", op.NS)
	}
	if q.Tailable && q.NoScan && !q.Filter.Text().IsEmpty() {
		return mongoerr.New(mongoerr.NoQueryExecutionPlans, "error processing query: ns=%s planner returned error :: caused by :: Running with 'notablescan', so tailable cursors (which always do a table scan) are not allowed", op.NS)
	}
	q.Batch = op.Args.Int64Or("batchSize", 0)
	cur, err := n.Exec.Find(ctx, q.coll, q.Query)
	if err != nil {
		return err
	}
	observe(op, cur)
	// A tailable cursor on a collection without documents is dead from the start.
	dead := q.Tailable && (q.coll == nil || q.coll.Count() == 0)
	err = command.WriteCursorReply(ctx, op, command.CursorSpec{
		NS: op.NS, Cursor: cur, BatchSize: op.Args.Int64Or("batchSize", command.DefaultBatch),
		SingleBatch: op.Args.Bool("singleBatch") || dead, Tailable: q.Tailable, AwaitData: op.Args.Bool("awaitData"),
		NoTimeout: op.Args.Bool("noCursorTimeout"),
	})
	if err != nil {
		return mongoerr.Under(err, "Executor error during find command: "+op.NS)
	}
	if op.Stats.CursorID == 0 && cur.Express() {
		op.Memory = m
	}
	return nil
}
